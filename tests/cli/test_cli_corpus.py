"""`cloze corpus` over several commands: job arrays, appending, and what is told of duplicates."""

import json
import shlex

import pytest
from shop import Shop

from cloze.cli import main
from cloze.corpus.store import Dataset
from helpers import files_of


def run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(shlex.split(command))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_vocabulary_is_that_of_a_run(shop: Shop, tmp_path, capsys):
    for name in ("vocab", "run"):
        command = f"corpus {shop.text} --vocab {getattr(shop, name)} --format paragraphs -o {tmp_path}/{name}"
        assert run(command, capsys)[0] == 0
    assert files_of(tmp_path / "vocab")["vocab.txt"] == files_of(tmp_path / "run")["vocab.txt"]


def test_it_is_told_where_nothing_is_held_out(shop: Shop, tmp_path, capsys):
    (tmp_path / "text").write_text("One line of text. And another.\n", "utf-8")
    code, _, err = run(f"corpus {tmp_path}/text --vocab {shop.vocab} -o {tmp_path}/data", capsys)
    assert code == 0
    assert "warning: of 1 documents none is held out to measure on" in err
    (tmp_path / "lines").write_text("One line of text.\n\nAnother of them.\n", "utf-8")
    err = run(f"corpus {tmp_path}/lines --vocab {shop.vocab} -o {tmp_path}/lines-data", capsys)[2]
    assert "warning: fewer than 4 documents have two sentences" in err
    (tmp_path / "large").write_text("One.\nTwo.\n\n" * 8 + "And a line of text.\n" * 99, "utf-8")
    err = run(f"corpus {tmp_path}/large --vocab {shop.vocab} -o {tmp_path}/large-data", capsys)[2]
    assert "warning: one document holds 9" in err
    several = f"corpus {shop.text} --vocab {shop.vocab} -o {tmp_path}/several --format paragraphs"
    assert "warning" not in run(several, capsys)[2]


def test_a_job_array_makes_the_data_set_of_one_command(shop: Shop, tmp_path, capsys):
    build = f"corpus {shop.text} --vocab {shop.vocab} --workers 1 --format paragraphs"
    assert run(f"{build} -o {tmp_path}/one --quiet", capsys)[0] == 0
    for number in (2, 1):
        code, out, _ = run(f"{build} -o {tmp_path}/two --task {number}/2", capsys)
        assert (code, out) == (0, f"task {number}/2 of {tmp_path}/two is through\n")
        if number == 2:
            code, out, err = run(f"corpus merge {tmp_path}/two --quiet", capsys)
            assert (code, out) == (2, "")
            assert "1 of 1 stretches of text are not finished" in err
            assert "tasks 1 of 2 are not through" in err
    code, out, _ = run(f"corpus merge {tmp_path}/two", capsys)
    assert code == 0
    assert out.startswith(f"wrote {tmp_path}/two: ")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_a_task_replaces_nothing(shop: Shop, tmp_path, capsys):
    build = f"corpus {shop.text} --vocab {shop.vocab} --workers 1 --format paragraphs -o {tmp_path}/data"
    assert run(build, capsys)[0] == 0
    code, _, err = run(f"{build} --task 1/1 --overwrite", capsys)
    assert code == 2
    assert "--overwrite: does not go with --task. Leave it out, and say it to cloze corpus merge" in err
    assert run(f"{build} --task 1/1", capsys)[0] == 0
    code, _, err = run(f"corpus merge {tmp_path}/data", capsys)
    assert code == 2
    assert "exists already" in err
    assert run(f"corpus merge {tmp_path}/data --overwrite", capsys)[0] == 0


def test_a_copy_that_waits_for_its_store_is_known_by_what_made_it(shop: Shop, tmp_path, monkeypatch, capsys):
    asked: list[object] = []
    monkeypatch.setattr("cloze.stores.write_to", lambda *args, **how: asked.append(how["asked"]()))
    (tmp_path / "own_splitter.py").write_text("def cut(text):\n    return [text]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    commands = (
        f"corpus {shop.text} --vocab {shop.vocab} --splitter own_splitter:cut -o s3://library/data",
        f"vocab {shop.text} -o s3://library/vocab",
    )
    for command in commands:
        run(command, capsys)
        run(command, capsys)
        assert repr(asked[-1]) == repr(asked[-2])
    with (tmp_path / "own_splitter.py").open("a") as stream:
        stream.write("# mended\n")
    run(commands[0], capsys)
    assert repr(asked[-1]) != repr(asked[0])
    monkeypatch.setattr("importlib.metadata.version", lambda name: "another")
    for command, before in zip(commands, (asked[-1], asked[2]), strict=True):
        run(command, capsys)
        assert repr(asked[-1]) != repr(before)


def test_more_text_is_appended(shop: Shop, tmp_path, capsys):
    more = "It was a dark and stormy night. The rain fell in torrents.\nThe end of it was near.\n"
    (tmp_path / "more").write_text(more)
    text = shop.text.read_text()
    (tmp_path / "both").write_text(f"{text}\n\n{more}")
    data = tmp_path / "data"
    assert (
        run(f"corpus {shop.text} --vocab {shop.vocab} -o {data} --format paragraphs --quiet", capsys)[0] == 0
    )
    before = Dataset.open(data)
    command = f"corpus {tmp_path}/both -o {data} --append --format paragraphs --workers 1"
    code, out, err = run(f"{command} --json", capsys)
    assert code == 0
    result = json.loads(out)
    assert (result["documents"], result["duplicate_documents"]["dropped"]) == (1, before.facts.documents)
    assert f"{before.facts.documents:,} documents stood before and were dropped" in err
    after = Dataset.open(data)
    assert after.facts.documents == before.facts.documents + 1
    assert after.facts.held_out_below == before.facts.held_out_below
