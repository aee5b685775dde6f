"""Keywords that several public functions have, declared once: `Annotated` has their type, help and default (None).

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
    Head,
    InferencePrecision,
    LongTexts,
    MissingLabels,
    Pooling,
    Precision,
    Step,
    TaggingFormat,
)
from cloze.parallel_map import AnyWorkers
from cloze.progress import Progress

if TYPE_CHECKING:  # not needed for --help
    from cloze.callbacks import Callback

ModelPath: TypeAlias = Annotated[
    str | Path, "cloze-mini, a checkpoint, a run (its best checkpoint), or hf://org/name."
]
Device: TypeAlias = Annotated[str, "cpu, cuda, mps or auto."]
ModelPrecision: TypeAlias = Annotated[
    InferencePrecision | None,
    "number format of matrix products; int8 on CPUs, by a graph (default: float32, bfloat16 on a GPU, or the "
    "graph's own).",
]
Overwrite: TypeAlias = Annotated[bool, "replace existing output.", False]
ShowProgress: TypeAlias = Annotated[bool | Progress, "True shows progress.", False]
CsvSafe: TypeAlias = Annotated[
    bool,
    "write an apostrophe before texts that begin with =, +, -, @, tab or CR, which a spreadsheet would compute. "
    "For .csv and .tsv.",
]
Encoding: TypeAlias = Annotated[
    str | None, "encoding of text files, as in latin-1, cp1252 or utf-16 (default: utf-8)."
]
CleanedText: TypeAlias = Annotated[
    Clean | None,
    "pdf joins words divided at line ends and removes ligatures and soft hyphens, as PDFs leave them.",
]


class ReadingOptions(TypedDict, total=False):
    """How text is read."""

    format: Annotated[str, "format of text files; auto detects it.", "auto"]
    text_field: Annotated[str, "field of JSON lines or column of tables with the text.", "text"]
    encoding: Encoding
    limit: Annotated[int | None, "maximum number of documents to read (default: all)."]
    without: Annotated[Sequence[Step], "cleaning steps to skip.", ()]
    clean: CleanedText


class RowOptions(TypedDict, total=False):
    """How rows of texts are read."""

    text_column: Annotated[str | None, "column with the text (default: text)."]
    skip_bad_rows: Annotated[bool, "leave out rows that cannot be read, and count them.", False]
    format: Annotated[
        TaggingFormat | None,
        "annotation tool that exported the data, or for tagging the format of the files (default: detected).",
    ]
    encoding: Encoding
    clean: CleanedText
    column_names: Annotated[
        str | Sequence[str] | None,
        "names of the columns of a TSV or CSV whose first line is a row, as in text,label. In Python also a list.",
    ]
    settings: Annotated[
        Mapping[str, Any],
        "setting of the task, as in classification.pair_column=answer; may be repeated. In Python a dict, as in "
        '{"classification.pair_column": "answer"}.',
        {},
    ]


class LabeledOptions(RowOptions, total=False):
    """How labeled rows are read."""

    label_column: Annotated[str | None, "column with the label (default: label)."]
    missing_labels: Annotated[
        MissingLabels | None, "refuse rows without a label (default), or drop and count them."
    ]


class VectorOptions(TypedDict, total=False):
    """How an encoder's token vectors become vectors of texts."""

    pooling: Annotated[
        Pooling | None, "cls, mean, max or mean_sqrt_len (default: as in the model's directory, else mean)."
    ]
    layers: Annotated[
        str | Sequence[int],
        "encoder layers, as in 12, -2, 1,6 or -4:-1; 0 is the word embeddings. In Python also a list.",
        "-1",
    ]
    combine: Annotated[Combine, "combination of several layers.", "sum"]
    normalize: Annotated[
        bool | None, "scale vectors to length 1, or not (default: as in the model's directory, else not)."
    ]
    max_seq_length: Annotated[int | None, "maximum number of tokens per text (default: as the model)."]
    long_texts: Annotated[
        LongTexts,
        "truncate longer texts, or read them in windows and take the mean of their vectors.",
        "truncate",
    ]
    prompt: Annotated[str | None, "name of a prompt in the model's directory, put before each text."]


class RunOptions(TypedDict, total=False):
    """How a model is trained, and what follows the run."""

    seed: Annotated[int | None, "seed of all random numbers (default: 12345)."]
    device: Annotated[str | None, "cpu, cuda, mps or auto (default: auto)."]
    precision: Annotated[
        Precision | None, "number format of matrix products (default: auto, bfloat16 where it is fast)."
    ]
    report_to: Annotated[
        Sequence[str], "service to log to, as in wandb:PROJECT or mlflow:EXPERIMENT; may be repeated.", ()
    ]
    callbacks: Annotated[Sequence["Callback"], "receive what the run measures.", ()]
    resume: Annotated[
        bool,
        "continue the run in the output, or start one if the output is free. Settings and data must equal the "
        "run's, except for settings that may change on resume.",
        False,
    ]
    overwrite: Overwrite
    progress: Annotated[bool | Progress, "True shows progress on stderr.", False]


