"""The keywords of `finetune` and `pretrain`, which their dry runs and validations have, too."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from cloze.choices import Head, LongTexts
from cloze.options import LabeledOptions, RunOptions
from cloze.parallel_map import AnyWorkers
from cloze.signatures import Option


class LabeledDataOptions(TypedDict, total=False):
    """The model to start from and the data."""

    model: Annotated[
        str | Path | None, Option("model to start from: cloze-mini, a checkpoint, a run or hf://org/name.")
    ]
    train: Annotated[
        Any,
        Option(
            "training data: path or URL, as in s3://bucket/reviews.tsv, of a file in the task's format or of a "
            "benchmark's directory. In Python also rows: tuples or dicts, a table of pandas, datasets or Arrow, or a "
            "dict of columns. Tuples have the values in the order of the task's columns, as in (text, label) or (text, "
            "pair, label). The run keeps a copy of rows, so that it can be resumed."
        ),
    ]
    dev: Annotated[
        Any,
        Option("data to score on (default: the directory's dev file, else a tenth of the training data)."),
    ]
    teacher: Annotated[str | Path | None, Option("fine-tuned checkpoint or run to learn from, too.")]
    student_layers: Annotated[
        Sequence[int] | None,
        Option("layers to keep, counted from 0, as in 0,2,5; without a model, layers of the teacher."),
    ]
    unlabeled: Annotated[str | Path | None, Option("path or URL of more texts, for the teacher alone.")]


class TrainingOptions(LabeledDataOptions, LabeledOptions, total=False):
    """The settings of the training."""

    head: Annotated[
        Head | None,
        Option(
            "dense trains the encoder, too (default); logistic fits a regression on its vectors, in seconds."
        ),
    ]
    long_texts: Annotated[LongTexts | None, Option("truncate long texts (default), or read windows.")]
    max_seq_length: Annotated[
        int | None,
        Option("maximum tokens of a sequence (default: 128, or the task's or the model's length)."),
    ]
    train_examples: Annotated[int | None, Option("number of training examples, at random (default: all).")]
    data_fractions: Annotated[
        Sequence[float] | None,
        Option("shares of the training examples, as in 0.1,0.3,1.0: a run on each, for a learning curve."),
    ]
    epochs: Annotated[int | None, Option("number of epochs (default: 3); a grid keeps it.")]
    batch_size: Annotated[int | None, Option("sequences per step (default: 32); a grid keeps it.")]
    learning_rate: Annotated[float | None, Option("peak rate (default: 5e-5); a grid keeps it.")]
    patience: Annotated[
        int | None,
        Option("evaluations without a better score after which training stops (default: no limit)."),
    ]
    seeds: Annotated[int | None, Option("number of runs, with a mean and deviation (default: 1).")]
    folds: Annotated[
        int | None,
        Option("parts of the training data, each scored by a run that learns from the others (default: 1)."),
    ]
    grid: Annotated[
        bool, Option("search the paper's batch sizes, learning rates and epochs: 18 runs.", default=False)
    ]
    config: Annotated[str | Path | None, Option("TOML file, or name of a recipe, as in glue or mrpc-google.")]
    workers: Annotated[
        AnyWorkers,
        Option("number of processes for several runs, or ray for the cluster at RAY_ADDRESS.", default=1),
    ]


class FinetuneOptions(TrainingOptions, RunOptions, total=False):
    """The keywords of `finetune`."""


class PretrainingDataOptions(TypedDict, total=False):
    """The data, the model and the length of a pre-training."""

    data: Annotated[str | Path | None, Option("data set of `cloze corpus` (required for a new run).")]
    texts: Annotated[
        Any,
        Option(
            "instead of `data`, with `init`: texts in memory, as for `build_dataset`, which are tokenized into a data "
            'set called as the run with "-data" after its name.'
        ),
    ]
    model: Annotated[
        str | Mapping[str, Any] | None,
        Option("tiny, mini, small, medium, base (default) or large; of another encoder, as in modern-tiny."),
    ]
    steps: Annotated[int | None, Option("number of optimizer steps, unless there is a budget.")]
    budget: Annotated[str | None, Option("training time, as in 30m or 8h, which the schedule follows.")]
    init: Annotated[
        str | Path | None, Option("model to adapt: cloze-mini, a checkpoint, a run or hf://org/name.")
    ]
    config: Annotated[
        str | Path | None, Option("TOML file or recipe, as in fast (default with init: adapt).")
    ]
    settings: Annotated[
        Mapping[str, Any],
        Option("any setting by its key, as in optimizer.learning_rate=2e-5; may be repeated.", {}),
    ]


class PretrainOptions(PretrainingDataOptions, RunOptions, total=False):
    """The keywords of `pretrain`."""
