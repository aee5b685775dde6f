"""Keywords that several public functions have: type, help and default of each, declared once.

A function has a group as `**reading: Unpack[ReadingOptions]`, or one keyword by its alias, as in
`overwrite: Overwrite = False`. The decorator `suggests_keywords` completes its signature, its docstring and the values
in `reading`, so that `help` and the command line show each keyword.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypedDict

from cloze.choices import Clean, InferencePrecision, MissingLabels, Step, TaggingFormat
from cloze.parallel_map import AnyWorkers
from cloze.progress import Progress
from cloze.signatures import Option

ModelPath: TypeAlias = Annotated[
    str | Path, Option("cloze-mini, a checkpoint, a run (its best checkpoint), or hf://org/name.")
]
Device: TypeAlias = Annotated[str, Option("cpu, cuda, mps or auto.")]
ModelPrecision: TypeAlias = Annotated[
    InferencePrecision | None,
    Option(
        "number format of matrix products; int8 on CPUs (default: float32, or that of the model's directory)."
    ),
]
Workers: TypeAlias = Annotated[
    AnyWorkers,
    Option("number of processes; auto is one per core (in Python 1), ray the cluster at RAY_ADDRESS."),
]
Overwrite: TypeAlias = Annotated[bool, Option("replace existing output.")]
ShowProgress: TypeAlias = Annotated[bool | Progress, Option("True shows progress.")]
TaskSettings: TypeAlias = Annotated[
    Mapping[str, Any],
    Option(
        "setting of the task, as in classification.pair_column=answer; may be repeated. In Python a dict, as in "
        '{"classification.pair_column": "answer"}.'
    ),
]
Encoding: TypeAlias = Annotated[
    str | None, Option("that of text files, as in latin-1, cp1252 or utf-16 (default: utf-8).")
]
CleanedText: TypeAlias = Annotated[
    Clean | None,
    Option(
        "pdf joins words divided at line ends and removes ligatures and soft hyphens, as PDFs leave them."
    ),
]


class ReadingOptions(TypedDict, total=False):
    """How text is read."""

    format: Annotated[str, Option("format of text files; auto detects it.", "auto")]
    text_field: Annotated[str, Option("field of JSON lines or column of tables with the text.", "text")]
    encoding: Encoding
    limit: Annotated[int | None, Option("maximum number of documents to read (default: all).")]
    without: Annotated[Sequence[Step], Option("cleaning steps to skip.", ())]
    clean: CleanedText


class RowOptions(TypedDict, total=False):
    """How rows of texts are read."""

    text_column: Annotated[str | None, Option("column with the text (default: text, or as in training).")]
    skip_bad_rows: Annotated[
        bool, Option("leave out rows that cannot be read, and count them.", default=False)
    ]
    format: Annotated[
        TaggingFormat | None,
        Option(
            "annotation tool that exported the data, or for tagging the format of the files (default: detected)."
        ),
    ]
    encoding: Encoding
    clean: CleanedText
    column_names: Annotated[
        str | Sequence[str] | None,
        Option(
            "names of the columns of a TSV or CSV whose first line is a row, as in text,label. In Python also a list."
        ),
    ]


class LabeledOptions(RowOptions, total=False):
    """How labeled rows are read."""

    label_column: Annotated[str | None, Option("column with the label (default: label, or as in training).")]
    missing_labels: Annotated[
        MissingLabels | None, Option("refuse rows without a label (default), or drop and count them.")
    ]
