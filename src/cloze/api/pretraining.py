"""Vocabularies, data sets and pre-training, from files of text or from texts in memory."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from cloze import artifacts, file_io
from cloze.api.settings import check_resume, pretraining_settings, resolve_pretraining
from cloze.arguments import check_path
from cloze.callbacks import Callback
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
from cloze.pretraining import run as pretraining
from cloze.pretraining.config import PretrainConfig
from cloze.progress import Progress, resolve_progress
from cloze.reports.audit_page import write_audit_page
from cloze.training.run import is_run

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
    config: PretrainConfig | str | Path | None = None,
    output: str | Path | None = None,
    *,
    data: str | Path | None = None,
    texts: Any = None,
    vocabulary: str | Path | None = None,
    dataset: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool | Progress = False,
    **settings: Any,
) -> dict[str, float]:
    """Pre-train an encoder with masked words and next sentence; under torchrun, on all of its ranks.

    Args:
        config: settings of the run, a TOML file, or the name of a recipe such as "fast"; with init="cloze-mini" or
            another model to adapt, the recipe "adapt" is the default.
        output: directory of the run.
        data: the data set.
        texts: instead of `data`, texts in memory, as for `build_dataset`, which are tokenized into `dataset` first.
        vocabulary: for `texts`, a directory with a tokenizer; by default that of `init`.
        dataset: for `texts`, directory of the data set; by default that of the run with "-data" after its name.
        overwrite: replace an existing run, and for `texts` the data set.
        resume: continue the run in `output` if there is one. Settings that are given must be its own, except for those
            that may change on resume.
        callbacks: receive what the run measures.
        progress: True shows progress on stderr, or in a notebook.
        settings: settings of the run, as in steps=1000, budget="60m", init="cloze-mini" or model="mini"; inner ones as
            in optimizer={"learning_rate": 1e-4}.

    Returns:
        The last metrics on held-out documents: losses in nats, accuracies in 0..1.

    Raises:
        InputError: a setting, the data set or the checkpoint to start from is wrong; nothing was written.
        Interrupted: SIGINT or SIGTERM arrived, and the state was saved.
        RunError: the loss stayed infinite or NaN, the disk is full, or a rank was lost.

    Source:
        Devlin et al. 2019, 3.1 and A.2; google-research/bert run_pretraining.py @eedf571.
    """
    run, shown = _output(output), resolve_progress(progress)
    if texts is not None and data is not None:
        raise InputError("excludes texts", where="data", remedy="Give one of them")
    if texts is not None:
        data = check_path(f"{run}-data" if dataset is None else dataset, "dataset")
    check_resume(resume=resume, overwrite=overwrite)
    settings["data"] = None if data is None else str(data)
    if resume and is_run(run):
        table, keywords = pretraining_settings(config, settings)
        if table:
            pretraining.change_pretraining(run, table, keywords)
        return pretraining.resume_pretraining(run, callbacks=callbacks, progress=shown)
    resolved = resolve_pretraining(config, settings)
    if texts is not None:
        artifacts.check_output_path(run, overwrite=overwrite, resume_hint=", continue with resume=True")
        build_dataset(
            None, vocabulary or resolved.init, data, texts=texts, overwrite=overwrite, progress=shown
        )
    return pretraining.pretrain(resolved, run, overwrite=overwrite, callbacks=callbacks, progress=shown)


def resume_pretraining(
    run: str | Path, *, callbacks: Sequence[Callback] = (), progress: bool | Progress = False
) -> dict[str, float]:
    """Continue a run from its newest intact checkpoint, with the settings in its `run.toml`.

    Raises:
        InputError: `run` is not a run of `pretrain`, its data set or an immutable setting has changed, or it has
            checkpoints, but none is intact.
    """
    return pretraining.resume_pretraining(
        check_path(run, "run"), callbacks=callbacks, progress=resolve_progress(progress)
    )


def _output(output: str | Path | None) -> Path:
    if output is None:
        raise InputError("is missing", where="output", remedy="Give the path of a directory to write")
    return check_path(output, "output")
