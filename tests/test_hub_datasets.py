"""Text and labeled data of the Hugging Face Hub by URL, from a local server of its API."""

import json
from pathlib import Path

import pytest

from cloze.cli import main
from cloze.remote_files import list_files, open_url, remote_size, remote_version
from hub_server import Hub

URL = "hf://datasets/ardent/films"
TEXT = "\n\n".join(f"The film {n} was good.\nThe dog ran down from the hill {n}." for n in range(40)) + "\n"
TABLE = "text\tlabel\n" + "the film was good .\t1\na bad film .\t0\n" * 10


@pytest.fixture
def commit(hub: Hub) -> str:
    files = {
        "texts/a.txt": TEXT.encode(),
        "texts/b.txt": TEXT.replace("dog", "cat").encode(),
        "train.tsv": TABLE.encode(),
        "README.md": b"films\n",
    }
    return hub.add(hub.datasets, "ardent/films", files)


def build(source: str, output: Path) -> int:
    command = f"corpus {source} -o {output} --vocabulary cloze-mini --workers 1 --quiet"
    return main(command.split())


def test_files_are_listed_read_and_versioned(hub, commit):
    files = [f"{URL}/texts/{x}.txt" for x in "ab"]
    assert list_files(f"{URL}/texts") == list_files(f"{URL}/texts/*.txt") == files
    assert remote_size(f"{URL}/train.tsv") == len(TABLE)
    with open_url(f"{URL}/train.tsv") as stream:
        stream.seek(5)
        assert stream.read() == TABLE.encode()[5:]
    with open_url(f"hf://datasets/ardent/films@{commit}/train.tsv") as stream:
        assert stream.read() == TABLE.encode()
    assert remote_version(f"{URL}/train.tsv") != remote_version(f"{URL}/README.md")


def test_labeled_data_of_the_hub(hub, commit, tmp_path, capsys):
    local = tmp_path / "train.tsv"
    local.write_text(TABLE)
    scores = []
    for data in (f"{URL}/train.tsv", str(local)):
        assert main(["baseline", "classification", "-d", data, "--json", "--quiet"]) == 0
        scores.append([baseline["scores"] for baseline in json.loads(capsys.readouterr().out)["baselines"]])
    assert scores[0] == scores[1]


@pytest.mark.protected
@pytest.mark.parametrize(
    ("url", "settings", "message"),
    [
        (f"{URL}/other.txt", {}, "no such file"),
        ("hf://datasets/ardent/other/a.txt", {}, "no such"),
        (f"{URL}/texts/a.txt", {"status": 403}, "the token may not read it. Use a token with read access."),
        (f"{URL}/texts/a.txt", {"is_private": True}, "no such"),
    ],
)
def test_failures_are_one_line(hub, commit, tmp_path, capsys, url, settings, message):
    for name, value in settings.items():
        setattr(hub if hasattr(hub, name) else hub.datasets["ardent/films"], name, value)
    assert build(url, tmp_path / "data") == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: {url}: {message}")
    assert not (tmp_path / "data").exists()


def test_offline_is_one_line(hub, commit, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert build(f"{URL}/texts", tmp_path / "data") == 2
    assert f"error: {URL}/texts: cannot be downloaded while HF_HUB_OFFLINE is set" in capsys.readouterr().err
    assert hub.requests == []
