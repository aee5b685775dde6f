"""Models by their names on the Hugging Face Hub: a local server of its API, its failures, and a cache offline."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import cloze
from cloze.cli import main
from cloze.config import read_toml
from cloze.hub import HubName, parse_hub_name
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import load_model
from helpers import read_tree
from hub_server import Hub

# of huggingface_hub's uploads
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

NAME = "ardent/tiny-bert"
URL = f"hf://{NAME}"
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "good", "bad", "film", "was", ".", "##s")
TEXT = "the film was [MASK] ."
SECRETS = ("modeling.py", "training_args.bin", "tf_model.h5", "optimizer.pt", "onnx/model.onnx")
"""Files of repositories that cloze does not read."""


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked-LM model as transformers writes it, beside files that cloze does not read."""
    transformers = pytest.importorskip("transformers")
    directory = tmp_path_factory.mktemp("written")
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 28}
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes)
    transformers.BertForPreTraining(config).save_pretrained(directory)
    (directory / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    table = json.loads((directory / "config.json").read_text())
    table["auto_map"] = {"AutoModel": "modeling.Model"}
    (directory / "config.json").write_text(json.dumps(table))
    (directory / "README.md").write_text("---\nlicense: mit\n---\n\n# A tiny BERT\n")
    (directory / "onnx").mkdir()
    for name in SECRETS:
        (directory / name).write_bytes(b"raise AssertionError\n")
    return directory


@pytest.fixture
def commit(hub: Hub, written: Path) -> str:
    return hub.add_model(NAME, written)


def error_of(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> str:
    """Return the one line that a command prints, without "error: "."""
    capsys.readouterr()
    assert main([*words]) == code
    err = capsys.readouterr().err
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0].removeprefix("error: ")


def snapshot(hub: Hub, commit: str) -> Path:
    cache = Path(os.environ["HF_HOME"]) / "hub"
    return cache / f"models--{NAME.replace('/', '--')}" / "snapshots" / commit


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("hf://org/name", HubName("org/name")),
        (Path("hf://org/name"), HubName("org/name")),
        ("hf://org/name@v1.0", HubName("org/name", "v1.0")),
        (Path("hf://org/name@refs/pr/1"), HubName("org/name", "refs/pr/1")),
        ("hf://bert-base-uncased", HubName("bert-base-uncased")),
        ("org/name", None),
        ("hf:name", None),
    ],
)
def test_names_are_parsed_as_text_and_as_paths(name, parsed):
    assert parse_hub_name(name) == parsed


@pytest.mark.protected
@pytest.mark.parametrize(
    "name",
    ["hf://", "hf://a/b/c", "hf://a/b@", "hf://../x", "hf://a/b@../x", "hf://datasets/a", "hf://a--b/c"],
)
def test_other_texts_are_no_names(name):
    with pytest.raises(cloze.InputError, match="is not the name of a model on the Hub"):
        parse_hub_name(name)


def test_a_name_works_in_shell_and_python_and_downloads_what_is_read(hub, commit, written, capsys):
    assert main(["fill", "-m", URL, TEXT, "--json"]) == 0
    out, err = capsys.readouterr()
    assert f"{URL}: commit {commit}" in err
    assert sorted(hub.downloads()) == ["README.md", "config.json", "model.safetensors", "vocab.txt"]
    assert main(["fill", "-m", str(written), TEXT, "--json"]) == 0
    assert json.loads(out) == json.loads(capsys.readouterr().out)
    before = len(hub.downloads())
    fill_mask = cloze.FillMask.load(Path(URL))
    assert repr(fill_mask).startswith(f"FillMask({NAME!r}")
    encoder = cloze.load_encoder(f"{URL}@{commit}")
    assert torch.equal(
        encoder.embeddings.word_embeddings.weight,
        load_file(written / "model.safetensors")["bert.embeddings.word_embeddings.weight"],
    )
    assert len(hub.downloads()) == before


def test_a_tokenizer_downloads_no_weights(hub, commit):
    assert cloze.load_tokenizer(URL).tokens == WORDS
    assert hub.downloads() == ["vocab.txt"]
    with pytest.raises(cloze.InputError, match=r"is in the cache of the Hub without config.json\."):
        cloze.FillMask.load(NAME)


