"""Keywords that several public functions have: type, help and default of each, declared once.

A function has a group as `**reading: Unpack[ReadingOptions]`, the fields of a dataclass as
`**limits: Annotated[Any, Limits]`, or one keyword by its alias, as in `overwrite: Overwrite = False`. The decorator
`checks_arguments` completes its signature, its docstring and the values in `reading`, so that `help` and the command
line show each keyword.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

from cloze.choices import (
    Clean,
    Combine,
    InferencePrecision,
    LongTexts,
    MissingLabels,
    Pooling,
    Precision,
    Step,
    TaggingFormat,
)
from cloze.progress import Progress
from cloze.signatures import Option

if TYPE_CHECKING:  # not needed for --help
    from cloze.callbacks import Callback

ModelPath: TypeAlias = Annotated[
    str | Path, Option("cloze-mini, a checkpoint, a run (its best checkpoint), or hf://org/name.")
]
Device: TypeAlias = Annotated[str, Option("cpu, cuda, mps or auto.")]
ModelPrecision: TypeAlias = Annotated[
    InferencePrecision | None,
    Option(
        "number format of matrix products; int8 on CPUs, by a graph (default: float32, bfloat16 on a GPU, or the "
        "graph's own)."
    ),
]
Overwrite: TypeAlias = Annotated[bool, Option("replace existing output.", default=False)]
ShowProgress: TypeAlias = Annotated[bool | Progress, Option("True shows progress.", default=False)]
CsvSafe: TypeAlias = Annotated[
    bool,
    Option(
        "write an apostrophe before texts that begin with =, +, -, @, tab or CR, which a spreadsheet would compute. "
        "For .csv and .tsv."
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

    text_column: Annotated[str | None, Option("column with the text (default: text).")]
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
    settings: Annotated[
        Mapping[str, Any],
        Option(
            "setting of the task, as in classification.pair_column=answer; may be repeated. In Python a dict, as in "
            '{"classification.pair_column": "answer"}.',
            {},
        ),
    ]


class LabeledOptions(RowOptions, total=False):
    """How labeled rows are read."""

    label_column: Annotated[str | None, Option("column with the label (default: label).")]
    missing_labels: Annotated[
        MissingLabels | None, Option("refuse rows without a label (default), or drop and count them.")
    ]


class VectorOptions(TypedDict, total=False):
    """How an encoder's token vectors become vectors of texts."""

    pooling: Annotated[
        Pooling | None,
        Option("cls, mean, max or mean_sqrt_len (default: as in the model's directory, else mean)."),
    ]
    layers: Annotated[
        str | Sequence[int],
        Option(
            "encoder layers, as in 12, -2, 1,6 or -4:-1; 0 is the word embeddings. In Python also a list.",
            "-1",
        ),
    ]
    combine: Annotated[Combine, Option("combination of several layers.", "sum")]
    normalize: Annotated[
        bool | None,
        Option("scale vectors to length 1, or not (default: as in the model's directory, else not)."),
    ]
    max_seq_length: Annotated[
        int | None, Option("maximum number of tokens per text (default: that of the model).")
    ]
    long_texts: Annotated[
        LongTexts,
        Option(
            "truncate longer texts, or read them in windows and take the mean of their vectors.", "truncate"
        ),
    ]
    prompt: Annotated[str | None, Option("name of a prompt in the model's directory, put before each text.")]


class RunOptions(TypedDict, total=False):
    """How a model is trained, and what follows the run."""

    seed: Annotated[int | None, Option("seed of all random numbers (default: 12345).")]
    device: Annotated[str | None, Option("cpu, cuda, mps or auto (default: auto).")]
    precision: Annotated[
        Precision | None,
        Option("number format of matrix products (default: auto, bfloat16 where it is fast)."),
    ]
    report_to: Annotated[
        Sequence[str],
        Option("service to log to, as in wandb:PROJECT or mlflow:EXPERIMENT; may be repeated.", ()),
    ]
    callbacks: Annotated[Sequence["Callback"], Option("receive what the run measures.", ())]
    resume: Annotated[
        bool,
        Option(
            "continue the run in the output, or start one if the output is free. Settings and data must equal those of "
            "the run, except for settings that may change on resume.",
            default=False,
        ),
    ]
    overwrite: Overwrite
    progress: Annotated[bool | Progress, Option("True shows progress on stderr.", default=False)]
