"""Every verb as it is meant to be used: data on stdout, progress on stderr, and what the README says to type."""

import io
import json
import re
import shlex
from importlib import import_module, metadata
from pathlib import Path

import pytest
from shop import NANO, NANO_TASK, REPOSITORY, Shop

import cloze
from cloze import artifacts
from cloze.cli import VERBS, main, module_of, split_verb
from cloze.cli.usage import parse

Capture = pytest.CaptureFixture[str]


def test_from_text_to_answers(shop: Shop, tmp_path: Path, capsys: Capture) -> None:
    """The README's commands in their order; each says on stderr how far it is and on stdout what came of it."""
    vocab, data, run, classifier = (str(tmp_path / name) for name in ("vocab", "data", "run", "classifier"))
    text, table = str(shop.text), str(shop.table)
    steps = [
        (["vocab", text, "-o", vocab, "--size", "500", "--workers", "1"], "counting words", f"wrote {vocab}"),
        (
            ["corpus", text, "--vocab", vocab, "-o", data, "--workers", "1"],
            "tokenising",
            f"wrote {data}: 40 doc",
        ),
        (
            ["pretrain", "--data", data, "-o", run, "--steps", "4", *NANO],
            "training: 4/4 steps",
            f"wrote {run}\n  loss",
        ),
        (["pretrain", "-o", run, "--resume"], "training: 4/4 steps", f"wrote {run}"),
        (["fill", "-m", run, "It was a [MASK]."], "", "It was a [MASK].\n  [MASK] 1: "),
        (["next", "-m", run, "It was dark.", "It was night."], "", "B follows A with probability 0."),
        (["info", run], "", f"{run}: a run\n"),
        (["info", vocab], "", f"{vocab}: a vocabulary\n"),
        (["info", data], "", f"{data}: a dataset\n"),
        (["report", run], "", f"wrote {run}/report.html"),
        (
            ["finetune", "classification", "-m", run, "-d", table, "-o", classifier, *NANO_TASK],
            "training: ",
            f"wrote {classifier}\n  accuracy",
        ),
        (["finetune", "classification", "-o", classifier, "--resume"], "training: ", f"wrote {classifier}"),
        (["predict", "classification", "-m", classifier, table], "predicting: 40", '{"label": '),
    ]
    for command, progress, result in steps:
        assert main(command) == 0
        printed = capsys.readouterr()
        assert progress in printed.err, command
        assert printed.out.startswith(result), command
        assert "error" not in printed.err


def test_quiet_is_quiet_and_json_is_json(shop: Shop, tmp_path: Path, capsys: Capture) -> None:
    text, run = str(shop.text), str(shop.run)
    vocab, data, again, classifier = (str(tmp_path / name) for name in ("vocab", "data", "run", "classifier"))
    trained = {"masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy"}
    scores = {"run", "accuracy", "macro_f1", "majority_accuracy"}
    from_data = ["--data", str(shop.data), "--steps", "1", *NANO]
    labelled = ["classification", "-m", run, "-d", str(shop.table), "-o", classifier, *NANO_TASK]
    steps: list[tuple[list[str], set[str]]] = [
        (["vocab", text, "-o", vocab, "--size", "500", "--workers", "1"], {"directory"}),
        (
            ["corpus", text, "--vocab", vocab, "-o", data, "--workers", "1"],
            {"directory", "documents", "pieces"},
        ),
        (["pretrain", "-o", again, *from_data], {"run", *trained}),
        (["fill", "-m", run, "It was a [MASK]."], {"text", "masks"}),
        (["next", "-m", run, "It was dark.", "It was night."], {"is_next"}),
        (["info", run], {"path", "kind", "files_checked", "settings"}),
        (["info", str(shop.checkpoint)], {"kind", "layers", "parameters"}),
        (["report", run, "-o", str(tmp_path / "a.html")], {"report"}),
        (["finetune", *labelled], scores),
        (["finetune", "classification", "-o", classifier, "--resume"], scores),
    ]
    for command, keys in steps:
        assert main([*command, "--json", "--quiet"]) == 0
        printed = capsys.readouterr()
        assert printed.err == "", command
        assert keys <= set(json.loads(printed.out)), command