@pytest.mark.protected
def test_sharded_weights_and_sentence_transformers_settings(hub, written, tmp_path):
    transformers = pytest.importorskip("transformers")
    sharded = tmp_path / "sharded"
    model = transformers.BertModel.from_pretrained(written)
    model.save_pretrained(sharded, max_shard_size="8KB")
    (sharded / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (sharded / "modules.json").write_text(json.dumps(modules))
    (sharded / "1_Pooling").mkdir()
    (sharded / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    shards = {path.name for path in sharded.glob("model-*.safetensors")}
    assert len(shards) > 1
    (sharded / "other").mkdir()
    (sharded / "other/model-1.safetensors").write_bytes(b"not of this model")
    hub.add_model(NAME, sharded)
    embedder = cloze.Embedder.load(URL)
    assert embedder.output.pooling == "max"
    assert {*hub.downloads()} >= shards | {"1_Pooling/config.json", "model.safetensors.index.json"}
    assert "other/model-1.safetensors" not in hub.downloads()
    vectors = cloze.Embedder.load(sharded)(["the film was good ."])
    assert (embedder(["the film was good ."]) == vectors).all()


@pytest.mark.protected
def test_the_cache_is_shared_with_transformers(hub, commit, tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    from huggingface_hub import snapshot_download

    load_model(resolve_checkpoint(URL))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    cache = str(tmp_path / "hf/hub")
    theirs = transformers.BertForMaskedLM.from_pretrained(NAME, cache_dir=cache, local_files_only=True)
    assert theirs.config.vocab_size == len(WORDS)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "other"))
    snapshot_download(NAME, cache_dir=tmp_path / "other")
    hub.requests.clear()
    assert resolve_checkpoint(NAME).name == commit
    assert hub.requests == []
    assert resolve_checkpoint(URL).name == commit
    assert hub.downloads() == []


@pytest.mark.protected
def test_a_bare_name_never_sends_anything(hub, commit, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    message = error_of(capsys, "fill", "-m", NAME, TEXT, code=2)
    what = f"{NAME}: no such directory, and no such model in the cache of the Hub."
    assert message == f"{what} {URL} downloads it."
    assert hub.requests == []
    resolve_checkpoint(URL)
    hub.requests.clear()
    assert main(["fill", "-m", NAME, TEXT]) == 0
    assert f"{NAME}: commit {commit}, from the cache" in capsys.readouterr().err
    assert hub.requests == []
    (tmp_path / "ardent").mkdir()
    line = error_of(capsys, "fill", "-m", "ardent/other", TEXT, code=2)
    assert line.startswith("ardent/other/config.json: no")
    assert hub.requests == []


def test_a_revision_is_a_branch_a_tag_or_a_commit(hub, commit, written, tmp_path):
    other = hub.add(hub.models, NAME, read_tree(written) | {"README.md": b"other"}, "refs/pr/1")
    hub.models[NAME].refs["v1.0"] = commit
    assert resolve_checkpoint(f"{URL}@refs/pr/1").name == other
    assert resolve_checkpoint(f"{URL}@v1.0").name == commit
    hub.requests.clear()
    assert resolve_checkpoint(f"{URL}@{commit}").name == commit
    assert hub.requests == []  # a commit always has the same files
    assert resolve_checkpoint(URL).name == commit
    newest = hub.add(hub.models, NAME, read_tree(written) | {"vocab.txt": b"[PAD]\n"})
    assert resolve_checkpoint(URL).name == newest
    assert hub.downloads() == ["vocab.txt"]


@pytest.mark.protected
@pytest.mark.parametrize(
    ("name", "settings", "code", "message"),
    [
        (URL, {"is_private": True}, 2, "no such repository at {url}, or a private one. Check the name"),
        (URL, {"is_gated": True}, 2, "its authors restrict the access to it. Ask for access at {url}/"),
        (URL, {"throttled": 9, "retry_after": "3600"}, 1, "too many requests. Run it again in 3600 seconds."),
        (URL, {"throttled": 9, "retry_after": None}, 1, "too many requests. Run it again later."),
        (
            URL,
            {"status": 500},
            1,
            "{url} answers with error 500: an error of the server. Run it again later.",
        ),
        (URL, {"status": 403}, 2, "the token may not read it. Use a token with read access."),
        ("hf://ardent/other", {}, 2, "no such repository at {url}, or a private one. Check the name, or set"),
        (f"{URL}@v9", {}, 2, "no such revision. Give a branch, a tag or a commit."),
    ],
)
def test_failures_are_one_line(hub, commit, capsys, name, settings, code, message):
    for setting, value in settings.items():
        setattr(hub if hasattr(hub, setting) else hub.models[NAME], setting, value)
    line = error_of(capsys, "fill", "-m", name, TEXT, code=code)
    assert line.startswith(f"{name}: {message.format(url=hub.url)}")


@pytest.mark.protected
def test_a_wrong_token_is_one_line_and_a_right_one_opens_private_models(hub, commit, capsys, monkeypatch):
    hub.models[NAME].is_private = True
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    line = error_of(capsys, "fill", "-m", URL, TEXT, code=2)
    assert line == f"{URL}: {hub.url} refuses the token. Set HF_TOKEN to a valid one, or run hf auth login."
    monkeypatch.setenv("HF_TOKEN", hub.token)
    hub.requests.clear()
    assert main(["fill", "-m", URL, TEXT]) == 0
    sent = {path.startswith("/lfs/"): headers.get("authorization") for _, path, headers in hub.requests}
    assert sent == {False: f"Bearer {hub.token}", True: None}  # the storage has another host


def test_offline_uses_the_cache_or_is_one_line(hub, commit, capsys, monkeypatch):
    with monkeypatch.context() as unreachable:
        unreachable.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
        line = error_of(capsys, "fill", "-m", URL, TEXT, code=1)
    assert line.startswith(f"{URL}: no connection to http://127.0.0.1:9: ")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    line = error_of(capsys, "fill", "-m", URL, TEXT, code=2)
    assert line.startswith(f"{URL}: cannot be downloaded while HF_HUB_OFFLINE is set. Unset it")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    resolve_checkpoint(URL)
    hub.requests.clear()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert main(["fill", "-m", URL, TEXT]) == 0
    assert f"{URL}: commit {commit}, from the cache: there is no connection" in capsys.readouterr().err
    assert hub.requests == []


@pytest.mark.slow
@pytest.mark.protected
def test_a_broken_download_continues(hub, commit, written, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    hub.broken_after = [3000]
    directory = resolve_checkpoint(URL)
    assert read_tree(directory)["model.safetensors"] == (written / "model.safetensors").read_bytes()
    ranges = [headers.get("Range") for _, path, headers in hub.requests if path.startswith("/lfs/")]
    assert ranges[-1] == "bytes=3000-"


@pytest.mark.protected
def test_a_connection_that_breaks_again_and_again_is_one_line(hub, commit, capsys, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    hub.broken_after = [0] * 20
    line = error_of(capsys, "fill", "-m", URL, TEXT, code=1)
    assert line.startswith(f"{URL}: no connection to {hub.url}: ")
    assert line.endswith("Run it again.")
    assert not (snapshot(hub, commit) / "model.safetensors").exists()
    hub.broken_after = []
    assert main(["fill", "-m", URL, TEXT]) == 0


def interrupt(*args: object, **kwargs: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.protected
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_file_with_another_hash_is_not_kept(hub, commit, written, capsys, monkeypatch, is_interrupted):
    right = (written / "model.safetensors").read_bytes()
    [sha256] = (key for key, data in hub.blobs.items() if data == right)
    hub.blobs[sha256] = bytes(len(right))
    if is_interrupted:
        cloze.load_tokenizer(URL)  # of which all files are checked
        with monkeypatch.context() as patch:
            patch.setattr("huggingface_hub.HfApi.verify_repo_checksums", interrupt)
            with pytest.raises(KeyboardInterrupt):
                resolve_checkpoint(URL)
    line = error_of(capsys, "fill", "-m", URL, TEXT, code=1)
    what = "model.safetensors is damaged: the contents differ from the hash that the Hub has for it"
    assert line == f"{URL}: {what}. Run it again: the file is downloaded from its start."
    assert not (snapshot(hub, commit) / "model.safetensors").exists()
    hub.blobs[sha256] = right
    assert main(["fill", "-m", URL, TEXT]) == 0


@pytest.mark.slow
@pytest.mark.protected
def test_a_killed_download_leaves_no_part_of_a_file(hub, commit, written):
    hub.stalls_after = 3000
    command = [sys.executable, "-m", "cloze", "fill", "-m", URL, TEXT]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None and not any(path.startswith("/lfs/") for path in hub.paths()):
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    hub.resumed.set()
    hub.stalls_after = None
    assert not any("agent" in path for path in hub.paths())  # no telemetry
    assert not any("torch" in headers["user-agent"] for _, _, headers in hub.requests)
    assert not (snapshot(hub, commit) / "model.safetensors").exists()
    directory = resolve_checkpoint(URL)
    assert read_tree(directory)["model.safetensors"] == (written / "model.safetensors").read_bytes()


@pytest.mark.protected
@pytest.mark.parametrize("missing", [("config.json",), ("model.safetensors",), ("vocab.txt",)])
def test_a_repository_without_a_model_is_one_line(hub, written, capsys, missing):
    files = {name: data for name, data in read_tree(written).items() if name not in missing}
    hub.add(hub.models, NAME, files)
    line = error_of(capsys, "fill", "-m", URL, TEXT, code=2)
    assert ("no tokenizer" if missing == ("vocab.txt",) else f"no {missing[0]}") in line


@pytest.mark.protected
def test_pickled_weights_are_read_by_import_alone(hub, written, tmp_path, capsys):
    files = {name: data for name, data in read_tree(written).items() if not name.endswith(".safetensors")}
    weights = load_file(written / "model.safetensors")
    torch.save(weights, tmp_path / "weights")
    commit = hub.add(hub.models, NAME, files | {"pytorch_model.bin": (tmp_path / "weights").read_bytes()})
    line = error_of(capsys, "fill", "-m", URL, TEXT, code=2)
    pickled = "its weights are pickled: it has pytorch_model.bin, but no model.safetensors."
    assert line.startswith(f"{URL}: {pickled}")
    assert hub.downloads() == []
    command = line.split("Run ")[1].split(",")[0].split()[1:]
    assert main([*command[:-1], str(tmp_path / "imported")]) == 0
    assert main(["fill", "-m", str(tmp_path / "imported"), TEXT]) == 0
    card = (tmp_path / "imported/README.md").read_text()
    assert "license: mit" in card
    assert f"Imported by cloze from `{URL}@{commit}`." in card


def test_info_shows_the_commit(hub, commit, capsys):
    assert main(["info", URL, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == f"{URL}@{commit}"


def finetune(model: str, folder: Path) -> tuple[Path, list[str]]:
    """Fine-tune a model; return the run and the command."""
    table, run = folder / "films.tsv", folder / "run"
    table.write_text("text\tlabel\n" + "the film was good .\t1\na bad film .\t0\n" * 10)
    settings = ["--set=max_seq_length=16", "--batch-size=8", "--epochs=2", "--set=device=cpu", "--quiet"]
    command = ["finetune", "classification", "-m", model, "-d", str(table), "-o", str(run), *settings]
    assert main(command) == 0
    return run, command


def test_a_run_keeps_its_commit(hub, commit, written, tmp_path):
    run, command = finetune(URL, tmp_path)
    saved = read_toml(run / "run.toml")
    assert (saved["model"], saved["model_commit"]) == (URL, commit)
    card = (resolve_checkpoint(run) / "README.md").read_text()
    assert f"base_model: {NAME}\n" in card.split("---")[1]
    assert f"From `{URL}` at commit `{commit}` of the Hugging Face Hub" in card
    hub.add(hub.models, NAME, read_tree(written) | {"vocab.txt": b"[PAD]\n"})
    hub.requests.clear()
    assert main(["finetune", "-o", str(run), "--resume"]) == 0
    assert hub.requests == []
    assert main([*command, "--resume"]) == 0
    assert main(["info", str(run), "--json"]) == 0


def test_pretraining_keeps_its_commit(hub, commit, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n\n".join(f"the film {n} was good .\na film was bad ." for n in range(40)))
    data, run = tmp_path / "data", tmp_path / "run"
    assert main(["corpus", str(texts), "--vocabulary", URL, "-o", str(data), "--workers=1", "--quiet"]) == 0
    phases = "phases=[{max_seq_length=16, fraction=1.0, batch_size=4}]"
    flags = ["--steps=1", f"--set={phases}", "--set=device=cpu", "--quiet"]
    assert main(["pretrain", "--init", URL, "--data", str(data), "-o", str(run), *flags]) == 0
    saved = read_toml(run / "run.toml")
    assert (saved["init"], saved["init_commit"]) == (URL, commit)
    card = (resolve_checkpoint(run) / "README.md").read_text()
    assert f"the weights of `{URL}` at commit `{commit}` of the Hugging Face Hub" in card


@pytest.fixture
def run(written: Path, tmp_path: Path) -> Path:
    """A run with a training state, a best checkpoint and a latest one."""
    return finetune(str(written), tmp_path)[0]


@pytest.mark.slow
def test_push_uploads_what_loading_reads(hub, run, monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", hub.token)
    checkpoint = resolve_checkpoint(run)
    (checkpoint / "notes.txt").write_text("private")
    capsys.readouterr()
    assert main(["push", str(run), "ardent/films", "--private", "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    pushed = hub.models["ardent/films"]
    assert pushed.is_private
    files = pushed.commits[pushed.refs["main"]]
    expected = {"config.json", "model.safetensors", "vocab.txt", "tokenizer.json", "tokenizer_config.json"}
    assert {*files} == expected | {"README.md", "manifest.json", "task.toml"} == {*report["files"]}
    assert all(f" {name}" in err for name in files)
    assert all(files[name] == (checkpoint / name).read_bytes() for name in {*files} - {"manifest.json"})
    assert report["name"] == f"hf://ardent/films@{pushed.refs['main']}"
    texts = ["the film was good .", "a bad film ."]
    assert cloze.TextClassifier.load("hf://ardent/films")(texts) == cloze.TextClassifier.load(run)(texts)
    assert main(["info", "hf://ardent/films"]) == 0
    assert "6 files, as written" in capsys.readouterr().out


@pytest.mark.slow
def test_push_replaces_a_model_and_creates_branches(hub, run, written, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", hub.token)
    hub.add(hub.models, "ardent/films", {"modules.json": b"[]", "LICENSE": b"mit", "README.md": b"old"})
    report = cloze.push(str(run), "ardent/films")
    assert report.removed == ("modules.json",)
    repo = hub.models["ardent/films"]
    assert repo.commits[repo.refs["main"]]["LICENSE"] == b"mit"
    assert b"fine-tuned with cloze" in repo.commits[repo.refs["main"]]["README.md"]
    cloze.push(written, "hf://ardent/films@pretrained")
    files = repo.commits[repo.refs["pretrained"]]
    assert files["model.safetensors"] == (written / "model.safetensors").read_bytes()
    assert not {*SECRETS} & {*files}
    assert repo.refs["main"] != repo.refs["pretrained"]
    with pytest.raises(cloze.InputError, match=r"exists and is public\. Leave out `private`"):
        cloze.push(run, "ardent/films", private=True)


@pytest.mark.parametrize(
    ("name", "token", "message"),
    [
        ("films", "hf_right", "films: is not the name of a repository. Write org/name"),
        ("ardent/films@v2", "hf_wrong", "hf://ardent/films@v2: {url} refuses the token. Set HF_TOKEN"),
        ("ardent/films@v2", None, "hf://ardent/films@v2: needs a token. Set HF_TOKEN to a token with write"),
        ("others/films@v2", "hf_right", "hf://others/films@v2: the token may not write it. Use a token with"),
    ],
)
def test_push_failures_are_one_line(hub, run, monkeypatch, capsys, name, token, message):
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    line = error_of(capsys, "push", str(run), name, code=2)
    assert message.format(url=hub.url) in line
    assert not hub.blobs


@pytest.mark.protected
def test_push_refuses_what_is_no_checkpoint(hub, commit, run, tmp_path, capsys):
    resolve_checkpoint(URL)
    (tmp_path / "empty").mkdir()
    vocabulary = tmp_path / "vocabulary"
    vocabulary.mkdir()
    (vocabulary / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    damaged = resolve_checkpoint(run) / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    hub.requests.clear()
    for directory, what in {
        NAME: "no such directory",
        str(tmp_path / "missing"): "no such directory",
        str(tmp_path / "empty"): "not a checkpoint: it has no tokenizer.json",
        str(vocabulary): "not a checkpoint: it has no config.json",
        str(run): "damaged: ",
    }.items():
        assert what in error_of(capsys, "push", directory, "ardent/films", code=2)
    assert hub.requests == []
