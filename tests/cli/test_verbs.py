"""All verbs in order, their output on stdout and stderr, their help, and the README's commands."""

import io
import re
import shlex
import shutil
from importlib import metadata
from pathlib import Path

import pytest
import torch
from samples import NANO, NANO_TASK, REPOSITORY, Cloze, Samples, fill_in, sample_paths

import cloze as package
from cloze import artifacts
from cloze.cli import VERBS, load_verb, main, split_verb
from cloze.cli.parser import Command
from cloze.inference.embedder import Embedder
from cloze.inference.fill_mask import FillMask
from cloze.inference.loading import load_encoder
from cloze.inference.next_sentence import NextSentence
from cloze.serving.served_model import ServedModel
from helpers import assert_help_is_complete

Capture = pytest.CaptureFixture[str]


def test_from_text_to_answers(samples: Samples, tmp_path: Path, cloze: Cloze) -> None:
    text, table = samples.text, samples.table
    vocab, data, run, classifier = (tmp_path / name for name in ("vocab", "data", "run", "classifier"))
    steps = [
        (f"vocab {text} -o {vocab} --size 500 --workers 1", "counting words", f"wrote {vocab}"),
        (f"corpus {text} --vocabulary {vocab} -o {data} --workers 1", "tokenizing", f"wrote {data}: 40 doc"),
        (
            f"pretrain --data {data} -o {run} --steps 4 {shlex.join(NANO)}",
            "training: 4/4 steps",
            f"wrote {run}\n  loss",
        ),
        (f"pretrain -o {run} --resume", "training: 4/4 steps", f"wrote {run}"),
        (f"fill -m {run} 'It was a [MASK].'", "", "It was a [MASK].\n  [MASK] 1: "),
        (f"next -m {run} 'It was dark.' 'It was night.'", "", "B follows A with probability 0."),
        (f"info {run}", "", f"{run}: a run\n"),
        (f"info {vocab}", "", f"{vocab}: a vocabulary\n"),
        (f"info {data}", "", f"{data}: a dataset\n"),
        (f"report {run}", "", f"wrote {run}/report.html"),
        (
            f"finetune classification -m {run} -d {table} -o {classifier} {shlex.join(NANO_TASK)}",
            "training: ",
            f"wrote {classifier}\n  accuracy",
        ),
        (f"finetune classification -o {classifier} --resume", "training: ", f"wrote {classifier}"),
        (f"predict classification -m {classifier} {table}", "predicting: 40", '{"row": 1, "text": '),
    ]
    for command, progress, result in steps:
        printed = cloze(command)
        assert progress in printed.err, command
        assert printed.out.startswith(result), command
        assert "error" not in printed.err


def test_quiet_hides_progress_and_json_prints_a_table(samples: Samples, tmp_path: Path, cloze: Cloze) -> None:
    text, run = samples.text, samples.run
    metrics = {"masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy"}
    scores = {"run", "accuracy", "macro_f1", "majority_accuracy"}
    classifier = f"-o {tmp_path}/classifier"
    steps = [
        (f"vocab {text} -o {tmp_path}/vocab --size 500 --workers 1", {"directory"}),
        (
            f"corpus {text} --vocabulary {tmp_path}/vocab -o {tmp_path}/data --workers 1",
            {"directory", "documents", "tokens"},
        ),
        (
            f"pretrain -o {tmp_path}/run --data {samples.data} --steps 1 {shlex.join(NANO)}",
            {"run", *metrics},
        ),
        (f"fill -m {run} 'It was a [MASK].'", {"text", "masks"}),
        (f"next -m {run} 'It was dark.' 'It was night.'", {"is_next"}),
        (f"info {run}", {"path", "kind", "files_checked", "settings"}),
        (f"info {samples.checkpoint}", {"kind", "layers", "parameters"}),
        (f"report {run} -o {tmp_path}/a.html", {"report"}),
        (
            f"finetune classification -m {run} -d {samples.table} {classifier} {shlex.join(NANO_TASK)}",
            scores,
        ),
        (f"finetune classification {classifier} --resume", scores),
    ]
    for command, keys in steps:
        printed = cloze(f"{command} --json --quiet")
        assert printed.err == "", command
        assert keys <= set(printed.json), command