def test_every_mask_of_every_line_is_filled(
    shop: Shop, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["It was a [MASK] and [MASK] night.", "[MASK]"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    assert main(["fill", "-m", str(shop.run), "One [MASK].", "-", "-k", "3", "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["text"] for answer in answers] == ["One [MASK].", *lines]
    assert [len(answer["masks"]) for answer in answers] == [1, 2, 1]
    for mask in (mask for answer in answers for mask in answer["masks"]):
        probabilities = [candidate["probability"] for candidate in mask]
        assert len(mask) == 3
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum(probabilities) <= 1


def test_a_checkpoint_answers_as_its_run(shop: Shop, capsys: Capture) -> None:
    answers = []
    for model in (shop.run, shop.checkpoint):
        assert main(["fill", "-m", str(model), "It was a [MASK].", "--json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_settings_print_as_a_recipe_that_gives_them_again(
    shop: Shop, tmp_path: Path, capsys: Capture
) -> None:
    recipe, out = tmp_path / "mine.toml", str(tmp_path / "out")
    base = ["pretrain", "-o", out, "--print-config"]
    settings = ["--data", "D", "--budget", "90s", "--model", "tiny", "--seed", "7", *NANO]
    assert main([*base, *settings]) == 0
    printed = capsys.readouterr()
    recipe.write_text(printed.out)
    assert printed.err == ""
    assert "budget_seconds = 90.0" in printed.out
    assert main([*base, "--config", str(recipe)]) == 0
    assert capsys.readouterr().out == recipe.read_text()
    assert not Path(out).exists()


@pytest.mark.parametrize(("flag", "said"), [("--budget", "budget_seconds = 90.0"), ("--steps", "steps = 90")])
def test_a_flag_says_another_length_than_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, said: str
) -> None:
    (tmp_path / "steps.toml").write_text("steps = 7\n")
    (tmp_path / "clock.toml").write_text("budget_seconds = 7\n")
    for file in ("steps.toml", "clock.toml"):
        command = [
            "pretrain",
            "-o",
            "none",
            "--data",
            "D",
            "--config",
            str(tmp_path / file),
            "--print-config",
        ]
        assert main([*command, flag, "90s" if flag == "--budget" else "90"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert said in lines
        assert sum(line.startswith(("steps =", "budget_seconds =")) for line in lines) == 1


def test_a_length_beside_the_flag_is_one_too_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["pretrain", "--data", "D", "--print-config"]
    for both in (["--steps", "3", "--set=budget_seconds=60"], ["--budget", "60s", "--set=steps=3"]):
        assert main([*command, *both]) == 2
        assert "either steps or a budget" in capsys.readouterr().err


def test_only_a_run_needs_an_output(shop: Shop, capsys: Capture) -> None:
    command = ["pretrain", "--data", str(shop.data), "--steps", "2", *NANO, "--quiet"]
    assert main([*command, "--print-config"]) == 0
    assert main([*command, "--dry-run"]) == 0
    for lacking in (command, ["pretrain", "--resume"]):
        assert main(lacking) == 2
        assert "the flag --output is missing" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(p.stem for p in (REPOSITORY / "src/cloze/recipes").glob("*.toml")))
def test_recipes_are_found_by_name(name: str, tmp_path: Path, capsys: Capture) -> None:
    command = ["pretrain", "-o", str(tmp_path / "out"), "--data", "D", "--config", name, "--print-config"]
    budget = [] if main([*command, "--quiet"]) == 0 else ["--steps", "9"]
    assert main([*command, *budget]) == 0
    assert "learning_rate" in capsys.readouterr().out


def test_a_run_is_overwritten_when_told(shop: Shop, tmp_path: Path, capsys: Capture) -> None:
    command = ["pretrain", "--data", str(shop.data), "-o", str(tmp_path / "run"), *NANO, "--quiet"]
    assert main([*command, "--steps", "2"]) == 0
    assert main([*command, "--steps", "1"]) == 2
    assert main([*command, "--steps", "1", "--overwrite"]) == 0
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["step-00000001"]
    artifacts.verify(tmp_path / "run/checkpoints/step-00000001", kind="checkpoint")


# Help


HELPS = [verb.split() for verb in VERBS] + [["bench", what] for what in ("pretrain", "tokenize", "corpus")]


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_tells_what_every_flag_is(words: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as leaving:
        main([*words, "--help"])
    assert not leaving.value.code
    printed = capsys.readouterr()
    assert printed.err == ""
    plain = re.sub("\x1b\\[[0-9;]*m|[╭╮╰╯│─]", " ", printed.out)
    assert f"usage: cloze {' '.join(words)}" in plain
    assert "None" not in plain
    assert "STR" not in plain
    if words != ["bench"]:
        assert "--quiet" in plain
    entries = re.split(r"\n {2}(?=-|[A-Z{])", plain)[1:]
    assert entries
    for entry in entries:
        flag, *described = re.split(r" {2,}|\n", entry.strip(), maxsplit=1)
        assert re.search("[a-z]{2,}", " ".join(described)), f"{flag} has no help"


def test_help_of_all(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for verb, text in VERBS.items():
        assert re.search(rf"^  {verb} +{re.escape(text)}$", shown, re.MULTILINE)
    assert main([]) == 2
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.endswith(f"cloze {metadata.version('cloze-bert')}\n")


def test_a_verb_of_two_words(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(VERBS, "info deep", "look closer")
    assert split_verb(["info", "deep", "a", "b"]) == ("info deep", ["a", "b"])
    assert split_verb(["info", "flat"]) == ("info", ["flat"])
    assert split_verb(["deep"]) == (None, ["deep"])
    assert module_of("info deep") == "cloze.cli.info_deep"
    with pytest.raises(SystemExit):
        main(["info", "--help"])
    assert capsys.readouterr().out.endswith("See also cloze info deep --help: look closer.\n")


# What the README says


def fenced(language: str) -> str:
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", readme, re.DOTALL))


COMMANDS = [line for line in fenced("sh").splitlines() if line.startswith("cloze ")]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_readmes_commands_are_understood(line: str) -> None:
    verb, arguments = split_verb(shlex.split(line, comments=True)[1:])
    assert verb
    parse(import_module(module_of(verb)).run, verb, arguments)


def test_the_readme_shows_the_verbs_of_a_life() -> None:
    shown = {line.split()[1] for line in COMMANDS}
    assert {"demo", "vocab", "corpus", "pretrain", "fill", "next", "report", "finetune", "predict"} <= shown


def test_the_readmes_python_is_python_and_names_what_is_there() -> None:
    block = fenced("python")
    compile(block, "README.md", "exec")
    names = set(re.findall(r"\bcloze\.([A-Za-z_]+)", block))
    assert names
    assert names <= set(cloze.__all__)


def test_a_rank_without_torchrun_is_none(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("RANK", "1")  # as every worker of a job may have
    assert main(["plan"]) == 0
    assert "base" in capsys.readouterr().out
