"""The shapes of data that tagging reads: columns, CoNLL-U, JSON, Parquet and plain text."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.errors import InputError
from cloze.metrics.conll import entities
from cloze.tasks.answers.tags import TagPrediction
from cloze.tasks.config import with_settings
from helpers import task_of, write_rows

TAGGED = [("Ada", "B-PER"), ("lives", "O"), ("in", "O"), ("Oslo", "B-LOC"), (".", "O")]


def tagged(texts):
    return [
        pair for text in texts for s in text.sentences for pair in zip(s.words, s.tags or (), strict=True)
    ]


def read(path, task=None):
    return tagged(list((task or task_of("tagging")).examples(path)))


def test_examples_of_the_documentation_are_read(write):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "table-files.md").read_text("utf-8")
    section = re.split(r"\n##+ ", page.split("## Words with tags")[1])[0]
    examples = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    names = ["a.csv" if re.match(r"[\w #]+[,;]", example) else "a.txt" for example in examples]
    read_examples = [read(write(*example)) for example in zip(names, examples, strict=True)]
    assert read_examples[:8] == [TAGGED[:4]] * 8
    assert read_examples[8:] == [[("Ada", "NOUN"), ("lives", "VERB"), ("in", "ADP"), ("Oslo", "NOUN")]]


@pytest.mark.filterwarnings("ignore:.*inside a word")
@given(data=st.data(), text=st.text("ab .é\u0301-京\n", max_size=40))
def test_entities_of_spans_have_the_characters_of_the_spans(data, text, tmp_path_factory):
    ends = sorted(data.draw(st.lists(st.integers(0, len(text)), unique=True, max_size=6)))
    spans = [[a, b, "X"] for a, b in zip(ends[::2], ends[1::2], strict=False) if text[a:b].strip()]
    path = tmp_path_factory.getbasetemp() / "spans.jsonl"
    path.write_text(json.dumps({"text": text, "label": spans}) + "\n")
    (example,) = task_of("tagging").examples(path)
    task = task_of("tagging", labels=("O", "B-X", "I-X"))
    tags = tuple(sentence.tags for sentence in example.sentences)
    found = task.answer.entities(example, TagPrediction(tags, tuple((1.0,) * len(of) for of in tags)))
    assert [text[entity.start : entity.end] for entity in found] == [text[a:b].strip() for a, b, _ in spans]


@pytest.mark.parametrize(
    "feature",
    [
        {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "Sequence"},
        {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "length": -1, "_type": "List"},
        [{"names": ["O", "B-PER"], "_type": "ClassLabel"}],
    ],
    ids=["datasets 2", "datasets 4", "list"],
)
@pytest.mark.parametrize("extension", ["parquet", "arrow"])
def test_names_of_tags_are_in_the_features_of_a_file(tmp_path, feature, extension):
    features = {"ner_tags": feature, "pos_tags": {"feature": {"names": ["NOUN", "VERB"]}}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    columns = {"tokens": [["Ada", "Bo", "ran"]], "pos_tags": [[0, 0, 1]], "ner_tags": [[1, 1, 0]]}
    table = pyarrow.table(columns).replace_schema_metadata(metadata)
    path = tmp_path / f"a.{extension}"
    write_rows(path, table, pyarrow.ipc.new_stream)
    with pytest.raises(InputError, match=r"Choose one of 'pos_tags', 'ner_tags' with `tagging\.tags_field"):
        list(task_of("tagging").examples(path))
    for field, tags in (("ner_tags", ("B-PER", "B-PER", "O")), ("pos_tags", ("NOUN", "NOUN", "VERB"))):
        [example] = task_of("tagging", tags_field=field).examples(path)
        assert example.sentences[0].tags == tags


def test_neighbors_with_one_plain_tag_are_an_entity_if_there_is_a_tag_o():
    task = task_of("tagging", labels=("O", "PER"), scheme="plain")
    example = task.reader.split("Ada Lovelace ran")
    prediction = TagPrediction((("PER", "PER", "O"),), ((0.5, 0.75, 0.5),))
    assert [(e.text, e.probability) for e in task.answer.entities(example, prediction)] == [
        ("Ada Lovelace", 0.375)
    ]


POS = "the\tDET\nold\tADJ\nship\tNOUN\nsank\tVERB\n\nshe\tPRON\nreads\tVERB\nbooks\tNOUN\n"


def test_plain_tags_are_learned_and_scored(write, build_encoder, tokenizer):
    examples = list(task_of("tagging").examples(write("a.conll", POS)))
    task = task_of("tagging").fit(examples)
    assert task.answer.scheme == "plain"
    assert task.answer.labels == ("ADJ", "DET", "NOUN", "PRON", "VERB")
    assert list(task.answer.notes(examples, [], tokenizer)) == [
        "5 plain tags, which mark no entities: ADJ, DET, NOUN, PRON, VERB"
    ]
    (feature,) = task.answer.features(examples[1], tokenizer, max_seq_length=16)
    assert feature.targets.tolist() == [3, 4, 2]
    right = [TagPrediction((text.sentences[0].tags,), ((0.5,) * 4,)) for text in examples[:1]]
    wrong = TagPrediction((("PRON", "NOUN", "NOUN"),), ((0.5,) * 3,))
    scores = task.score(examples, [*right, wrong])
    assert (scores["f1"], scores["tag_accuracy"]) == (pytest.approx(100 * 6 / 7), pytest.approx(100 * 6 / 7))
    assert scores["f1_NOUN"] == pytest.approx(80)
    assert task_of("tagging").score(examples, [*right, wrong]) == scores  # as `cloze score` has no model
    assert [(e.type, e.text) for e in task.answer.entities(examples[1], wrong)][:2] == [
        ("PRON", "she"),
        ("NOUN", "reads"),
    ]
    assert task.collapse(examples, [*right, wrong]) is None


def test_bmes_is_read_like_iobes(write, tokenizer):
    path = write("a.conll", "A B-LOC\nb M-LOC\nc E-LOC\nd S-PER\ne O\n")
    (example,) = task_of("tagging").examples(path)
    task = task_of("tagging").fit([example])
    assert (task.answer.scheme, task.answer.labels) == ("BMES", ("O", "B-LOC", "I-LOC", "B-PER", "I-PER"))
    (feature,) = task.answer.features(example, tokenizer, max_seq_length=16)
    assert feature.targets.tolist() == [1, 2, 2, 3, 0]
    predicted = task.answer.decode(example, [], [np.eye(5, dtype=np.float32)[[1, 2, 2, 3, 0]]])
    assert predicted.tags == (("B-LOC", "M-LOC", "E-LOC", "S-PER", "O"),)


def test_bilou_is_read_like_iobes(write):
    path = write("a.conll", "New B-LOC\nYork I-LOC\nCity L-LOC\nand O\nOslo U-LOC\n")
    examples = list(task_of("tagging").examples(path))
    task = task_of("tagging").fit(examples)
    assert (task.answer.scheme, task.answer.labels) == ("BILOU", ("O", "B-LOC", "I-LOC"))
    assert task_of("tagging", scheme="IOB2").fit(examples).answer.scheme == "IOB2"
    assert [tuple(e) for e in entities(examples[0].sentences[0].tags)] == [("LOC", 0, 3), ("LOC", 4, 5)]
    assert task.score(examples, [TagPrediction((examples[0].sentences[0].tags,))])["f1"] == 100


STRAY = "a B-A\nb I-A\n\nc O\nd I-A\ne I-A\n\nf S-A\n"


@pytest.mark.parametrize("content", [STRAY[:-6], STRAY.replace("I-A\n\nc", "E-A\n\nc")])
def test_stray_tags_are_read_as_conlleval_does(write, tokenizer, content):
    path = write("a.conll", content)
    with pytest.raises(InputError, match=r"read them as conlleval does: `tagging\.stray=as-conlleval"):
        read(path)
    task = with_settings(task_of("tagging"), {"tagging.stray": "as-conlleval"})
    examples = list(task.examples(path))
    fitted = task.fit(examples)
    (feature,) = fitted.answer.features(examples[1], tokenizer, max_seq_length=16)
    assert [fitted.answer.labels[i] for i in feature.targets] == ["O", "B-A", "I-A"]
