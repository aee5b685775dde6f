"""The shapes of data that tagging reads: columns, CoNLL-U, JSON, Parquet and plain text."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.data.reading.tagged_text import TaggedText
from cloze.errors import DataWarning, InputError
from cloze.metrics.conll import entities
from cloze.tasks.config import with_settings
from cloze.tasks.tag_predictions import TagPrediction
from cloze.tasks.task import AnyTask
from helpers import task_of

ADA = "Ada lives in Oslo."
SPANS = [[0, 3, "PER"], [13, 17, "LOC"]]
TAGGED = [("Ada", "B-PER"), ("lives", "O"), ("in", "O"), ("Oslo", "B-LOC"), (".", "O")]
Write = Callable[[str, Any], Path]


def tagged(texts: list[TaggedText]) -> list[tuple[str, str]]:
    return [
        pair for text in texts for s in text.sentences for pair in zip(s.words, s.tags or (), strict=True)
    ]


def read(path: Path, task: AnyTask | None = None) -> list[tuple[str, str]]:
    return tagged(list((task or task_of("tagging")).examples(path)))


def words(path: Path, task: AnyTask) -> list[list[str]]:
    """Return the words of each example of a file that is read for prediction."""
    return [[word for s in text.sentences for word in s.words] for text in task.examples(path, labeled=False)]


def named(*keys: str) -> list[dict[str, Any]]:
    return [dict(zip(keys, span, strict=True)) for span in SPANS]


LABEL_STUDIO = [
    {"value": {"start": start, "end": end, "text": ADA[start:end], "labels": [label]}, "type": "labels"}
    for start, end, label in SPANS
]
SHAPES = {
    "doccano": {"text": ADA, "label": SPANS},
    "doccano of old": {"id": 7, "text": ADA, "labels": SPANS, "meta": {}},
    "doccano with relations": {
        "text": ADA,
        "entities": named("start_offset", "end_offset", "label"),
        "relations": [],
    },
    "spaCy and Prodigy": {"text": ADA, "tokens": [{"text": "Ada"}], "spans": named("start", "end", "label")},
    "rasa": {"text": ADA, "entities": named("start", "end", "entity")},
    "cloze predict": {"text": ADA, "entities": named("start", "end", "type"), "sentences": []},
    "Label Studio": {"data": {"text": ADA}, "annotations": [{"result": LABEL_STUDIO}]},
    "Label Studio, another field": {"data": {"letter": ADA}, "completions": [{"result": LABEL_STUDIO}]},
    "Label Studio, short": {"text": ADA, "label": [result["value"] for result in LABEL_STUDIO]},
    "tokens": {"tokens": [word for word, _ in TAGGED], "ner_tags": [tag for _, tag in TAGGED]},
    "tokens and other tags": {
        "words": [word for word, _ in TAGGED],
        "tags": [tag for _, tag in TAGGED],
        "langs": ["en"] * 5,
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_json_shapes_have_the_same_words_and_tags(write, shape):
    rows = [SHAPES[shape]] * 2
    assert read(write("a.txt", rows)) == read(write("a.json", json.dumps(rows, indent=1))) == TAGGED * 2


def test_examples_of_the_documentation_are_read(write):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "table-files.md").read_text("utf-8")
    section = re.split(r"\n##+ ", page.split("## Words with tags")[1])[0]
    examples = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    read_examples = [read(write("a.txt", example)) for example in examples]
    assert read_examples[:8] == [TAGGED[:4]] * 8
    assert read_examples[8:] == [[("Ada", "NOUN"), ("lives", "VERB"), ("in", "ADP"), ("Oslo", "NOUN")]]


def test_spans_are_ignored_for_prediction(write):
    rows = [SHAPES["doccano"], {"text": "No span."}, SHAPES["tokens"]]
    assert words(write("a.jsonl", rows), task_of("tagging")) == [
        ["Ada", "lives", "in", "Oslo", "."],
        ["No", "span", "."],
        ["Ada", "lives", "in", "Oslo", "."],
    ]


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


def test_words_and_sentences_are_cut_where_spans_ask_for_it(write):
    text = "Oslo-based Dr. Who left. He ran."
    row = {"text": text, "label": [[0, 4, "LOC"], [11, 23, "PER"]]}
    (example,) = task_of("tagging").examples(write("a.jsonl", [row]))
    assert [s.words for s in example.sentences] == [
        ("Oslo", "-based", "Dr", ".", "Who", "left", "."),
        ("He", "ran", "."),
    ]
    assert example.sentences[0].tags[:6] == ("B-LOC", "O", "B-PER", "I-PER", "I-PER", "I-PER")


def test_predictions_with_other_words_are_scored_by_their_characters(write):
    text = "Oslo-based Dr. Who left. He ran."
    gold = write("gold.jsonl", [{"text": text, "label": [[0, 4, "LOC"], [11, 18, "PER"]]}])
    examples = list(task_of("tagging").examples(gold))
    tags = [{"tags": ["O"] * 3}, {"tags": ["O"] * 3}, {"tags": ["O"] * 3}]
    found = [{"start": 0, "end": 10, "type": "LOC"}, {"start": 11, "end": 18, "type": "PER"}]
    path = write("out.jsonl", [{"text": text, "entities": found, "sentences": tags}])
    predictions = task_of("tagging").answer.read_answers(path, examples)
    assert predictions[0].tags[0] == ("B-LOC", "I-LOC", "B-PER", "I-PER", "I-PER", "O", "O")
    assert task_of("tagging").score(examples, predictions)["f1"] == 50


@pytest.mark.protected
@pytest.mark.parametrize(("start", "type_"), [("0", "PER"), (None, "PER"), (0, None)])
def test_predicted_entities_without_characters_or_type_are_refused(write, start, type_):
    examples = list(task_of("tagging").examples(write("gold.jsonl", [{"text": ADA, "label": SPANS}])))
    entity = {"start": start, "end": 3, "type": type_}
    path = write("out.jsonl", [{"entities": [entity], "sentences": []}])
    with pytest.raises(InputError, match=r"out\.jsonl:1: no prediction.* are integers"):
        task_of("tagging").answer.read_answers(path, examples)


@pytest.mark.protected
def test_sentences_for_a_text_without_words_are_refused(write):
    row = {"tokens": [], "tags": []}
    examples = list(task_of("tagging").examples(write("gold.jsonl", [row])))
    path = write("out.jsonl", [{"sentences": [{"tags": ["O"]}]}])
    with pytest.raises(InputError, match=r"out\.jsonl: 1 sentences, a text without words has 0"):
        task_of("tagging").answer.read_answers(path, examples)


NUMBERS = {"tokens": ["Ada", "ran"], "ner_tags": [1, 0]}


BAD_JSON: list[tuple[Any, str]] = [
    ([{"text": ADA}], ":1: no field has the spans of the text: there are 'text'. Give 'label'"),
    ([{"text": ADA, "label": ["good"]}], ':1: "good" is not a span with one label. Write [0, 3'),
    ([{"text": ADA, "label": [[0, 3]]}], ":1: [0, 3] is not a span"),
    ([{"text": ADA, "label": [[0, 3, None]]}], ":1: [0, 3, null] is not a span"),
    ([{"text": ADA, "label": [[3, 0, "X"]]}], "is not in the text, which has 18 characters"),
    ([{"text": ADA, "label": [[0, 99, "X"]]}], "is not in the text"),
    ([{"text": ADA, "label": [[3, 4, "X"]]}], "marks no word"),
    (
        [{"text": ADA, "label": [[0, 9, "X"], [4, 6, "Y"]]}],
        "'Ada lives' and 'li' overlap. A word has one tag",
    ),
    (
        [{"text": "🙂 Ada", "label": [{"start": 4, "end": 7, "text": "Ada", "label": "X"}]}],
        "is not in the text",
    ),
    (
        [{"text": ADA, "label": [{"start": 1, "end": 4, "text": "Ada", "label": "X"}]}],
        "the text there is 'da '",
    ),
    (
        [{"text": ADA, "label": [{"start": 0, "end": 3, "labels": ["X", "Y"]}]}],
        "is not a span with one label",
    ),
    (
        [{"data": {"text": ADA}, "annotations": [{}, {"result": LABEL_STUDIO}]}],
        ":1: 2 annotations of one text differ. Leave one",
    ),
    (
        [{"data": {"text": ADA}, "annotations": [{"was_cancelled": True}]}],
        ": no row is left of 1: 1 skipped",
    ),
    ([{"sentence": ADA}], ":1: there is no field 'text' with a text, nor 'tokens' with a list of words"),
    ([{"tokens": "a b", "tags": ["O", "O"]}], "nor 'tokens' with a list of words"),
    ([{"tokens": ["a", "b"], "tags": ["O"]}], ":1: 1 tags for 2 tokens"),
    ([{"tokens": ["a"]}], ":1: no field has the tags. Choose one of 'tokens' with `tagging.tags_field"),
    (
        [{"tokens": ["a"], "pos_tags": ["O"], "ner_tags": ["O"]}],
        "tags may be in 'pos_tags' or 'ner_tags'. Choose",
    ),
    ([NUMBERS], "holds the number 1, not a tag. Give their names in order: `tagging.tag_names=["),
    ([{"tokens": ["a"], "tags": [None]}], "'tags' holds null, not a tag"),
    ([{"tokens": ["a", "b"], "tags": ["B-X", "PER"]}], ":1: 'PER' is not a tag. Tags are O, or B"),
    ('{"text": "a"\n', ":1: not JSON"),
    ('[{"text": "a"},\n', ": not JSON"),
    (
        '["Ada", "ran"]\n["Bo"]\n',
        ":1: not a JSON object (the first of 2 bad rows: lines 1, 2). Give one object a line",
    ),
    ("[3]\n", ": [0]: not a JSON object"),
    ("[]\n", ": holds no rows"),
]


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
    if extension == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pyarrow.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(InputError, match=r"Choose one of 'pos_tags', 'ner_tags' with `tagging\.tags_field"):
        list(task_of("tagging").examples(path))
    for field, tags in (("ner_tags", ("B-PER", "B-PER", "O")), ("pos_tags", ("NOUN", "NOUN", "VERB"))):
        [example] = task_of("tagging", tags_field=field).examples(path)
        assert example.sentences[0].tags == tags


@pytest.mark.protected
def test_bad_texts_of_json_are_named_together_or_left_out(write):
    rows = [
        '{"text": "Ada lives", "label": [[0, 3, "PER"]]}',
        '{"text": "Bo", "label": [[0, 9, "PER"]]}',
        "{",
    ]
    path = write("a.jsonl", "\n".join([*rows, rows[0]]) + "\n")
    with pytest.raises(
        InputError, match=r"a\.jsonl:2: .*first of 2 bad rows: line 2: the span.*; line 3: not JSON"
    ):
        list(task_of("tagging").examples(path))
    with pytest.warns(DataWarning, match="2 of 4 rows are left out: line 2: the span"):
        assert len(list(task_of("tagging", skip_bad_rows=True).examples(path))) == 2
    with pytest.raises(
        InputError,
        match=r"a format without rows that could be left out\. Leave out `skip_bad_rows`",
    ):
        list(task_of("tagging", skip_bad_rows=True).examples(write("a.conll", "Ada B-PER\n")))


@pytest.mark.protected
@pytest.mark.parametrize(("content", "message"), BAD_JSON)
def test_invalid_json_is_named(write, content, message):
    with pytest.raises(InputError) as raised:
        list(task_of("tagging").examples(write("a.json", content)))
    assert message in str(raised.value)


def test_remedies_for_json_work(write):
    task = with_settings(task_of("tagging"), {"tagging.tag_names": ["O", "B-PER"]})
    assert read(write("a.jsonl", [NUMBERS]), task) == [("Ada", "B-PER"), ("ran", "O")]
    with pytest.raises(InputError, match=r"the number 2, and there are 2 names of tags"):
        read(write("b.jsonl", [{"tokens": ["a"], "tags": [2]}]), task)


TEXTS = {
    "words of equal number": "Ada lives in Oslo now.\nBo went to Rome today.\n",
    "two words a line": "Hello there\nGood morning\n",
    "a word a line": "Yes\nNo\n",
    "paragraphs": "Ada lives in Oslo.\n\nBo left.\n",
    "a last word like a tag": "My blood group is O\n",
    "brackets": "[1] Ada\n{see} Bo\n",
    "a hash": "# text = a\n#rain\n",
    "a tab": "Ada\tlives\nhere\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_plain_text_is_detected(write, name):
    lines = TEXTS[name].splitlines()
    for task in (task_of("tagging"), task_of("tagging", labels=("O", "B-X", "I-X"), num_columns=2)):
        texts = list(task.examples(write("a.txt", TEXTS[name]), labeled=False))
        assert [text.text for text in texts] == lines


COLUMNS = {
    "tags": ("a.txt", "Ada B-PER\nran O\n\nBo B-PER\n"),
    "tags and others": ("a", "Ada NNP B-PER\nran VBD O\n\nBo NNP O\n"),
    "a tag": ("a.txt", "Ada B-PER\n"),
    "tabs": ("a.tsv", "Ada\tO\nran\tO\n\nBo\tO\n"),
    "a name": ("a.conll", "Ada\nran\n\nBo\n"),
    "documents": ("a.txt", "-DOCSTART-\n\nAda\nran\n\nBo\n"),
    "plain tags of the model": ("a.txt", "Ada NOUN\nran VERB\n\nBo NOUN\n"),
    "comments": ("a.txt", "# text = Ada ran\nAda O\nran O\n\n# id 2\nBo O\n"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_detected(write, name):
    file, content = COLUMNS[name]
    task = task_of("tagging", labels=("NOUN", "VERB"), scheme="plain")
    assert [w for of in words(write(file, content), task) for w in of] in (["Ada", "ran", "Bo"], ["Ada"])


AMBIGUOUS = {
    "a.txt": ("Ada\nran\n\nBo\n", "may be words in columns or plain text"),
    "b.txt": ("Ada NNP\nran VBD\n\nBo NNP\n", "may be words in columns or plain text"),
    "c.txt": ("1\tAda ran.\n2\tBo ran.\n", "may be words in columns or plain text"),
    "e.conll": ("Ada lives in Oslo now.\nBo went to Rome today.\n", "may be words in columns or plain text"),
    "d.csv": ("id,letter\n1,Ada.\n", "a table without a column 'text' or 'word'"),
}


@pytest.mark.protected
@pytest.mark.parametrize("name", AMBIGUOUS)
def test_neither_columns_nor_text_is_refused_until_the_format_is_set(write, name):
    content, message = AMBIGUOUS[name]
    path = write(name, content)
    with pytest.raises(InputError, match=rf"{name}: {message}\. .* `format=text`"):
        words(path, task_of("tagging"))
    as_text = with_settings(task_of("tagging"), {"tagging.format": "text"})
    assert len(words(path, as_text)) == len(content.splitlines())
    if "table" not in message:
        assert words(path, with_settings(task_of("tagging"), {"tagging.format": "columns"}))


CONLLU = """# newdoc
# sent_id = 1
# text = She dunno it.
1\tShe\tshe\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdunno\t_\t_\t_\t_\t_\t_\t_\t_
2\tdun\tdo\tVERB\tVBP\t_\t0\troot\t_\t_
2.1\t_\t_\t_\t_\t_\t_\t_\t_\t_
3\tno\tknow\tVERB\tVB\t_\t2\tx\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