def test_every_mask_of_every_line_is_filled(
    samples: Samples, cloze: Cloze, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["It was a [MASK] and [MASK] night.", "[MASK]"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    answers = cloze(f"fill -m {samples.run} 'One [MASK].' - -k 3 --json").rows
    assert [answer["text"] for answer in answers] == ["One [MASK].", *lines]
    assert [len(answer["masks"]) for answer in answers] == [1, 2, 1]
    for mask in (mask for answer in answers for mask in answer["masks"]):
        probabilities = [candidate["probability"] for candidate in mask]
        assert len(mask) == 3
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum(probabilities) <= 1


def test_a_run_answers_as_its_checkpoint(samples: Samples, cloze: Cloze) -> None:
    models = (samples.run, samples.checkpoint)
    of_run, of_checkpoint = (cloze(f"fill -m {model} 'It was a [MASK].' --json").out for model in models)
    assert of_run == of_checkpoint


USES_OF_A_RUN = {
    "fill": "fill -m {run} 'a [MASK]'",
    "next": "next -m {run} a b",
    "embed": "embed -m {run} {text} -o {tmp}/out.npy",
    "neighbors": "neighbors -m {run} night",
    "attention": "attention -m {run} night -o {tmp}/out.html",
    "evaluate": "evaluate mlm -m {run} -d {data} --set max_seq_length=32",
    "vocab": "vocab inspect {run}",
    "finetune": "finetune classification -m {run} -d {table} -o {tmp}/out " + shlex.join(NANO_TASK),
    "pretrain": "pretrain --init {run} --data {data} -o {tmp}/out --steps 1 "
    + shlex.join(setting for setting in NANO if "=model." not in setting),
}


@pytest.mark.parametrize("verb", USES_OF_A_RUN)
def test_a_run_means_its_best_checkpoint(samples: Samples, tmp_path: Path, cloze: Cloze, verb: str) -> None:
    run = Path(shutil.copytree(samples.run, tmp_path / "run"))
    (run / "best").write_text("checkpoints/step-00000002\n")
    shutil.rmtree(run / "checkpoints/step-00000004")
    paths = sample_paths(tmp_path, samples) | {"run": run}
    assert (
        cloze(fill_in(USES_OF_A_RUN[verb], paths)).err.count(
            f"{run}: best checkpoint, checkpoints/step-00000002\n"
        )
        == 1
    )


def test_a_run_means_its_best_checkpoint_in_python(samples: Samples, tmp_path: Path) -> None:
    run = Path(shutil.copytree(samples.run, tmp_path / "run"))
    (run / "best").write_text("checkpoints/step-00000002\n")
    name = "embeddings.word_embeddings.weight"
    expected = load_encoder(run / "checkpoints/step-00000002").state_dict()[name]
    assert not torch.equal(expected, load_encoder(run / "checkpoints/step-00000004").state_dict()[name])
    encoders = [load_encoder(run), Embedder.load(run).encoder]
    encoders += [cls.load(run).encoder for cls in (FillMask, NextSentence)]
    encoders.append(ServedModel.load("run", run).encoder)
    assert all(torch.equal(encoder.state_dict()[name].cpu(), expected) for encoder in encoders)


def test_a_run_without_a_best_checkpoint_means_its_latest(
    samples: Samples, tmp_path: Path, cloze: Cloze
) -> None:
    run = Path(shutil.copytree(samples.run, tmp_path / "run"))
    (run / "best").unlink()
    note = f"{run}: latest checkpoint, checkpoints/step-00000004\n"
    assert cloze(f"fill -m {run} [MASK]").err == note
    assert cloze(f"fill -m {run} [MASK] --quiet").err == ""


def test_printed_settings_are_a_recipe_of_the_same_settings(tmp_path: Path, cloze: Cloze) -> None:
    recipe, command = tmp_path / "mine.toml", f"pretrain -o {tmp_path}/out --print-config"
    printed = cloze(f"{command} --data D --budget 90s --model tiny --seed 7", *NANO)
    recipe.write_text(printed.out)
    assert printed.err == ""
    assert "budget_seconds = 90.0" in printed.out
    assert cloze(f"{command} --config {recipe}").out == recipe.read_text()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flag", "setting"), [("--budget 90s", "budget_seconds = 90.0"), ("--steps 90", "steps = 90")]
)
@pytest.mark.parametrize("recipe", ["steps = 7\n", "budget_seconds = 7\n"])
def test_a_length_by_flag_replaces_that_of_the_recipe(
    tmp_path: Path, cloze: Cloze, flag: str, setting: str, recipe: str
) -> None:
    (tmp_path / "recipe.toml").write_text(recipe)
    printed = cloze(f"pretrain -o none --data D --config {tmp_path}/recipe.toml --print-config {flag}")
    lines = printed.out.splitlines()
    assert setting in lines
    assert sum(line.startswith(("steps =", "budget_seconds =")) for line in lines) == 1


@pytest.mark.parametrize("flags", ["--steps 3 --set=budget_seconds=60", "--budget 60s --set=steps=3"])
def test_two_lengths_are_refused(cloze: Cloze, flags: str) -> None:
    printed = cloze(f"pretrain --data D --print-config {flags}", code=2)
    assert "either steps or a budget" in printed.err


@pytest.mark.parametrize(("flags", "rate"), [("", "7e-05"), ("--config fast", "0.0007")])
def test_the_recipe_for_init_is_adapt(flags: str, rate: str, cloze: Cloze) -> None:
    printed = cloze(f"pretrain --data D --steps 9 --init cloze-mini --print-config {flags}")
    assert f"learning_rate = {rate}" in printed.out
    assert ("recipe adapt" in printed.err) == (not flags)


def test_only_a_run_needs_an_output(samples: Samples, cloze: Cloze) -> None:
    command = f"pretrain --data {samples.data} --steps 2 {shlex.join(NANO)} --quiet"
    cloze(f"{command} --print-config")
    cloze(f"{command} --dry-run")
    for incomplete in (command, "pretrain --resume"):
        assert "the flag --output is missing" in cloze(incomplete, code=2).err


@pytest.mark.parametrize("name", sorted(p.stem for p in (REPOSITORY / "src/cloze/recipes").glob("*.toml")))
def test_recipes_are_found_by_name(name: str, tmp_path: Path, capsys: Capture) -> None:
    command = ["pretrain", "-o", str(tmp_path / "out"), "--data", "D", "--config", name, "--print-config"]
    length = [] if main([*command, "--quiet"]) == 0 else ["--steps", "9"]
    assert main([*command, *length]) == 0
    assert "learning_rate" in capsys.readouterr().out


def test_overwrite_replaces_a_run(samples: Samples, tmp_path: Path, cloze: Cloze) -> None:
    command = f"pretrain --data {samples.data} -o {tmp_path}/run {shlex.join(NANO)} --quiet"
    cloze(f"{command} --steps 2")
    cloze(f"{command} --steps 1", code=2)
    cloze(f"{command} --steps 1 --overwrite")
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["step-00000001"]
    artifacts.verify(tmp_path / "run/checkpoints/step-00000001", kind="checkpoint")


# Help


@pytest.mark.parametrize("verb", VERBS)
def test_help_describes_every_flag(verb: str, capsys: Capture) -> None:
    assert_help_is_complete(main, verb.split(), f"cloze {verb}", capsys)


@pytest.mark.parametrize(
    ("verb", "columns"), [*((verb, 60) for verb in ["", *VERBS]), ("", 80), ("finetune", 100)]
)
def test_help_fits_the_terminal(
    verb: str, columns: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    main([*verb.split(), "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > columns] == []


def test_help_lists_all_verbs(cloze: Cloze) -> None:
    text = cloze("--help").out
    for verb, summary in VERBS.items():
        assert re.search(rf"^  {verb} +{re.escape(summary.split()[0])}", text, re.MULTILINE)
    cloze("", code=2)
    assert cloze("--version").out == f"cloze {metadata.version('cloze-bert')}\n"


def test_a_verb_of_two_words(capsys: Capture) -> None:
    assert split_verb(["vocab", "extend", "a", "b"]) == ("vocab extend", ["a", "b"])
    assert split_verb(["vocab", "flat"]) == ("vocab", ["flat"])
    assert split_verb(["extend"]) == (None, ["extend"])
    assert main(["vocab", "--help"]) == 0
    assert f"See also cloze vocab extend --help: {VERBS['vocab extend']}." in capsys.readouterr().out


def test_rank_is_ignored_without_torchrun(monkeypatch: pytest.MonkeyPatch, cloze: Cloze) -> None:
    monkeypatch.setenv("RANK", "1")  # schedulers set it, too
    assert "sst2" in cloze("tasks").out


# The README


def fenced(language: str) -> str:
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", readme, re.DOTALL))


COMMANDS = [
    line.partition(" | ")[0]
    for line in fenced("sh").replace("\\\n", "").splitlines()
    if line.startswith("cloze ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_readme_are_parsed(line: str) -> None:
    verb, arguments = split_verb(shlex.split(line, comments=True)[1:])
    assert verb
    Command(load_verb(verb), f"cloze {verb}").parse(arguments)


def test_the_readme_shows_the_main_verbs() -> None:
    verbs = {line.split()[1] for line in COMMANDS}
    assert {
        "vocab",
        "corpus",
        "pretrain",
        "fill",
        "report",
        "finetune",
        "evaluate",
        "predict",
        "serve",
    } <= verbs
    targets = {line.split()[1] for line in fenced("sh").splitlines() if line.startswith("make ")}
    assert targets == {"demo", "test"}


def test_the_readme_uses_public_names_in_python() -> None:
    block = fenced("python")
    compile(block, "README.md", "exec")
    names = set(re.findall(r"\bcloze\.([A-Za-z_]+)", block))
    assert names
    assert names <= set(package.__all__)
