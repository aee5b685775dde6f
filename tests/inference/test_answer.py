"""Answers in Python: equal to transformers' model, and what is refused."""

from pathlib import Path

import pytest
import torch

from cloze import artifacts
from cloze.errors import InputError
from cloze.inference.answer import QuestionAnswerer
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import TASK_FILE, load_model, write_model_files
from cloze.model.heads import BertForQuestionAnswering, BertForSequenceClassification
from cloze.model.packed import pack_padded
from cloze.tasks.classification import Classification
from cloze.tasks.config import TaskSettings, to_toml
from cloze.tasks.contexts import Excerpt, Paragraph
from cloze.tasks.span import SpanQuestion
from cloze.tasks.squad import SquadV2
from cloze.text.tokenizer import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh")
CONFIG = BertConfig(
    vocab_size=len(PIECES),
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=30,
    initializer_range=0.5,
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = torch.Generator().manual_seed(4)
    model = BertForQuestionAnswering(BertModel(CONFIG, generator=generator), generator=generator)
    path = tmp_path_factory.mktemp("answers") / "model"
    with artifacts.write_directory(path, kind="checkpoint") as directory:
        write_model_files(directory, model, Tokenizer.from_pieces(PIECES))
        settings = to_toml(SquadV2(doc_stride=5, null_threshold=1e9), TaskSettings(max_seq_length=16))
        (directory / TASK_FILE).write_text(settings)
    return path


def test_answers_are_parts_of_texts_as_long_as_they_like(checkpoint: Path) -> None:
    answerer = QuestionAnswerer.load(checkpoint, device="cpu")
    texts = ["a b c", " ".join("abcdefgh" * 20), "h  g"]
    predictions = answerer(["a b", "c", "d"], texts)
    for text, prediction in zip(texts, predictions, strict=True):
        place = prediction.answer.excerpt
        assert place is not None
        assert text[place.start : place.end] == prediction.answer.text
    (alone,) = answerer(["c"], [texts[1]])
    assert [answer.text for answer in alone.candidates] == [a.text for a in predictions[1].candidates]
    assert answerer([], []) == []
    with pytest.raises(InputError, match="2 questions and 1 texts"):
        answerer(["a", "b"], ["a"])


def test_one_question_is_no_list_of_letters(checkpoint: Path) -> None:
    with pytest.raises(InputError, match="questions: is one text"):
        QuestionAnswerer.load(checkpoint)("Who?", "Ada.")


def test_transformers_says_the_same(checkpoint: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(checkpoint).eval()
    padded = transformers.AutoTokenizer.from_pretrained(checkpoint)(
        ["a b c", "h", "b b"], ["d e f g h a b", "g", "a c a c a"], padding=True, return_tensors="pt"
    )
    mask = padded["attention_mask"].bool()
    packed, padding = pack_padded(padded["input_ids"], mask, padded["token_type_ids"])
    task = SquadV2()
    example = SpanQuestion("q", "a b", Paragraph("c d e f"), (Excerpt("d e", 2, 5),))
    theirs.save_pretrained(tmp_path)  # without the pooler, which this head does not read
    Tokenizer.from_pieces(PIECES).save(tmp_path)
    with torch.no_grad():
        expected = theirs(**padded)
        for directory in (checkpoint, tmp_path):
            logits = padding.unpack_tokens(load_model(directory, BertForQuestionAnswering)(packed))
            for column, expected_logits in enumerate((expected.start_logits, expected.end_logits)):
                torch.testing.assert_close(
                    logits[..., column][mask], expected_logits[mask], atol=1e-5, rtol=0
                )
    (feature,) = task.features(example, Tokenizer.from_pieces(PIECES), max_seq_length=30)
    batch = task.batch([feature])
    loss, _ = task.loss(load_model(checkpoint, BertForQuestionAnswering)(batch.packed), batch)
    positions = {"start_positions": batch.targets[:, 0], "end_positions": batch.targets[:, 1]}
    inputs = {"input_ids": batch.packed.input_ids[None], "token_type_ids": batch.packed.token_type_ids[None]}
    torch.testing.assert_close(loss, theirs(**inputs, **positions).loss, atol=1e-5, rtol=1e-5)
    (prediction,) = QuestionAnswerer.load(tmp_path, "squad_v2", device="cpu")(["a"], ["b c"])
    assert prediction.null_odds is not None


def test_what_does_not_answer_questions_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    encoder = BertModel(CONFIG, generator=torch.Generator().manual_seed(1))
    with artifacts.write_directory(tmp_path / "classifier", kind="checkpoint") as directory:
        labels = ("a", "b")
        model = BertForSequenceClassification(encoder, num_labels=2)
        write_model_files(directory, model, Tokenizer.from_pieces(PIECES), labels=labels)
        settings = to_toml(Classification(labels=labels), TaskSettings(max_seq_length=12))
        (directory / TASK_FILE).write_text(settings)
    with pytest.raises(InputError, match="'classification', which finds no answers in texts"):
        QuestionAnswerer.load(tmp_path / "classifier")
    with pytest.raises(InputError, match="a model for the task 'squad_v2', not 'squad_v1'"):
        QuestionAnswerer.load(checkpoint, "squad_v1")
    with artifacts.write_directory(tmp_path / "encoder", kind="checkpoint") as directory:
        write_model_files(directory, encoder, Tokenizer.from_pieces(PIECES))
    with pytest.raises(InputError, match="no weight qa_outputs"):
        QuestionAnswerer.load(tmp_path / "encoder", "squad_v1")
