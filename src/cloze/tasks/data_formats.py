"""The formats of labeled data that tools and data sets have, as `cloze tasks formats` lists them.

To add one, add an entry here, what reads it, and a file of it to `tests/tasks/test_data_formats.py`.
"""

from dataclasses import dataclass

from cloze.choices import TaggingFormat

_TEXTS = ("classification", "multi-label")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFormat:
    """A format of labeled data."""

    name: str
    """The program or data set that has it."""
    tasks: tuple[str, ...]
    """Tasks that read it; "all" of those on tables."""
    files: tuple[str, ...]
    """Ends of the names of files, or "a directory"."""
    content: str
    format: TaggingFormat | None = None
    """The value of `--format` that names it, where the content may not tell."""


DATA_FORMATS = (
    DataFormat(
        name="tables",
        tasks=("all",),
        files=(".csv", ".tsv", ".jsonl", ".json", ".parquet", ".arrow"),
        content="a row for each example; the first line of a CSV or TSV names the columns",
    ),
    DataFormat(
        name="Excel",
        tasks=("all",),
        files=(".xlsx",),
        content="a table in the only sheet; needs the extra excel",
    ),
    DataFormat(
        name="datasets",
        tasks=("all",),
        files=("a directory",),
        content="what save_to_disk writes: a Dataset, or a DatasetDict with the splits train and validation",
    ),
    DataFormat(
        name="Label Studio",
        tasks=(*_TEXTS, "regression", "tagging"),
        files=(".json", ".csv", ".tsv", ".conll"),
        content="JSON, JSON-MIN, CONLL2003, and with --format CSV and TSV, where --label-column names the question; "
        "skipped texts are left out and counted",
        format="label-studio",
    ),
    DataFormat(
        name="Prodigy",
        tasks=(*_TEXTS, "tagging"),
        files=(".jsonl",),
        content="spans, labels and choices; rejected and ignored texts are left out and counted",
        format="prodigy",
    ),
    DataFormat(
        name="doccano",
        tasks=(*_TEXTS, "tagging"),
        files=(".jsonl", ".csv"),
        content="texts with spans, or with labels; with --format, # separates the labels of a cell of a CSV",
        format="doccano",
    ),
    DataFormat(
        name="Argilla",
        tasks=(*_TEXTS, "tagging"),
        files=(".jsonl", ".json", "a directory"),
        content="version 2, of `datasets` with --format; discarded texts are left out and counted",
        format="argilla",
    ),
    DataFormat(
        name="spaCy",
        tasks=("classification", "multi-label", "tagging"),
        files=(".jsonl", ".json"),
        content="lists of a text and its entities or cats",
    ),
    DataFormat(
        name="brat",
        tasks=("tagging",),
        files=("a directory",),
        content="texts and, beside each, its annotations in .ann; spans in several parts are refused",
    ),
    DataFormat(
        name="Hugging Face Hub",
        tasks=("tagging",),
        files=(".json", ".jsonl", ".parquet", ".arrow"),
        content="tokens and ner_tags, a sentence a row",
        format="json",
    ),
    DataFormat(
        name="Kaggle",
        tasks=("tagging",),
        files=(".csv",),
        content="Sentence #, Word, POS, Tag: a word a row",
        format="table",
    ),
    DataFormat(
        name="CoNLL-2003",
        tasks=("tagging",),
        files=(".conll", ".txt", ".tsv"),
        content="a word and its tag a line, an empty line after a sentence",
        format="columns",
    ),
    DataFormat(
        name="CoNLL-U",
        tasks=("tagging",),
        files=(".conllu",),
        content="ten columns, the second the word and the fourth the tag",
        format="conllu",
    ),
    DataFormat(
        name="SQuAD",
        tasks=("squad_v1", "squad_v2"),
        files=(".json", ".jsonl", ".csv", ".parquet"),
        content="paragraphs with questions in JSON, or a question a row",
    ),
)


def formats_of(task: str | None = None) -> list[DataFormat]:
    """Return the formats that a task reads, or all of them."""
    return [entry for entry in DATA_FORMATS if task is None or {task, "all"} & {*entry.tasks}]
