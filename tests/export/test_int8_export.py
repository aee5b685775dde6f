"""`cloze export --to int8`: small, marked as cloze's own, the numbers of `--precision int8`, and not to be trained."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import cloze
from cloze.cli import main
from cloze.errors import InputError
from cloze.inference.embedder import Embedder
from cloze.models.quantization import INT8_KIND
from cloze.serving.served_model import ServedModel
from helpers import task_of
from tiny_models import SPECIAL, write_finetuned

TEXTS = ["A dog runs.", "Stocks fell again on Monday."]
TOKENS = [*SPECIAL, *"abcdefgh"]


@pytest.fixture(scope="module")
def int8_minilm(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("int8") / "small"
    assert main(["export", str(minilm), "--to", "int8", "-o", str(output), "--quiet"]) == 0
    return output


def test_a_directory_has_at_most_three_tenths_of_the_size(int8_minilm: Path, minilm: Path):
    sizes = [sum(file.stat().st_size for file in path.rglob("*")) for path in (int8_minilm, minilm)]
    assert sizes[0] <= 0.3 * sizes[1]


@pytest.mark.slow
@pytest.mark.protected
def test_a_directory_has_the_bits_of_a_model_quantized_when_loaded(int8_minilm: Path, minilm: Path):
    stored = Embedder.load(int8_minilm, device="cpu")(TEXTS)
    loaded = Embedder.load(minilm, device="cpu", precision="int8")(TEXTS)
    np.testing.assert_array_equal(stored, loaded)


def test_a_directory_is_marked(int8_minilm: Path, capsys: pytest.CaptureFixture[str]):
    assert json.loads((int8_minilm / "manifest.json").read_text())["kind"] == INT8_KIND
    assert main(["info", str(int8_minilm)]) == 0
    printed = capsys.readouterr().out
    assert "an int8 checkpoint" in printed
    assert "22,713,216" in printed  # as many parameters as in float32


def test_transformers_refuses_a_directory(int8_minilm: Path):
    transformers = pytest.importorskip("transformers")
    with pytest.raises(ValueError, match="cloze-int8-bert"):
        transformers.AutoModel.from_pretrained(int8_minilm)


@pytest.mark.parametrize("verb", ["finetune sst2 -d data -o run", "import", "export --to int8", "export"])
def test_a_directory_is_refused_where_weights_change(verb: str, int8_minilm: Path, tmp_path: Path, capsys):
    name, *rest = verb.split()
    flags = ["-m", str(int8_minilm), *rest] if name == "finetune" else [str(int8_minilm), *rest]
    flags = [str(tmp_path / value) if value in ("data", "run") else value for value in flags]
    if name == "finetune":
        (tmp_path / "data").mkdir()
        for file in ("train.tsv", "dev.tsv"):
            (tmp_path / "data" / file).write_text("sentence\tlabel\na\t0\nb\t1\n")
    else:
        flags += ["-o", str(tmp_path / "out")]
    assert main([name, *flags]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "an int8 model, which cannot be " in message
    assert "Give the model that it was exported from" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"to": "int4"}, "to: is 'int4'"),
        ({"to": "int8", "precision": "float16"}, "precision: applies to graphs only"),
    ],
)
def test_other_exports_are_refused(arguments: dict[str, str], message: str, tmp_path: Path):
    with pytest.raises(InputError, match=message):
        cloze.export_model("cloze-mini", output=tmp_path / "out", **arguments)  # type: ignore[call-overload]


def test_a_damaged_directory_is_refused(int8_minilm: Path, tmp_path: Path):
    shutil.copytree(int8_minilm, tmp_path / "copy")
    with (tmp_path / "copy" / "model.safetensors").open("r+b") as weights:
        weights.seek(-9, 2)
        weights.write(b"x")
    with pytest.raises(InputError, match="its SHA-256 differs"):
        cloze.Embedder.load(tmp_path / "copy", device="cpu")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a fine-tuned model, and the same in int8 beside it."""
    directory = tmp_path_factory.mktemp("classifier")
    task = task_of("classification", labels=("x", "y"))
    model = write_finetuned(directory / "model", task, TOKENS)
    report = cloze.export_model(model, output=directory / "int8", to="int8")
    assert report.model == "BertForSequenceClassification"
    return directory


def test_a_fine_tuned_model_answers_from_a_directory(classifier: Path):
    exact, loaded, stored = (
        cloze.TextClassifier.load(classifier / name, device="cpu", precision=precision)("a b c")
        for name, precision in (("model", None), ("model", "int8"), ("int8", None))
    )
    assert stored == loaded
    assert stored != exact
    assert stored.probabilities["x"] == pytest.approx(exact.probabilities["x"], abs=0.05)


def test_a_directory_is_served(classifier: Path):
    exact, small = (ServedModel.load(name, classifier / name, device="cpu") for name in ("model", "int8"))
    assert set(exact.abilities) - set(small.abilities) == {"explain"}  # there are no gradients
    first, second = (served.embedder("a b c") for served in (exact, small))
    assert 0.9 < first @ second / (np.linalg.norm(first) * np.linalg.norm(second)) < 1


@pytest.mark.parametrize("kind", [cloze.TextClassifier, cloze.Embedder])
def test_a_model_in_bfloat16_is_not_saved(kind: type, classifier: Path, tmp_path: Path):
    loaded = kind.load(classifier / "model", device="cpu", precision="bfloat16")
    with pytest.raises(InputError, match=r"rounded to bfloat16\. Load it with the `precision` float32"):
        loaded.save(tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_an_int8_model_is_not_saved_or_explained(classifier: Path, tmp_path: Path):
    loaded = cloze.TextClassifier.load(classifier / "model", device="cpu", precision="int8")
    with pytest.raises(InputError, match="Write one with cloze export --to int8"):
        loaded.save(tmp_path / "again")
    with pytest.raises(InputError, match="Say float32 for `precision`"):
        cloze.explain("a b c", model=loaded)
