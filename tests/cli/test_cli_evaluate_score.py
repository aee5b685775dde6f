"""`cloze tasks`, `evaluate` and `score`, and --validate, --seeds, --grid, temperatures and curves of `finetune`."""

import json
import re
import shlex
from pathlib import Path

import pytest
from samples import NANO_TASK, save_film_encoder

import cloze as package
from cloze.cli import main
from helpers import read_rows, task_of, write_rows

SMALL = "--set max_seq_length=12 --set micro_batch_tokens=64 --set device=cpu"
NANO = f"{SMALL} --learning-rate 0.01 --epochs 15"
LABELS = ("entailment", "neutral", "contradiction")
HEADER = "sentence1\tsentence2\tgold_label\n"


def _nli(name: str, *labels: str) -> str:
    texts = {"entailment": "good", "neutral": "film film", "contradiction": "bad"}
    return f"sentence1\tsentence2\t{name}\n" + "".join(f"book\t{texts[label]}\t{label}\n" for label in labels)


@pytest.fixture(scope="module")
def mnli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an encoder, small files of MNLI and AX, and a fine-tuned run."""
    directory = tmp_path_factory.mktemp("mnli")
    save_film_encoder(directory / "model", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    (directory / "data").mkdir()
    (directory / "data/train.tsv").write_text(_nli("gold_label", *LABELS * 20))
    (directory / "data/dev_matched.tsv").write_text(_nli("gold_label", *LABELS * 3, "neutral"))
    (directory / "data/dev_mismatched.tsv").write_text(_nli("gold_label", *LABELS))
    (directory / "ax.tsv").write_text(_nli("label", *LABELS))
    command = f"finetune mnli -m {directory}/model -d {directory}/data {NANO} -o {directory}/run --quiet"
    assert main(shlex.split(command)) == 0
    return directory


def test_the_directory_of_a_benchmark_is_enough(mnli):
    settings = (mnli / "run/run.toml").read_text()
    assert f'train = "{mnli}/data/train.tsv"' in settings
    assert f'dev = "{mnli}/data/dev_matched.tsv"' in settings


def test_evaluate_gives_the_scores_of_the_run(mnli, cloze):
    command = f"evaluate mnli -m {mnli}/run --quiet -d {mnli}/data"
    scores = cloze(f"{command} --json").json
    of_run = json.loads((mnli / "run/scores.json").read_text())
    assert scores == {name: of_run[name] for name in scores}
    assert scores["examples"] == 10
    lines = cloze(f"{command}/dev_mismatched.tsv").out.splitlines()
    assert lines[0] == "  accuracy          1.0000"
    assert lines[2] == f"  on 3 examples: {mnli}/data/dev_mismatched.tsv"


def test_models_of_mnli_are_evaluated_on_ax(mnli, tmp_path, cloze, error_line):
    (tmp_path / "ax.tsv").write_text(_nli("Label", *LABELS))
    scores = cloze(f"evaluate ax -m {mnli}/run -d {tmp_path}/ax.tsv --json --quiet").json
    assert scores["matthews"] == 1.0
    assert "Fine-tune mnli: its models answer ax, too" in error_line(
        f"finetune ax -m cloze-mini -d D -o {mnli}/none"
    )
    assert "a model for the task 'mnli', not 'rte'" in error_line(f"evaluate rte -m {mnli}/run -d D")


def test_score_agrees_with_evaluate(mnli, tmp_path, cloze):
    gold, predictions = mnli / "data/dev_matched.tsv", tmp_path / "predictions.jsonl"
    evaluate = f"evaluate mnli -m {mnli}/run -d {gold} --json --quiet -o {predictions}"
    scores = cloze(evaluate).json
    rows = read_rows(predictions)
    right = [line.split("\t")[-1] for line in gold.read_text().splitlines()[1:]]
    assert [row.pop("gold") for row in rows] == right
    assert cloze(f"predict mnli -m {mnli}/run {gold} --quiet").rows == rows
    assert cloze(f"score mnli {predictions} {gold} --json --quiet").json == scores
    numbers = tmp_path / "numbers.jsonl"  # as other programs write labels
    labels = task_of("mnli").answer.labels
    write_rows(numbers, [{"label": labels.index(row["label"])} for row in rows])
    assert cloze(f"score mnli {numbers} {gold} --json --quiet").json == scores


def test_tables_for_spreadsheets_are_safe_and_scored(mnli, tmp_path, cloze, error_line):
    gold, answers = tmp_path / "gold.tsv", tmp_path / "answers.csv"
    gold.write_text(f"{HEADER}=book\tgood\tentailment\n=book\tgood\tcontradiction\n")
    scores = cloze(f"evaluate mnli -m {mnli}/run -d {gold} -o {answers} --json --quiet").json
    rows = read_rows(answers)
    assert [row["text"] for row in rows] == ["=book", "=book"]
    assert list(rows[0])[-3:] == [f"probability_{label}" for label in LABELS]
    assert sum(float(rows[0][f"probability_{label}"]) for label in LABELS) == pytest.approx(1)
    assert cloze(f"score mnli {answers} {gold} --json --quiet").json == scores
    for command in (f"evaluate mnli -m {mnli}/run -d {gold}", f"score mnli {answers} {gold}"):
        cloze(f"{command} --errors {tmp_path}/wrong.csv --csv-safe --overwrite --quiet")
        assert [row["text"] for row in read_rows(tmp_path / "wrong.csv")] == ["'=book"]
        assert "--csv-safe: is for tables" in error_line(f"{command} --errors {tmp_path}/e.jsonl --csv-safe")
        assert "--csv-safe: is for tables" in error_line(f"{command} --csv-safe")
    text = answers.read_text().splitlines()
    cells = text[1].rpartition(",")
    answers.write_text("\n".join([text[0], cells[0] + ",high", text[2]]) + "\n")
    message = "answers.csv:2: the cell 'probability_contradiction' is not a number"
    assert message in error_line(f"score mnli {answers} {gold}")


@pytest.mark.protected
@pytest.mark.parametrize("verb", ["predict mnli", "evaluate mnli -d"])
def test_a_bad_line_is_reported_before_the_model_runs(mnli, tmp_path, error_line, monkeypatch, verb):
    gold = tmp_path / "gold.tsv"
    gold.write_text(HEADER + "a\tb\tneutral\n" * 600 + "a\tb\n")
    monkeypatch.setattr("cloze.inference.predictor.predict", lambda *_, **__: pytest.fail("the model ran"))
    assert "gold.tsv:602: 2 cells" in error_line(f"{verb} {gold} -m {mnli}/run -o {tmp_path}/out")
    assert not (tmp_path / "out").exists()


def test_seeds_and_grid_print_every_setting(mnli, tmp_path, cloze):
    finetune = f"finetune mnli -m {mnli}/model -d {mnli}/data {SMALL} --quiet -o {tmp_path}/run"
    grid = "--seeds 2 --grid --set grid.epochs=[1] --set grid.batch_sizes=[]"
    text = cloze(f"{finetune} {grid}").out
    assert text.count("runs: 2") == 3
    assert "rate-5e-05_epochs-1, runs: 2" in text
    assert "±" in text
    assert "best by accuracy: rate-" in text
    assert f"on 10 examples: {mnli}/data/dev_matched.tsv" in text
    resumed = cloze(f"finetune mnli -o {tmp_path}/run --resume --json --quiet").json
    assert len(resumed["settings"]) == 3
    cloze(f"evaluate mnli -m {tmp_path}/run -d {mnli}/data --quiet")


EVALUATE = "evaluate mnli -m {mnli}/run -d {mnli}/data"
WRONG = {
    "evaluate mnli -m {mnli}/run -d {tmp}": "{tmp}: no dev_matched.tsv nor mnli.valid.jsonl in this",
    "evaluate mnli -m {mnli}/model -d {mnli}/data": "config.json names no labels",
    f"{EVALUATE} --set mnli.labels=['a','b']": "cannot change after training",
    f"{EVALUATE} --set epochs=3": "epochs is not a setting of the task",
    "evaluate mlm -m {mnli}/run -d {mnli}/ax.tsv --text-column x": "--text-column: not used by evaluate mlm",
    "evaluate fill -m {mnli}/run -d {mnli}/ax.tsv --set a=b": "--set: not used by evaluate fill",
    "evaluate likelihood -m cloze-mini -d {mnli}/ax.tsv --set a=b": "--set: not used by evaluate likelihood",
    "evaluate blimp -m cloze-mini -d {mnli}/ax.tsv -o x": "--output: not used by evaluate blimp",
    "baseline mnli -d {mnli}/data --sizes 5000": "mnli: there are 60 examples to learn from",
    "finetune squad_v1 -m M -d D -o O --text-column x": "--text-column: the task squad_v1 has no such setting",
    "finetune mnli -m cloze-mini -d {tmp} -o {tmp}/run": "{tmp}: no train.tsv nor mnli.train.jsonl",
}


@pytest.mark.protected
@pytest.mark.parametrize("command", WRONG)
def test_wrong_input_gives_one_line(mnli, tmp_path, error_line, command):
    first, *arguments = command.format(mnli=mnli, tmp=tmp_path).split()
    assert WRONG[command].format(tmp=tmp_path) in error_line(first, *arguments)


def test_labels_may_be_in_another_column_in_the_dev_data(mnli, cloze):
    assert cloze(f"evaluate mnli -m {mnli}/run -d {mnli}/ax.tsv --quiet").err == ""


def test_sentences_are_scored_by_pseudo_likelihood(tmp_path, cloze):
    texts = ["The cats are here.", "", "The cats is here."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    arguments = ("likelihood", "-m", "cloze-mini", "-d", str(tmp_path / "texts.txt"), "--device", "cpu")
    printed = cloze("evaluate", *arguments, "-o", str(tmp_path / "scores.jsonl"), "--json")
    rows = read_rows(tmp_path / "scores.jsonl")
    assert [row["text"] for row in rows] == texts
    assert rows[0]["score"] > rows[2]["score"]
    assert rows[1] == {"text": "", "score": 0.0, "tokens": 0}
    result = json.loads(printed.out)
    assert result["mean_token_score"] == pytest.approx(sum(row["score"] for row in rows) / 10)
    assert result["mean_score"] == pytest.approx(sum(row["score"] for row in rows) / 2)
    assert result["examples"] == 2
    assert "empty texts, which are not in the means: 1" in printed.err
    assert cloze("evaluate", *arguments, "--quiet").out.endswith("on 2 examples: " + arguments[4] + "\n")


def test_a_text_without_words_leaves_no_scores(tmp_path, cloze):
    (tmp_path / "texts.txt").write_text("\n \n")
    printed = cloze(
        *("evaluate", "likelihood", "-m", "cloze-mini", "-d", str(tmp_path / "texts.txt")),
        *("-o", str(tmp_path / "scores.jsonl")),
        code=2,
    )
    assert "contains no words" in printed.err
    assert not (tmp_path / "scores.jsonl").exists()


def test_blimp_is_scored_by_paradigm_and_field(tmp_path, cloze):
    pair = {
        "UID": "agreement",
        "field": "morphology",
        "sentence_good": "They are.",
        "sentence_bad": "They is.",
    }
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair) + "\n")
    arguments = ("blimp", "-m", "cloze-mini", "-d", str(tmp_path / "pairs.jsonl"), "--device", "cpu")
    assert json.loads(cloze("evaluate", *arguments, "--json").out)["paradigms"] == {"agreement": 1.0}
    assert "  morphology 1.0000\n" in cloze("evaluate", *arguments).out


PRETRAINED = {
    "fill": [
        {"text": "She closed the [MASK].", "answer": "door"},
        {"text": "The [MASK] ran.", "answer": "dog"},
    ],
    "likelihood": [{"text": "The cats are here."}, {"text": "The cats is here."}],
    "blimp": [{"UID": "a", "field": "b", "sentence_good": "They are.", "sentence_bad": "They is."}],
}


@pytest.mark.parametrize("name", PRETRAINED)
def test_scores_of_rows_in_memory_are_those_of_their_file(tmp_path, cloze, name):
    rows = PRETRAINED[name]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    of_file = cloze(
        f"evaluate {name} -m cloze-mini -d {tmp_path}/rows.jsonl --device cpu --json --quiet"
    ).json
    data = [row["text"] for row in rows] if name == "likelihood" else rows
    result = package.evaluate(name, model="cloze-mini", data=data, device="cpu")
    assert {**result.to_dict(), "data": of_file["data"]} == of_file
    assert f"={next(iter(result.values())):.4g}" in repr(result)
    assert f"<th>{next(iter(result))}</th>" in result._repr_html_()


NANO_FINETUNE = f"finetune classification -m {{run}} -d {{table}} -o {{out}} {' '.join(NANO_TASK)}"


@pytest.mark.slow
def test_a_calibrated_model_is_scored_without_bias(samples, tmp_path, cloze):
    rows = [f"{'a fine' if n % 2 else 'a dull'} film {n}\t{n % 2 if n % 5 else 1 - n % 2}" for n in range(60)]
    dev = tmp_path / "dev.tsv"
    dev.write_text("\n".join(["text\tlabel", *rows]))
    finetune = NANO_FINETUNE.replace("{run}", "cloze-mini").replace("{table}", str(dev))
    finetune = f"{finetune} --dev {dev} --learning-rate 1e-3 --epochs 2 --quiet"
    plain = cloze(f"{finetune} --json").json
    assert "calibration" not in plain
    command = f"{finetune} --overwrite --set classification.calibrate=true"
    printed = cloze(command).out
    scores = json.loads((tmp_path / "out/scores.json").read_text())
    calibration = scores.pop("calibration")
    assert {**scores, "run": plain["run"]} == plain
    assert calibration["temperature"] != 1
    line = r"\n  calibration error \d\.\d{4} at temperature [\d.]+, \d\.\d{4} at 1\n  on \d+ examples"
    assert re.search(line, printed)
    evaluated = cloze(f"evaluate -m {{out}} -d {dev} --json --quiet").json
    assert evaluated["calibration"]["error_before"] == pytest.approx(calibration["error_before"])
    assert re.search(line, cloze(f"evaluate -m {{out}} -d {dev} --quiet").out)


@pytest.mark.slow
def test_a_learning_curve_is_a_table_by_number_of_examples(samples, tmp_path, cloze):
    printed = cloze(f"{NANO_FINETUNE} --dev {{table}} --data-fractions 1,0.3 --seeds 2 --quiet").out
    share, last = (line.split() for line in printed.splitlines()[2:4])
    assert printed.splitlines()[1].split()[:4] == ["share", "train", "examples", "accuracy"]
    assert (share[:2], last[:2]) == (["0.3", "12"], ["1", "40"])
    assert re.search(r"\n  accuracy [+-]\d\.?\d* from 12 to 40 training examples; 40 dev examples\n", printed)
    report = json.loads((tmp_path / "out/trials.json").read_text())
    by_share = {setting["data_fraction"]: setting for setting in report["settings"]}
    assert {fraction: setting["train_examples"] for fraction, setting in by_share.items()} == {0.3: 12, 1: 40}
    alone = (
        NANO_FINETUNE.replace("{out}", "{tmp}/alone")
        + " --dev {table} --set data_fraction=0.3 --json --quiet"
    )
    assert cloze(alone).json["accuracy"] == by_share[0.3]["results"][0]["accuracy"]


def test_shares_that_cannot_be_learned_from_are_refused(error_line, tmp_path):
    for flags, what in {
        "0.1,x": "--data-fractions: 'x' is not a number",
        "0.5,1.5": "--data-fractions: 1.5 is not above 0 and at most 1",
        "0.5,0.5": "must be distinct",
        "0.5 --set data_fraction=0.5": "data_fractions cannot be combined with data_fraction or a teacher",
    }.items():
        assert what in error_line(f"{NANO_FINETUNE} --data-fractions {flags}")
    assert not (tmp_path / "out").exists()
