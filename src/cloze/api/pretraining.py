"""Vocabularies, data sets and pre-training, from files of text or from texts in memory."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from cloze import artifacts, file_io
from cloze.api.signatures import takes_arguments_of
from cloze.arguments import check_path
from cloze.callbacks import Callback, load_writers
from cloze.choices import Precision
from cloze.data import build, vocabulary_extension
from cloze.data.audit import Audit, AuditConfig, audit_dataset
from cloze.data.build import BuildConfig
from cloze.data.dataset import Dataset
from cloze.data.input_shards import ReadingConfig
from cloze.data.masking import MaskingConfig
from cloze.data.memory import to_text_rows
from cloze.data.parts import BuildSummary
from cloze.data.vocabulary_extension import Extension
from cloze.errors import InputError
from cloze.parallel_map import Workers
from cloze.progress import Progress, resolve_progress
from cloze.reports.audit_page import write_audit_page

if TYPE_CHECKING:  # not needed for --help
    from cloze.pretraining.config import ModelConfig, PretrainConfig
    from cloze.training.plan import RunPlan

Inputs = str | Path | Iterable[str | Path]
"""One or several files, folders, globs, URLs, or - for stdin."""


@contextmanager
def _inputs(inputs: Inputs | None, texts: Any) -> Iterator[Any]:
    """Yield inputs, or a temporary file of JSON lines with the texts."""
    if (inputs is None) == (texts is None):
        what = "is missing" if inputs is None else "excludes texts"
        raise InputError(what, where="inputs", remedy="Give files as inputs, or texts in memory as texts")
    if inputs is not None:
        yield inputs
        return
    with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
        file = Path(directory) / "texts.jsonl"
        with file_io.disk_errors(file), file.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{row}\n" for row in to_text_rows(texts, "texts"))
        yield [file]


def extend_vocabulary(
    vocabulary: str | Path,
    output: str | Path,
    *,
    words: str | Path | Sequence[str] | None = None,
    inputs: Inputs = (),
    texts: Any = None,
    number: int | None = None,
    reading: ReadingConfig = ReadingConfig(),
    workers: Workers = 1,
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> Extension:
    """Add words to a vocabulary: first in its [unused] tokens, then at its end. All other tokens keep their ids.

    Args:
        vocabulary: a directory with a tokenizer, or "cloze-mini".
        output: directory for the extended one.
        words: a file with one word per line, or a list of words.
        inputs: text to take words from, or to count words in.
        texts: instead of `inputs`, texts in memory.
        number: instead of `words`, number of the most frequent words of the text that are split or [UNK].
        reading: how inputs are read and cleaned.
        workers: number of processes, or a cluster.
        overwrite: replace the output.
        progress: True shows progress.

    Raises:
        InputError: neither or both of `words` and `number`, a line that is not one word, or nothing to add.
        RunError: the disk is full.
    """
    with (
        tempfile.TemporaryDirectory(prefix="cloze-") as directory,
        _inputs(inputs if texts is None or inputs else None, texts) as read,
    ):
        if words is not None and not isinstance(words, (str, Path)):
            file = Path(directory) / "words.txt"
            file.write_text("".join(f"{word}\n" for word in words), "utf-8")
            words = file
        return vocabulary_extension.extend_vocabulary(
            check_path(vocabulary, "vocabulary"),
            check_path(output, "output"),
            words=None if words is None else Path(words),
            inputs=[read] if isinstance(read, (str, Path)) else list(read),
            number=number,
            reading=reading,
            workers=workers,
            overwrite=overwrite,
            progress=resolve_progress(progress),
        )


def build_dataset(
    inputs: Inputs | None = None,
    vocabulary: str | Path | None = None,
    output: str | Path | None = None,
    config: BuildConfig = BuildConfig(),
    *,
    texts: Any = None,
    append: bool = False,
    workers: Workers = 1,
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> BuildSummary:
    """Tokenize text into a data set on disk. A killed build of files resumes when it is called again.

    Args:
        inputs: one or several files, folders, globs, or - for stdin; plain or .gz, .bz2, .xz, .zst.
        vocabulary: a directory with a tokenizer; None takes that of the data set which is appended to.
        output: directory of the data set.
        config: how text is read, cleaned, split and held out.
        texts: instead of `inputs`, texts in memory, each a document: any collection or iterator, or a table with the
            column text.
        append: add to an existing data set, whose documents and held-out documents stay as they are.
        workers: number of processes, or a cluster.
        overwrite: replace the output, and a build with other settings that was not finished.
        progress: True shows progress.

    Returns:
        Counts of what the inputs became.

    Raises:
        InputError: the text, the vocabulary or a setting is wrong, or there is no data set to append to.
        RunError: the disk is full, or a worker died.
    """
    path = _output(output)
    with _inputs(inputs, texts) as read:
        return build.build_dataset(
            read,
            None if vocabulary is None else check_path(vocabulary, "vocabulary"),
            path,
            config,
            append=append,
            workers=workers,
            overwrite=overwrite,
            progress=resolve_progress(progress),
        )


def audit(
    dataset: str | Path,
    output: str | Path | None = None,
    *,
    split: Literal["train", "validation"] = "train",
    seq_lengths: Sequence[int] = (128, 512),
    whole_word: bool = False,
    sample: int = 100_000,
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> Audit:
    """Measure a data set and the training instances drawn from it.

    Args:
        dataset: directory of the data set.
        output: HTML file with the same figures and plots; None writes none.
        split: training documents or held-out documents.
        seq_lengths: maximum number of tokens of an instance, one value per phase.
        whole_word: mask whole words.
        sample: maximum number of instances measured per length.
        overwrite: replace the output.
        progress: True shows progress.

    Raises:
        InputError: the data set is damaged, or the output exists.
    """
    if output is not None:
        artifacts.check_output_path(Path(output), overwrite=overwrite, directory=False)
    config = AuditConfig(
        split=split,
        seq_lengths=tuple(seq_lengths),
        masking=MaskingConfig(whole_word=whole_word),
        sample=sample,
    )
    measured = audit_dataset(
        Dataset.open(check_path(dataset, "dataset")), config, progress=resolve_progress(progress)
    )
    if output is not None:
        write_audit_page(measured, Path(output), overwrite=overwrite)
    return measured


def pretrain(
    *,
    output: str | Path,
    data: str | Path | None = None,
    texts: Any = None,
    model: "str | ModelConfig | Mapping[str, Any] | None" = None,
    steps: int | None = None,
    budget: str | None = None,
    init: str | Path | None = None,
    seed: int | None = None,
    device: str | None = None,
    precision: Precision | None = None,
    config: "str | Path | PretrainConfig | None" = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    report_to: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> dict[str, float]:
    """Pre-train an encoder with masked LM and next sentence prediction; under torchrun, on all of its ranks.

    Settings are the paper's and those of the model's size, then those of the recipe, then `settings`, then the other
    arguments.

    Args:
        output: directory of the run.
        data: data set of `cloze corpus` (required for a new run).
        texts: instead of `data`, with `init`: texts in memory, as for `build_dataset`, which are tokenized into a data
            set called as the run with "-data" after its name.
        model: tiny, mini, small, medium, base or large (default: base); modern-tiny to modern-base: ModernBERT.
        steps: number of optimizer steps, unless there is a budget.
        budget: training time, as in 30m or 8h; the learning rate schedule follows the clock.
        init: cloze-mini, a checkpoint, a run or hf://org/name to adapt to the data, with a new optimizer.
        seed: seed of weights, pairs, masks and dropout (default: 12345).
        device: cpu, cuda, mps or auto (default: auto).
        precision: number format of matrix products (default: auto, bfloat16 where it is fast).
        config: TOML file, or name of a recipe, as in original or fast (default with init: adapt). In Python also a
            config object.
        settings: any setting by its key, as in optimizer.learning_rate=2e-5; may be repeated.
        report_to: service to log to, as in wandb:PROJECT or mlflow:EXPERIMENT; may be repeated.
        callbacks: receive what the run measures.
        resume: continue the run in the output, or start it if there is none. Settings that are given must be its own,
            except for those that may change on resume.
        overwrite: replace an existing run, and for `texts` the data set.
        progress: True shows progress on stderr, or in a notebook.

    Returns:
        The last metrics on held-out documents: losses in nats, accuracies in 0..1.

    Raises:
        InputError: a setting, the data set or the checkpoint to start from is wrong; nothing was written.
        Interrupted: SIGINT or SIGTERM arrived, and the state was saved.
        RunError: the loss stayed infinite or NaN, the disk is full, or a rank was lost.

    Source:
        Devlin et al. 2019, 3.1 and A.2; google-research/bert run_pretraining.py @eedf571.
    """
    arguments = locals()
    from cloze.api.settings import PretrainingRequest
    from cloze.pretraining import run as pretraining

    writers = load_writers(report_to, where="report_to")
    request, shown = PretrainingRequest(arguments), resolve_progress(progress)
    how: dict[str, Any] = {"callbacks": (*callbacks, *writers), "progress": shown}
    if request.continues():
        return pretraining.resume_pretraining(request.run, **how)
    resolved = request.resolve()
    if texts is not None:
        artifacts.check_output_path(
            request.run, overwrite=overwrite, resume_hint=", continue with resume=True"
        )
        build_dataset(None, resolved.init, resolved.data, texts=texts, overwrite=overwrite, progress=shown)
    return pretraining.pretrain(resolved, request.run, overwrite=overwrite, **how)


@takes_arguments_of(pretrain)
def plan_pretraining(arguments: dict[str, Any]) -> "RunPlan":
    """Print memory and time of the run, measured in a few steps, and stop.

    Takes the arguments of `pretrain`, and raises its errors.
    """
    from cloze.api.settings import PretrainingRequest
    from cloze.pretraining import plan

    progress = resolve_progress(arguments.get("progress", False))
    return plan.plan_pretraining(PretrainingRequest(arguments).resolve(), progress=progress)


@takes_arguments_of(pretrain)
def pretraining_settings(arguments: dict[str, Any]) -> str:
    """Print the resolved settings as TOML, and stop.

    Takes the arguments of `pretrain`, of which data and length may be missing.
    """
    from cloze.api.settings import PretrainingRequest

    return PretrainingRequest(arguments).to_toml()


def _output(output: str | Path | None) -> Path:
    if output is None:
        raise InputError("is missing", where="output", remedy="Give the path of a directory to write")
    return check_path(output, "output")
