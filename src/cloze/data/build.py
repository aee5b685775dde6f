"""Build a data set from text: clean every document, split it into sentences, and tokenize it once.

Input shards become parts independently, in any process (`cloze.data.build_state`). Decisions that need all parts are
made at the end (`cloze.data.finalize`). So the output has the same bytes for any number of workers and tasks, and
however often the build was killed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from cloze import artifacts
from cloze.arguments import check_path, check_paths, check_type
from cloze.data import build_state
from cloze.data.build_state import BuildState
from cloze.data.dataset import Dataset
from cloze.data.files import STDIN
from cloze.data.finalize import finalize, read_summary
from cloze.data.input_shards import InputShard, ReadingConfig, plan_input_shards
from cloze.data.job_arrays import ArrayTask
from cloze.data.parts import BuildSummary, hash_tokenizer, load_tokenizer, make_part
from cloze.errors import MISSING, InputError, RunError
from cloze.parallel_map import Workers
from cloze.progress import SILENT, Progress
from cloze.tokenization.custom_splitter import hash_splitter, load_splitter
from cloze.tokenization.loading import load_wordpiece
from cloze.tokenization.sentences import check_language
from cloze.tokenization.wordpiece import WordPieceTokenizer

_KIND = "corpus"
_FINAL_STEPS = ("duplicate_documents", "duplicate_paragraphs")
_PACKAGES = ("cloze-bert", "sentencex", "tokenizers", "pyarrow")  # the bytes of a part depend on them


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildConfig:
    """How text becomes a data set."""

    reading: ReadingConfig = ReadingConfig()
    """How inputs are read and cleaned."""
    language: str = "en"
    """ISO code of the rules that split paragraphs into sentences."""
    splitter: str | None = None
    """ "package.module:function" that splits paragraphs instead of the rules."""
    segmenter: str | None = None
    """ "package.module:function" that splits sentences into words for whole-word masking, in scripts without spaces.
    The tokens stay the same."""
    validation_fraction: float | None = None
    """Share of the documents held out from training, at least two of them. None is 0.005, or in a small data set the
    share that has 40,000 tokens, at most 0.1."""

    def __post_init__(self) -> None:
        check_language(self.language)
        if self.validation_fraction is not None and not 0 < self.validation_fraction < 1:
            what = f"{self.validation_fraction} is not between 0 and 1"
            raise InputError(what, where="validation_fraction")


def build_dataset(
    inputs: Sequence[str | Path],
    vocabulary: Path | str | None,
    output: Path,
    config: BuildConfig = BuildConfig(),
    *,
    append: bool = False,
    workers: Workers = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> BuildSummary:
    """Tokenize files into a data set in a directory, as `cloze.build_dataset` does."""
    inputs, output = check_paths(inputs), check_path(output, "output")
    vocabulary = None if vocabulary is None else check_path(vocabulary, "vocabulary")
    check_type(config, BuildConfig, "config", remedy="Give a BuildConfig of cloze.data.build")
    build_state.check_output_is_not_read(output, inputs)

    def check_output_path() -> None:
        if not append:
            hint = ", add to it with `append`"
            artifacts.check_output_path(
                output,
                overwrite=overwrite,
                inputs=[vocabulary],
                resume_hint=hint,
                hint_file=artifacts.MANIFEST,
            )

    if not build_state.is_finalized(output):
        check_output_path()
    state, input_shards = _begin(
        inputs, vocabulary, output, config, append=append, overwrite=overwrite, progress=progress
    )
    if build_state.is_finalized(output):  # it was killed between the last two steps
        return _remove_state(state, progress)
    with state.keep_finished_parts(progress):
        check_output_path()  # of a build of something else
        before = _written(output)
        with _naming_another_build(state, before):
            _make_parts(state, input_shards, config, workers=workers, progress=progress)
        return _finalize(state, before, overwrite=overwrite, progress=progress)


def build_array_task(
    inputs: Sequence[str | Path],
    vocabulary: Path | str | None,
    output: Path,
    config: BuildConfig = BuildConfig(),
    *,
    task: ArrayTask,
    append: bool = False,
    workers: Workers = 1,
    progress: Progress = SILENT,
) -> None:
    """Make the parts of one task of a job array; `merge_array_tasks` makes a data set of all parts.

    Tasks share only the inputs and the directory of the output. They may run at any time, on any machine, again, and
    with another number of tasks. Arguments as of `build_dataset`.

    Raises:
        InputError: the text, the vocabulary or a setting is wrong, or differs from that of other tasks.
        RunError: the disk is full, or a worker died.
    """
    output = Path(output)
    if STDIN in map(str, inputs):
        raise InputError("can be read by one task only", where="stdin", remedy="Name files")
    build_state.check_output_is_not_read(output, inputs)
    if not append:  # `merge_array_tasks` replaces the output and checks whether it may
        artifacts.check_output_path(output, overwrite=True, inputs=[vocabulary])
    exists = not append and (output / artifacts.MANIFEST).is_file() and not build_state.has_state(output)
    state, input_shards = _begin(
        inputs, vocabulary, output, config, append=append, is_task=True, progress=progress
    )
    if exists:
        what = f"warning: {output} exists already: cloze corpus merge --overwrite will replace it"
        progress.note(f"{what}. To keep it, delete {state.directory}")
    _make_parts(state, input_shards, config, workers=workers, progress=progress, task=task)


def merge_array_tasks(output: Path, *, overwrite: bool = False, progress: Progress = SILENT) -> BuildSummary:
    """Make a data set of the parts that the tasks have made; InputError if some are missing or damaged."""
    output = Path(output)
    state = build_state.open_state(output)
    if state.plan.settings["kind"] != _KIND:
        raise InputError("no parts of a data set", where=state.directory)
    if build_state.is_finalized(output):
        return _remove_state(state, progress)
    if not state.plan.options["append"]:
        artifacts.check_output_path(output, overwrite=overwrite)
    if damaged := state.discard_damaged():
        what = f"{len(damaged)} parts were damaged and are deleted"
        raise InputError(what, where=damaged[0], remedy="Run the tasks again: finished parts are kept")
    return _finalize(state, _written(state.output), overwrite=overwrite, progress=progress)


def _begin(
    inputs: Sequence[str | Path],
    vocabulary: Path | str | None,
    output: Path,
    config: BuildConfig,
    *,
    append: bool,
    progress: Progress,
    is_task: bool = False,
    overwrite: bool = False,
) -> tuple[BuildState, list[InputShard]]:
    """Check everything and open the state of the build."""
    for where, name in (("splitter", config.splitter), ("segmenter", config.segmenter)):
        if name is not None:
            load_splitter(name, where)
    if append:
        refused = {"validation_fraction": config.validation_fraction is not None, "overwrite": overwrite}
        for where in (name for name, is_set in refused.items() if is_set):
            remedy = "Leave out one of them"
            raise InputError("cannot be combined with `append`", where=where, remedy=remedy)
        dataset = Dataset.open(output, verify=not is_task)  # the merge verifies it again
        if dataset.info.has_words != (config.segmenter is not None):
            what = f"{output} was built with{'' if dataset.info.has_words else 'out'} one"
            raise InputError(what, where="segmenter", remedy="Append in the same way")
    tokenizer = _choose_tokenizer(vocabulary, output if append else None)
    input_shards = plan_input_shards(inputs, config.reading, progress=progress)
    state = build_state.begin(
        output,
        input_shards,
        settings={"kind": _KIND, "vocabulary": hash_tokenizer(tokenizer), **part_settings(config)},
        options={
            "inputs": list(map(str, inputs)),
            "validation_fraction": config.validation_fraction,
            "append": append,
            "without": sorted({*config.reading.cleaning.without} & {*_FINAL_STEPS}),
        },
        write_files=tokenizer.save,
        is_task=is_task,
        overwrite=overwrite,
    )
    return state, input_shards


def part_settings(config: BuildConfig) -> dict[str, Any]:
    """Return all that the bytes of a part depend on, except its text and the vocabulary."""
    return {
        "language": config.language,
        "splitter": _name_and_hash(config.splitter),
        **({} if config.segmenter is None else {"segmenter": _name_and_hash(config.segmenter)}),
        "without": sorted({*config.reading.cleaning.without} - {*_FINAL_STEPS}),
        **config.reading.part_settings,
        **{name: metadata.version(name) for name in _PACKAGES},
    }


def _name_and_hash(function: str | None) -> list[str | None] | None:
    return None if function is None else [function, hash_splitter(function)]


def _choose_tokenizer(vocabulary: Path | str | None, dataset: Path | None) -> WordPieceTokenizer:
    """Load the tokenizer of the vocabulary, or of the data set which is appended to."""
    if dataset is None:
        if vocabulary is None:
            raise InputError(MISSING, where="vocabulary", remedy="Name its directory")
        return load_wordpiece(vocabulary)
    tokenizer = load_wordpiece(dataset)
    if vocabulary is not None and hash_tokenizer(load_wordpiece(vocabulary)) != hash_tokenizer(tokenizer):
        remedy = "Leave out `vocabulary` to take that of the data set"
        raise InputError(f"is not the vocabulary of {dataset}", where=vocabulary, remedy=remedy)
    return tokenizer


def _make_parts(
    state: BuildState,
    input_shards: Sequence[InputShard],
    config: BuildConfig,
    *,
    workers: Workers,
    progress: Progress,
    task: ArrayTask | None = None,
) -> None:
    make = partial(
        make_part,
        directory=state.directory,
        vocabulary=state.plan.settings["vocabulary"],
        cleaning=config.reading.cleaning,
        language=config.language,
        splitter=config.splitter,
        segmenter=config.segmenter,
    )

    def count(record: dict[str, Any]) -> dict[str, int]:
        return {"documents": record["summary"]["documents"], "tokens": record["summary"]["tokens"]}

    state.make_parts(
        input_shards, make, label="tokenizing", count=count, workers=workers, progress=progress, task=task
    )


def _finalize(state: BuildState, before: int | None, *, overwrite: bool, progress: Progress) -> BuildSummary:
    with _naming_another_build(state, before):
        summary = finalize(
            state,
            load_tokenizer(state.directory, state.plan.settings["vocabulary"]),
            validation_fraction=state.plan.options["validation_fraction"],
            skipped_steps=state.plan.options["without"],
            dataset=Dataset.open(state.output) if state.plan.options["append"] else None,
            overwrite=overwrite,
        )
    state.remove()
    for line in summary.describe():
        progress.note(line)
    return summary


@contextmanager
def _naming_another_build(state: BuildState, before: int | None) -> Iterator[None]:
    """Say that another build of the output ended first, where this one fails for want of the parts of both.

    Args:
        state: of this build.
        before: time at which the output had been written when this build began; None if it did not exist.
    """
    try:
        yield
    except (InputError, RunError, OSError) as error:
        if _written(state.output) == before:
            raise
        what = "another build of it ended while this one was running, and removed the parts of both"
        remedy = "Its data set is complete; for two, give each a directory"
        raise RunError(what, where=state.output, remedy=remedy) from error


def _written(dataset: Path) -> int | None:
    """Return when a data set was written; None before that."""
    manifest = dataset / artifacts.MANIFEST
    return manifest.stat().st_mtime_ns if manifest.exists() else None


def _remove_state(state: BuildState, progress: Progress) -> BuildSummary:
    progress.note(f"{state.output} is complete: removing its parts")
    state.remove()
    return read_summary(state.output)