#
1\t#\t#\tPUNCT\t.\t_\t0\troot\t_\t_
"""


@pytest.mark.parametrize("name", ["a.conllu", "a.txt"])
def test_conllu_has_forms_and_parts_of_speech(write, name):
    path = write(name, CONLLU)
    expected = [("She", "PRON"), ("dun", "VERB"), ("no", "VERB"), (".", "PUNCT"), ("#", "PUNCT")]
    assert read(path) == expected
    assert read(path, task_of("tagging", word_column=1, tag_column=3)) == expected
    assert read(path, task_of("tagging", tag_column=4))[0] == ("She", "PRP")
    assert words(path, task_of("tagging")) == [["She", "dun", "no", "."], ["#"]]
    (first, _) = task_of("tagging").examples(path)
    assert first.sentences[0].where(2) == f"{path}:8"


def test_comments_are_no_words(write):
    content = "# sent_id = 1\n#rain O\nin O\n\n# a remark\n# O\n1 O\nOslo B-LOC\n"
    expected = [("#rain", "O"), ("in", "O"), ("#", "O"), ("1", "O"), ("Oslo", "B-LOC")]
    assert read(write("a.conll", content)) == expected
    assert read(write("b.conll", content.replace(" O", "\tO").replace(" B", "\tB"))) == expected


def test_comments_of_shared_tasks_are_no_words(write):
    content = "#begin document (a); part 0\nAda B-PER\n\n#end document\n\n# O\nBo B-PER\n"
    assert read(write("a.conll", content)) == [("Ada", "B-PER"), ("#", "O"), ("Bo", "B-PER")]


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
    assert task.answer.notes(examples, tokenizer) == [
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


def test_plain_tags_of_other_programs(write):
    answer = task_of("tagging").answer.with_class_names(("ADJ", "NOUN"))
    assert (answer.scheme, answer.labels) == ("plain", ("ADJ", "NOUN"))


REFUSED_TAGS = {"Ada PER\nran O\n": "'PER' is not a tag", "a 0\nb 1\nc 0\n": "'0' is not a tag"}


BAD_TABLES = {
    "a.csv": ("Ada,NNP,B-PER\nBo,NNP,B-PER\n", "a.csv: the first line does not name the columns of words"),
    "a.conll": ("word pos\nAda NOUN\nBo NOUN\n", "a.conll:1: the first line names the columns. Leave it out"),
    "a.txt": ("Token NER_tag\nAda B-PER\n", "a.txt:1: the first line names the columns"),
}


@pytest.mark.protected
@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_are_refused_as_columns(write, name):
    content, message = BAD_TABLES[name]
    with pytest.raises(InputError) as raised:
        read(write(name, content))
    assert message in str(raised.value)
    if "Leave it out" in message:
        assert read(write(name, content.partition("\n")[2])) == [("Ada", "NOUN"), ("Bo", "NOUN")]


@pytest.mark.parametrize("content", REFUSED_TAGS)
def test_scheme_plain_reads_other_tags(write, content):
    path = write("a.conll", content)
    with pytest.raises(InputError, match=rf"{REFUSED_TAGS[content]}.*read with `tagging\.scheme=plain"):
        read(path)
    task = with_settings(task_of("tagging"), {"tagging.scheme": "plain"})
    assert read(path, task) == [tuple(line.split()) for line in content.splitlines()]
    assert task.fit(list(task.examples(path))).answer.scheme == "plain"


def test_missing_tags_are_never_plain(write):
    for tag in ("_", ""):
        with pytest.raises(
            InputError, match=r"is not a tag. Tags are O, or B, I, E or S with a type, as in B-PER.$"
        ):
            read(write("a.conll", f"a\tNOUN\nb\tNOUN\nc\t{tag}\n"), task_of("tagging", scheme="plain"))


def test_bmes_is_read_like_iobes(write):
    path = write("a.conll", "A B-LOC\nb M-LOC\nc E-LOC\nd S-PER\ne O\n")
    (example,) = task_of("tagging").examples(path)
    task = task_of("tagging").fit([example])
    assert (task.answer.scheme, task.answer.labels) == ("BMES", ("O", "B-LOC", "I-LOC", "B-PER", "I-PER"))
    assert task.answer._targets(example).tolist() == [1, 2, 2, 3, 0]
    predicted = task.answer.decode(example, [], [np.eye(5, dtype=np.float32)[[1, 2, 2, 3, 0]]])
    assert predicted.tags == (("B-LOC", "M-LOC", "E-LOC", "S-PER", "O"),)
    others = write("a.conll", "A B-LOC\nb I-LOC\nc E-LOC\n\nA B-LOC\nb M-LOC\nc E-LOC\n")
    with pytest.raises(InputError, match=r"a\.conll:6: M-LOC is a tag of BMES, and others are of another"):
        list(task_of("tagging").examples(others))
    segments = task_of("tagging").fit(
        list(task_of("tagging").examples(write("b.conll", "x B\ny M\nz E\nw S\n")))
    )
    assert (segments.answer.scheme, segments.answer.labels) == ("BMES", ("O", "B", "I"))


def test_parts_of_speech_may_be_called_m(write):
    path = write("a.conll", "three M\ncats NN\nsleep VV\n\ntwo M\ndogs NN\n")
    task = task_of("tagging").fit(list(task_of("tagging").examples(path)))
    assert (task.answer.scheme, task.answer.labels) == ("plain", ("M", "NN", "VV"))


def test_bilou_is_read_like_iobes(write):
    path = write("a.conll", "New B-LOC\nYork I-LOC\nCity L-LOC\nand O\nOslo U-LOC\n")
    examples = list(task_of("tagging").examples(path))
    task = task_of("tagging").fit(examples)
    assert (task.answer.scheme, task.answer.labels) == ("BILOU", ("O", "B-LOC", "I-LOC"))
    assert [tuple(e) for e in entities(examples[0].sentences[0].tags)] == [("LOC", 0, 3), ("LOC", 4, 5)]
    assert task.score(examples, [TagPrediction((examples[0].sentences[0].tags,))])["f1"] == 100
    with pytest.raises(
        InputError, match=r"a\.conll:2: U-LOC is a tag of BILOU, and others are of another scheme"
    ):
        read(write("a.conll", "Oslo S-LOC\nRome U-LOC\n"))
    with pytest.raises(InputError, match="O after B-LOC: invalid in BILOU, which tags with L and U are in"):
        read(write("a.conll", "Oslo U-LOC\nRome B-LOC\nis O\n"))


STRAY = "a B-A\nb I-A\n\nc O\nd I-A\ne I-A\n\nf S-A\n"


@pytest.mark.parametrize(("content", "count"), [(STRAY[:-6], 1), (STRAY.replace("I-A\n\nc", "E-A\n\nc"), 2)])
def test_stray_tags_are_read_as_conlleval_does_and_counted(write, tokenizer, content, count):
    path = write("a.conll", content)
    with pytest.raises(InputError, match=r"read them as conlleval does: `tagging\.stray=as-conlleval"):
        read(path)
    task = with_settings(task_of("tagging"), {"tagging.stray": "as-conlleval"})
    examples = list(task.examples(path))
    fitted = task.fit(examples)
    assert (
        f"{count} tags that the scheme does not allow are read as conlleval"
        in fitted.answer.notes(examples, tokenizer)[1]
    )
    (feature,) = fitted.answer.features(examples[1], tokenizer, max_seq_length=16)
    assert [fitted.answer.labels[i] for i in feature.targets] == ["O", "B-A", "I-A"]
