"""Predictors: order, truncation, character offsets, models of transformers, and models that a class refuses."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import cloze
from cloze.errors import InputError
from cloze.explorer.text_window import join_scores
from cloze.inference.predictor import Predictor
from cloze.inference.text_predictors import (
    EntityTagger,
    QuestionAnswerer,
    TextClassifier,
    TextRanker,
    span_questions,
)
from cloze.models import heads
from cloze.models.batch import to_device
from cloze.models.bert import BertConfig, BertModel
from cloze.models.checkpoint import save_model
from cloze.models.heads import BertForSequenceClassification
from cloze.tasks.predict import top_k_limiter
from cloze.tasks.questions import Excerpt, Paragraph, SpanQuestion
from cloze.tasks.tagged_reader import split_text
from cloze.tasks.texts import LabeledText
from helpers import task_of
from tiny_models import tiny_config, write_checkpoint, write_finetuned

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##a", ".", ",")
CONFIG = tiny_config(PIECES)
TAGS = ("O", "B-X", "I-X", "B-Y", "I-Y")
LABELS = ("left", "middle", "right")


def load(
    kind: Any, places: pytest.TempPathFactory, task: str, length: int = 12, seed: int = 4, **settings: Any
) -> Any:
    """Load a random model of a task."""
    path = places.mktemp("finetuned") / "model"
    write_finetuned(path, task_of(task, **settings), PIECES, seed=seed, max_seq_length=length)
    return kind.load(path, device="cpu")


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(TextClassifier, tmp_path_factory, "classification", seed=2, labels=LABELS, text_column="said")


@pytest.fixture(scope="session")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(TextClassifier, tmp_path_factory, "classification", seed=2, labels=LABELS, pair_column="then")


@pytest.fixture(scope="session")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(EntityTagger, tmp_path_factory, "tagging", labels=TAGS)


@pytest.fixture(scope="session")
def answerer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(QuestionAnswerer, tmp_path_factory, "squad_v2", 16, doc_stride=5, null_threshold=1e9)


def save_theirs(kind: Any, labels: Sequence[str], directory: Path) -> Any:
    """Write a random model of transformers, without a task file."""
    table = {field.name: getattr(CONFIG, field.name) for field in fields(BertConfig)}
    torch.manual_seed(3)
    config = transformers.BertConfig(**table, id2label=dict(enumerate(labels)))
    model = kind(config).eval()
    model.save_pretrained(directory)
    cloze.WordPieceTokenizer.from_tokens(PIECES).save(directory)
    return model


def test_any_number_of_texts_in_their_order(classifier):
    texts = [" ".join("abcd"[(i * j) % 4] for j in range(i % 9)) for i in range(1100)]
    predictions = classifier(texts)
    assert len({prediction.label for prediction in predictions}) > 1
    for i in (0, 1, 7, 500, 1099):
        (alone,) = classifier([texts[i]])
        assert predictions[i].label == alone.label
        assert predictions[i].probability == max(predictions[i].probabilities.values())
        assert predictions[i].probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert sum(alone.probabilities.values()) == pytest.approx(1)


def test_top_k_classes_are_the_most_probable(classifier, tagger):
    (everything,), (two,) = classifier(["a b"]), classifier(["a b"], top_k=2)
    ranked = sorted(everything.probabilities.items(), key=lambda item: -item[1])
    assert list(two.probabilities.items()) == ranked[:2]
    assert (two.label, two.probability) == (everything.label, everything.probability)
    assert list(classifier(["a b"], top_k=9)[0].probabilities.items()) == ranked
    with pytest.raises(InputError, match="top_k: 0 is less than 1"):
        classifier(["a b"], top_k=0)
    with pytest.raises(InputError, match="top_k: the predictions have no classes"):
        top_k_limiter(tagger.task.answer, 2)


def test_a_pair_differs_from_its_joined_text(classifier, matcher):
    (pair,), (text,) = matcher(["a b"], ["c"]), classifier(["a b c"])
    assert pair.probabilities != pytest.approx(text.probabilities, abs=1e-3)
    assert matcher([("a b", "c")]) == [pair]
    assert matcher(("a b", "c")) == pair
    assert matcher.labels == LABELS
    with pytest.raises(InputError, match=r"pairs\[1\] is None"):
        matcher([("a", "b"), ("c", None)])
    with pytest.raises(InputError, match="pairs: 1 texts, expected 2"):
        matcher(["a", "b"], ["c"])


def test_truncation_is_warned_of(classifier):
    long = "a b c d " * 5
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than 12 tokens: truncated"):
        cut, _ = classifier([long, "a"])
    (kept,) = classifier([" ".join(long.split()[:10])])
    assert cut.probabilities == pytest.approx(kept.probabilities, abs=1e-5)


def test_a_stream_is_answered_in_its_order(classifier, capsys):
    examples = (LabeledText("a b" if i % 3 else "c " * 20) for i in range(2500))
    answers = classifier.stream(examples, progress=cloze.Progress())
    first = next(answers)
    assert next(examples) == LabeledText("a b"), "more was read than one part"
    rest = list(answers)
    assert len(rest) == 2498
    assert [example.text for example, _ in [first, *rest[:2]]] == ["c " * 20, "a b", "a b"]
    assert {p.label for e, p in rest if e.text == "a b"} == {rest[0][1].label}
    assert "834 examples are longer than 12 tokens: truncated" in capsys.readouterr().err


@pytest.mark.protected
def test_a_checkpoint_of_transformers_needs_no_task_file(tmp_path):
    theirs = save_theirs(transformers.BertForSequenceClassification, ("no", "yes"), tmp_path)
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
def test_logits_of_others_mean_what_their_config_says(tmp_path, theirs, ours, other):
    model = BertForSequenceClassification(BertModel(CONFIG), num_labels=2)
    labels = ("entailment", "not_entailment")
    write_checkpoint(tmp_path / "a", model, PIECES, labels=labels, problem_type=theirs)
    assert Predictor.load(tmp_path / "a", task=ours).task.name == ours
    with pytest.raises(InputError, match=rf"no model for .*{theirs}': see the task {ours}\. .* {other}\."):
        Predictor.load(tmp_path / "a", task=other)


def test_entities_have_the_characters_of_their_text(tagger):
    text = "  A b, c\u200bd.   D\u00e1 (a) " + "a b c d " * 300 + "."
    (found,) = tagger([text])
    assert len({entity.type for entity in found}) == 2
    assert len(found) > 10
    assert all(text[entity.start : entity.end] == entity.text for entity in found)
    assert all(0 < entity.probability <= 1 for entity in found)
    assert [entity.start for entity in found] == sorted(entity.start for entity in found)
    assert found[-1].end > 2000


def test_words_that_are_split_already_are_answered_as_those_of_a_file(tagger, tmp_path):
    sentences = [["a", "b.c", "d"], ["D\u00e1", "(a)"], ["a"]]
    path = tmp_path / "words.conll"
    path.write_text("\n\n".join("\n".join(f"{word} O" for word in words) for words in sentences))
    rows = cloze.predict_file(path, model=tagger)
    assert [[asdict(entity) for entity in found] for found in tagger(words=sentences)] == [
        row["entities"] for row in rows
    ]
    assert tagger(words=sentences[0]) == tagger(words=sentences)[0]
    assert (tagger(words=[]), tagger(words=[[]])) == ([], [[]])
    with pytest.raises(InputError, match=r"words\[1\]\[0\]: the word is blank"):
        tagger(words=[["a"], [" "]])
    with pytest.raises(InputError, match="texts: excludes `words`"):
        tagger("a", words=["a"])


@pytest.mark.protected
def test_a_checkpoint_of_transformers_tags_text(tmp_path):
    theirs = save_theirs(transformers.BertForTokenClassification, TAGS, tmp_path)
    tagger = EntityTagger.load(tmp_path, task="tagging", device="cpu")
    assert tagger.max_seq_length == 30
    text = "a b c d a b"
    example = tagger.task.reader.split(text)
    (prediction,), _ = tagger.predict([example])
    ids = torch.tensor([[2, 5, 6, 7, 8, 5, 6, 3]])
    with torch.no_grad():
        probabilities = theirs(ids).logits[0, 1:-1].softmax(-1).max(-1).values
    assert prediction.probabilities[0] == pytest.approx(probabilities.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Is it J. Smith?", "Is|it|J.|Smith|?"),
        ('"Yes," (he said)...', '"|Yes|,|"|(|he|said|)|.|.|.'),
        ("The U.S. won 3-1, 10,000 saw it.", "The|U.S.|won|3-1|,|10,000|saw|it|."),
        ("Ann's dog, Bob’s cat", "Ann|'s|dog|,|Bob|’s|cat"),
        ("@ann likes #tags & # 's", "@ann|likes|#tags|&|#|'|s"),
        ("我爱北京。你呢", "我|爱|北|京|。|你|呢"),
        ("नमस्ते दुनिया।", "नमस्ते|दुनिया|।"),
        (" \n\t ", ""),
        ("$5.", "$|5|."),
        ("...", ".|.|."),
    ],
)
def test_text_is_split_as_tagged_data_are(text, words):
    sentences = split_text(text)
    assert "|".join(word for sentence in sentences for word in sentence.words) == words
    for sentence in sentences:
        assert sentence.offsets is not None
        assert [text[start:end] for start, end in sentence.offsets] == list(sentence.words)


def test_answers_are_spans_of_texts_of_any_length(answerer):
    texts = ["a b c", " ".join("abcdefgh" * 20), "h  g"]
    predictions = answerer(["a b", "c", "d"], texts)
    for text, prediction in zip(texts, predictions, strict=True):
        assert prediction.start is not None
        assert text[prediction.start : prediction.end] == prediction.text
    (alone,) = answerer(["c"], [texts[1]])
    assert [answer.text for answer in alone.candidates] == [a.text for a in predictions[1].candidates]
    assert answerer(["c"], [texts[1]], top_k=2)[0].candidates == alone.candidates[:2]
    assert answerer([], []) == []
    with pytest.raises(InputError, match="contexts: 1 texts, expected 2"):
        answerer(["a", "b"], ["a"])


def test_long_questions_are_warned_of(answerer):
    long = "why " * 65
    with pytest.warns(UserWarning, match="1 of 2 inputs have a question of more than 64 tokens: truncated"):
        answerer([long, "why"], ["a good day"] * 2)


@pytest.mark.protected
def test_logits_and_loss_of_a_question_are_those_of_transformers(answerer, tmp_path):
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(answerer.directory).eval()
    theirs.save_pretrained(tmp_path)  # without the pooler, which this head does not read
    cloze.WordPieceTokenizer.from_tokens(PIECES).save(tmp_path)
    answerer = QuestionAnswerer.load(tmp_path, task="squad_v2", device="cpu")
    example = SpanQuestion("q", "a b", Paragraph("c d e f"), (Excerpt("d e", 2, 5),))
    batch = to_device(answerer.task.answer.batch(answerer.features(example)))
    logits = answerer.module(batch)
    loss, _ = answerer.task.answer.loss(logits, batch)
    positions = {"start_positions": batch.targets[:, 0], "end_positions": batch.targets[:, 1]}
    inputs = {"input_ids": batch.input_ids[None], "token_type_ids": batch.token_type_ids[None]}
    expected = theirs(**inputs, **positions)
    torch.testing.assert_close(loss, expected.loss, atol=1e-5, rtol=1e-5)
    expected_logits = torch.stack([expected.start_logits[0], expected.end_logits[0]], -1)
    torch.testing.assert_close(logits, expected_logits, atol=1e-5, rtol=0)
    (prediction,) = answerer(["a"], ["b c"])
    assert prediction.null_odds is not None


@pytest.mark.parametrize(
    ("head", "labels", "loader", "task"),
    [
        ("BertForTokenClassification", ("O", "B-X"), EntityTagger, "tagging"),
        ("BertForQuestionAnswering", (), QuestionAnswerer, "squad_v1"),
        ("BertForSequenceClassification", ("a", "b"), TextClassifier, "classification"),
    ],
)
def test_task_is_that_of_the_architecture_or_else_of_the_class(head, labels, loader, task, tmp_path):
    model = getattr(heads, head)(BertModel(CONFIG))
    if labels:
        model = getattr(heads, head)(BertModel(CONFIG), num_labels=len(labels))
    directory = write_checkpoint(tmp_path / "model", model, PIECES, labels=labels)
    assert loader.load(directory, device="cpu").task.name == task
    other = EntityTagger if loader is TextClassifier else TextClassifier
    with pytest.raises(
        InputError, match=f"the task '{task}', which {other.__name__} cannot use. Load it with"
    ):
        other.load(directory)
    assert type(cloze.load(directory, device="cpu")) is loader  # the remedy
    (directory / "manifest.json").unlink()
    config = json.loads((directory / "config.json").read_text())
    del config["architectures"]
    (directory / "config.json").write_text(json.dumps(config))
    assert loader.load(directory, device="cpu").task.name == task


@pytest.mark.protected
def test_models_for_other_tasks_are_refused(classifier, answerer, tagger, tmp_path):
    with pytest.raises(InputError, match="'classification', which QuestionAnswerer cannot use"):
        QuestionAnswerer.load(classifier.directory)
    with pytest.raises(InputError, match="a model for the task 'squad_v2', not 'squad_v1'"):
        QuestionAnswerer.load(answerer.directory, task="squad_v1")
    with pytest.raises(InputError, match="a model for the task 'tagging', not 'cola'"):
        EntityTagger.load(tagger.directory, task="cola")
    labels = ("yes", "no")
    (tmp_path / "yes").mkdir()
    save_model(
        tmp_path / "yes", BertModel(CONFIG), cloze.WordPieceTokenizer.from_tokens(PIECES), labels=labels
    )
    with pytest.raises(InputError, match="no tagger: its class 'yes' is not a tag such as B-PER"):
        EntityTagger.load(tmp_path / "yes", task="tagging")
    with pytest.raises(InputError, match=r"no ranker: .* names 2 classes, not one"):
        TextRanker.load(tmp_path / "yes")
    write_checkpoint(tmp_path / "encoder", BertModel(CONFIG), PIECES)
    with pytest.raises(
        InputError, match=r"no ranker: .* 0 classes, not one\. Fine-tune one: cloze finetune ranking"
    ):
        TextRanker.load(tmp_path / "encoder")
    with pytest.raises(InputError, match="no weight qa_outputs"):
        QuestionAnswerer.load(tmp_path / "encoder", task="squad_v1")


@pytest.mark.parametrize("text", ["a b c d", "abcdefgh" * 2 + " " + " ".join("abcdefgh" * 5), ""])
def test_scores_are_those_of_the_answers(text, answerer):
    features = answerer.features(*span_questions([("a c", text)]))
    found = join_scores(answerer.tokenizer, features, answerer.outputs(features))
    for piece, (start, end) in zip(found["tokens"], found["offsets"], strict=True):
        assert piece in ("[UNK]", text[start:end])
    assert len(found["tokens"]) == len(found["start_logits"]) == len(found["end_logits"])
    (prediction,) = answerer(["a c"], [text])
    for answer in prediction.candidates:
        if answer.text:
            first = [start for start, _ in found["offsets"]].index(answer.start)
            last = [end for _, end in found["offsets"]].index(answer.end)
            assert found["start_logits"][first] == pytest.approx(answer.start_logit, abs=1e-4)
            if text == "a b c d":  # of several windows an end is scored in that of its start
                assert found["end_logits"][last] == pytest.approx(answer.end_logit, abs=1e-4)
        else:
            assert found["null_score"] == pytest.approx(answer.score, abs=1e-4)
