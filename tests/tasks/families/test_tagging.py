"""Tagging: every word is tagged, in windows and documents, and predictions are read and scored."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cloze
from cloze.data.reading.tagged_text import Sentence, TaggedText
from cloze.models.batch import to_device
from cloze.models.torch_engine import TorchEngine
from cloze.tasks.answers.tags import TagPrediction
from cloze.tasks.features import tagging_features
from cloze.tasks.predict import featurize, predict
from family_cases import tokens_of
from helpers import external_answer, task_of

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "##a", "##b", "##c", "##d", ".")
TASK = task_of("tagging", labels=("O", "B-X", "I-X", "B-Y", "I-Y"))


@pytest.fixture(scope="module")
def letters():
    return cloze.WordPieceTokenizer.from_tokens(TOKENS)


def shown(feature):
    """Return the tokens of a feature, those that a word is tagged by in capitals."""
    tokens = [TOKENS[i].removeprefix("##").lower() for i in feature.input_ids]
    return " ".join(token.upper() if i in feature.positions else token for i, token in enumerate(tokens))


def features_of(tokenizer, sentences, max_seq_length, task=TASK):
    example = TaggedText(tuple(Sentence(tuple(text.split())) for text in sentences))
    return task.answer.features(example, tokenizer, max_seq_length=max_seq_length)


def test_word_is_tagged_by_its_first_token(letters):
    (feature,) = features_of(letters, ["abc d"], 20)
    assert shown(feature) == "[cls] A b c D [sep]"


def test_words_that_the_tokenizer_removes_are_unk(letters):
    nothing = ["\u200b", "�", "\x01"]
    words = (nothing[0], "a", nothing[1], nothing[2], "?" * 3, "[MASK]", "bb", "a" * 101, nothing[0])
    (feature,) = TASK.answer.features(TaggedText((Sentence(words),)), letters, max_seq_length=40)
    assert len(feature.positions) == len(words)
    tokens = [TOKENS[i] for i in feature.input_ids]
    assert " ".join(tokens[i] for i in feature.positions) == "[UNK] a [UNK] [UNK] [UNK] [UNK] b [UNK] [UNK]"
    assert tokens[-4:] == ["##b", "[UNK]", "[UNK]", "[SEP]"]


def test_long_sentence_is_read_in_windows_and_each_word_tagged_once(letters):
    assert [shown(feature) for feature in features_of(letters, ["a b c d a b c d a"], 6)] == [
        "[cls] A B C d [sep]",
        "[cls] c D A b [sep]",
        "[cls] a B C d [sep]",
        "[cls] c D A [sep]",
    ]


def test_word_after_one_longer_than_a_window_is_tagged(letters):
    features = features_of(letters, ["a " + "." * 40 + " b"], 10)
    predicted = [token for feature in features for token in shown(feature).split() if token in ("A", "B")]
    assert predicted == ["A", "B"]
    assert sum(len(feature.positions) for feature in features) == 3


def test_context_fills_the_sequence_on_both_sides(letters):
    assert [shown(feature) for feature in features_of(letters, ["a b", "c d", "a b c", "d"], 8)] == [
        "[cls] A B c d a b [sep]",
        "[cls] a b C D a b [sep]",
        "[cls] c d A B C d [sep]",
        "[cls] c d a b c D [sep]",
    ]


@pytest.mark.parametrize("max_seq_length", [8, 9, 17, 40])
def test_random_documents_lose_no_word(letters, max_seq_length):
    rng = np.random.default_rng(max_seq_length)
    for _ in range(50):
        lengths = [rng.integers(1, 7, rng.integers(1, 15)) for _ in range(rng.integers(1, 6))]
        sentences = [
            Sentence(tuple("".join(rng.choice(list("abcd.\u200b?"), n)) for n in of_sentence))
            for of_sentence in lengths
        ]
        num_words = sum(len(sentence.words) for sentence in sentences)
        targets = np.arange(num_words)
        features = tagging_features(sentences, targets, letters, max_seq_length=max_seq_length)
        assert np.concatenate([feature.targets for feature in features]).tolist() == targets.tolist()
        assert max(feature.num_tokens for feature in features) <= max_seq_length
        for feature in features:
            assert (feature.positions >= 1).all()
            assert (feature.positions < feature.num_tokens - 1).all()
            assert feature.input_ids[[0, -1]].tolist() == [letters.cls_id, letters.sep_id]


def test_empty_text_has_no_tags(letters, build_encoder):
    example = TASK.reader.split(" \n ")
    assert TASK.answer.features(example, letters, max_seq_length=8) == []
    model = TASK.answer.head(build_encoder())
    (prediction,) = predict(TASK.answer, TorchEngine(model), [example], [[]], max_tokens=64)
    assert TASK.answer.to_json(example, prediction) == {"text": " \n ", "entities": [], "sentences": []}


def one_hot(*numbers):
    return 9 * np.eye(5, dtype=np.float32)[list(numbers)]


def test_windows_are_joined_and_tags_are_in_the_scheme(letters):
    example = TaggedText((Sentence(("a",) * 6),))
    outputs = [one_hot(2, 2, 1), one_hot(0, 3, 4)]
    for scheme, tags in {
        None: ("B-X", "I-X", "B-X", "O", "B-Y", "I-Y"),
        "IOB1": ("I-X", "I-X", "B-X", "O", "I-Y", "I-Y"),
        "IOBES": ("B-X", "E-X", "S-X", "O", "B-Y", "E-Y"),
    }.items():
        task = TASK.with_settings(dict(scheme=scheme))
        decoded = task.answer.decode(example, [], outputs)
        assert decoded.tags == (tags,)
        assert decoded.probabilities[0] == pytest.approx([1 / (1 + 4 * np.exp(-9))] * 6)


def test_notes_name_scheme_and_uncased_model(letters):
    task = TASK.with_settings(dict(scheme="IOB1"))
    cased = replace(letters, lowercase=False)
    assert list(task.answer.notes([], [], cased)) == ["tags in IOB1, of 2 types: X, Y"]
    assert "lower-cases its text" in list(task.answer.notes([], [], letters))[1]


def test_iob1_labels_may_lack_b_of_a_type(letters, tmp_path):
    answer = external_answer(tmp_path, "tagging", "O", "I-X", "I-Y", "B-Y")
    example = TaggedText((Sentence(("a", "b", "c", "d"), ("B-X", "I-X", "B-Y", "I-Y")),))
    (feature,) = answer.features(example, letters, max_seq_length=8)
    assert feature.targets is not None
    assert feature.targets.tolist() == [1, 1, 3, 2]
    logits = 9 * np.eye(4, dtype=np.float32)[[1, 1, 2, 2]]
    assert answer.score([example], [answer.decode(example, [feature], [logits])], ["f1"])["f1"] == 100


def test_classes_of_models_are_tags_or_refused(tmp_path):
    with pytest.raises(
        cloze.InputError, match=r"'LABEL_0' is not a tag such as B-PER\. Name the classes in config"
    ):
        external_answer(tmp_path, "tagging", "LABEL_0", "LABEL_1")
    with pytest.raises(cloze.InputError, match="'B-O' is not a tag"):
        external_answer(tmp_path, "tagging", "B-O", "B-PER", "I-PER")
    with pytest.raises(cloze.InputError, match="names no labels"):
        external_answer(tmp_path, "tagging")
    answer = external_answer(tmp_path, "tagging", "ADJ", "NOUN")
    assert (answer.labels, answer.scheme) == (("ADJ", "NOUN"), "plain")


def test_file_with_both_columns_scores_as_conlleval():
    path = Path(__file__).parents[2] / "golden" / "ner" / "conlleval_input.txt"
    task = task_of("tagging", tag_column=-2)
    examples = list(task.examples(path))
    scores = task.score(examples, task.answer.read_answers(path, examples))
    expected = {
        "f1": 58.48,
        "precision": 44.29,
        "recall": 86.02,
        "tag_accuracy": 94.26,
        "f1_creative-work": 48.86,
    }
    assert {name: round(scores[name], 2) for name in expected} == expected


def test_predictions_are_read_from_json_lines_or_columns(tmp_path):
    gold = tmp_path / "gold.conll"
    gold.write_text("-DOCSTART- x O\n\na x B-X\nb x I-X\n\nc x B-Y\n")
    task = task_of("conll2003")
    examples = list(task.examples(gold))
    expected = [TagPrediction((("B-X", "O"), ("B-Y",)))]
    lines, columns = tmp_path / "out.jsonl", tmp_path / "out.conll"
    lines.write_text(json.dumps({"sentences": [{"tags": ["B-X", "O"]}, {"tags": ["B-Y"]}]}) + "\n")
    columns.write_text("-DOCSTART- x O O\n\na x B-X B-X\nb x I-X O\n\nc x B-Y B-Y\n")
    assert [p.tags for p in task.answer.read_answers(lines, examples)] == [p.tags for p in expected]
    assert task.answer.read_answers(columns, examples) == expected
    assert task.score(examples, expected) == pytest.approx(
        {"f1": 50, "precision": 50, "recall": 50, "tag_accuracy": 200 / 3, "f1_X": 0, "f1_Y": 100}
    )
    unknown = [TagPrediction((("B-Z", "O"), ("B-Y",)))]
    assert task.score(examples, unknown).keys() == task.score(examples, expected).keys()


def test_batch_has_positions_and_targets_of_all_features(letters):
    sentences = (Sentence(("a", "bc"), ("B-X", "O")), Sentence(("d",), ("B-Y",)))
    features = featurize(TASK.answer, [TaggedText((s,)) for s in sentences], letters, max_seq_length=10)
    batch = to_device(TASK.answer.batch([feature for of_example in features for feature in of_example]))
    assert tokens_of(letters, batch) == "[CLS] a b ##c [SEP] [CLS] d [SEP]"
    assert batch.positions.tolist() == [1, 2, 6]
    assert batch.targets.tolist() == [1, 0, 3]
    logits = np.arange(8)[:, None].repeat(5, 1)
    assert [output[:, 0].tolist() for output in TASK.answer.outputs(logits, batch)] == [[1, 2], [6]]
