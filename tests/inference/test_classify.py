"""The classifier of texts: order, length, pairs, and what it refuses."""

from pathlib import Path

import pytest
import torch

from cloze import artifacts
from cloze.errors import InputError
from cloze.inference.classify import TextClassifier
from cloze.inference.predictor import Predictor
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import TASK_FILE, write_model_files
from cloze.model.heads import BertForSequenceClassification
from cloze.progress import Progress
from cloze.tasks.classification import Classification
from cloze.tasks.config import TaskSettings, to_toml
from cloze.tasks.texts import LabelledText
from cloze.text.tokenizer import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = BertConfig(
        vocab_size=len(PIECES),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=30,
        initializer_range=0.5,
    )
    generator = torch.Generator().manual_seed(4)
    model = BertForSequenceClassification(
        BertModel(config, generator=generator), num_labels=3, generator=generator
    )
    labels = ("left", "middle", "right")
    path = tmp_path_factory.mktemp("classifier") / "model"
    with artifacts.write_directory(path, kind="checkpoint") as directory:
        write_model_files(directory, model, Tokenizer.from_pieces(PIECES), labels=labels)
        settings = to_toml(Classification(labels=labels, text_column="said"), TaskSettings(max_seq_length=12))
        (directory / TASK_FILE).write_text(settings)
    return path


@pytest.fixture(scope="session")
def classifier(checkpoint: Path) -> TextClassifier:
    return TextClassifier.load(checkpoint, device="cpu")


def test_any_number_of_texts_in_their_order(classifier: TextClassifier) -> None:
    texts = [" ".join("abcd"[(i * j) % 4] for j in range(i % 9)) for i in range(1100)]
    predictions = classifier(texts)
    assert len({prediction.label for prediction in predictions}) > 1
    for i in (0, 1, 7, 500, 1099):
        (alone,) = classifier([texts[i]])
        assert predictions[i].label == alone.label
        assert predictions[i].probability == max(predictions[i].probabilities.values())
        assert predictions[i].probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert sum(alone.probabilities.values()) == pytest.approx(1)
    assert classifier([]) == []


def test_pairs_are_another_thing_than_texts(classifier: TextClassifier) -> None:
    (pair,), (text,) = classifier(["a b"], ["c"]), classifier(["a b c"])
    assert pair.probabilities != pytest.approx(text.probabilities, abs=1e-3)
    with pytest.raises(InputError, match="2 texts and 1 pairs"):
        classifier(["a", "b"], ["c"])


def test_one_text_is_no_list_of_letters(classifier: TextClassifier) -> None:
    with pytest.raises(InputError, match=r"texts: is one text\. Give a list of texts"):
        classifier("A film")


def test_what_was_cut_is_told(classifier: TextClassifier) -> None:
    long = "a b c d " * 5
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than 12 tokens: cut"):
        cut, _ = classifier([long, "a"])
    (kept,) = classifier([" ".join(long.split()[:10])])
    assert cut.probabilities == pytest.approx(kept.probabilities, abs=1e-5)


def test_a_stream_is_answered_in_its_order(
    classifier: TextClassifier, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = (LabelledText("a b" if i % 3 else "c " * 20) for i in range(2500))
    answers = classifier.stream(examples, progress=Progress())
    first = next(answers)
    assert next(examples) == LabelledText("a b"), "more was read than one part"
    rest = list(answers)
    assert len(rest) == 2498
    assert [example.text for example, _ in [first, *rest[:2]]] == ["c " * 20, "a b", "a b"]
    assert {p.label for e, p in rest if e.text == "a b"} == {rest[0][1].label}
    assert "834 examples are longer than 12 tokens: cut" in capsys.readouterr().err


def test_a_checkpoint_that_others_wrote_has_no_task_file(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=len(PIECES),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=30,
        id2label={0: "no", 1: "yes"},
        label2id={"no": 0, "yes": 1},
    )
    torch.manual_seed(3)
    theirs = transformers.BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    Tokenizer.from_pieces(PIECES).save(tmp_path)
    ours = TextClassifier.load(tmp_path, device="cpu")
    assert ours.max_seq_length == 30
    (prediction,) = ours(["a b"])
    with torch.no_grad():
        logits = theirs(torch.tensor([[2, 5, 6, 3]])).logits[0]
    assert list(prediction.probabilities) == ["no", "yes"]
    assert list(prediction.probabilities.values()) == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("theirs", "ours", "other"),
    [
        ("single_label_classification", "classification", "multi-label"),
        ("multi_label_classification", "multi-label", "classification"),
        ("multi_label_classification", "multi-label", "rte"),
    ],
)
def test_logits_of_others_mean_what_their_config_says(
    tmp_path: Path, theirs: str, ours: str, other: str
) -> None:
    bert = BertModel(BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1))
    with artifacts.write_directory(tmp_path / "a", kind="checkpoint") as directory:
        write_model_files(
            directory,
            BertForSequenceClassification(bert, num_labels=2),
            Tokenizer.from_pieces(PIECES),
            labels=("entailment", "not_entailment"),
            problem_type=theirs,
        )
    assert Predictor.load(tmp_path / "a", ours).task.name == ours
    with pytest.raises(InputError, match=rf"no model for {other}: .*{theirs}': see the task {ours}\."):
        Predictor.load(tmp_path / "a", other)


def test_what_is_no_classifier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        TextClassifier.load(tmp_path)
    encoder = BertModel(BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1))
    with artifacts.write_directory(tmp_path / "encoder", kind="checkpoint") as directory:
        write_model_files(directory, encoder, Tokenizer.from_pieces(PIECES))
    with pytest.raises(InputError, match=r"config.json names no labels. Fine-tune one"):
        TextClassifier.load(tmp_path / "encoder")