class LabeledDataOptions(TypedDict, total=False):
    """The model to start from and the data."""

    model: Annotated[
        str | Path | None, "model to start from: cloze-mini, a checkpoint, a run or hf://org/name."
    ]
    train: Annotated[
        Any,
        "training data: path or URL, as in s3://bucket/reviews.tsv, of a file in the task's format or of a "
        "benchmark's directory. In Python also rows: tuples or dicts, a table of pandas, datasets or Arrow, or a "
        "dict of columns. Tuples have the values in the order of the task's columns, as in (text, label) or (text, "
        "pair, label). The run keeps a copy of rows, so that it can be resumed.",
    ]
    dev: Annotated[
        Any, "data to score on (default: the directory's dev file, else a tenth of the training data)."
    ]
    teacher: Annotated[str | Path | None, "fine-tuned checkpoint or run to learn from, too."]
    student_layers: Annotated[
        Sequence[int] | None,
        "layers to keep, counted from 0, as in 0,2,5; without a model, layers of the teacher.",
    ]
    unlabeled: Annotated[str | Path | None, "path or URL of more texts, for the teacher alone."]


class TrainingOptions(LabeledDataOptions, LabeledOptions, total=False):
    """The settings of the training."""

    head: Annotated[
        Head | None,
        "dense trains the encoder, too (default); logistic fits a regression on its vectors, in seconds.",
    ]
    long_texts: Annotated[LongTexts | None, "truncate long texts (default), or read windows."]
    max_seq_length: Annotated[
        int | None, "maximum tokens of a sequence (default: 128, or the task's or the model's length)."
    ]
    train_examples: Annotated[int | None, "number of training examples, at random (default: all)."]
    data_fractions: Annotated[
        Sequence[float] | None,
        "shares of the training examples, as in 0.1,0.3,1.0: a run on each, for a learning curve.",
    ]
    epochs: Annotated[int | None, "number of epochs (default: 3); a grid keeps it."]
    batch_size: Annotated[int | None, "sequences per step (default: 32); a grid keeps it."]
    learning_rate: Annotated[float | None, "peak rate (default: 5e-5); a grid keeps it."]
    patience: Annotated[
        int | None, "evaluations without a better score after which training stops (default: no limit)."
    ]
    seeds: Annotated[int | None, "number of runs, with a mean and deviation (default: 1)."]
    folds: Annotated[
        int | None,
        "parts of the training data, each scored by a run that learns from the others (default: 1).",
    ]
    grid: Annotated[bool, "search the paper's batch sizes, learning rates and epochs: 18 runs.", False]
    config: Annotated[str | Path | None, "TOML file, or name of a recipe, as in glue or mrpc-google."]
    workers: Annotated[
        AnyWorkers, "number of processes for several runs, or ray for the cluster at RAY_ADDRESS.", 1
    ]


class FinetuneOptions(TrainingOptions, RunOptions, total=False):
    """The keywords of `finetune`, which its dry run and validation have, too."""


class PretrainingDataOptions(TypedDict, total=False):
    """The data, the model and the length of a pre-training."""

    data: Annotated[str | Path | None, "data set of `cloze corpus` (required for a new run)."]
    texts: Annotated[
        Any,
        "instead of `data`, with `init`: texts in memory, as for `build_dataset`, which are tokenized into a data "
        'set called as the run with "-data" after its name.',
    ]
    model: Annotated[
        str | Mapping[str, Any] | None,
        "tiny, mini, small, medium, base (default) or large; of another encoder, as in modern-tiny.",
    ]
    steps: Annotated[int | None, "number of optimizer steps, unless there is a budget."]
    budget: Annotated[str | None, "training time, as in 30m or 8h, which the schedule follows."]
    init: Annotated[str | Path | None, "model to adapt: cloze-mini, a checkpoint, a run or hf://org/name."]
    config: Annotated[str | Path | None, "TOML file or recipe, as in fast (default with init: adapt)."]
    settings: Annotated[
        Mapping[str, Any], "any setting by its key, as in optimizer.learning_rate=2e-5; may be repeated.", {}
    ]


class PretrainOptions(PretrainingDataOptions, RunOptions, total=False):
    """The keywords of `pretrain`."""
