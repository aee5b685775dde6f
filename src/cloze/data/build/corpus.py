"""Build a data set from text: clean every document, split it into sentences, and tokenize it once.

Plan the parts (`plan`), make the missing ones in any process (`part_files`), merge them in order (`finalize`). So the
output has the same bytes for any number of workers and tasks, and however often the build was killed.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cloze import artifacts
from cloze.data.build.directory import (
    check_output_is_not_read,
    finished_plan,
    keep_finished_parts,
    parts_directory,
    remove_leftover_parts,
    remove_parts,
)
from cloze.data.build.finalize import finalize, read_summary
from cloze.data.build.input_shards import plan_input_shards
from cloze.data.build.job_arrays import ArrayTask, check_plan, read_plan, write_plan
from cloze.data.build.part_files import discard_damaged, list_parts, make_parts
from cloze.data.build.parts import (
    FINAL_STEPS,
    BuildConfig,
    BuildSummary,
    cached_tokenizer,
    hash_tokenizer,
    make_part,
    part_settings,
)
from cloze.data.build.plan import BuildPlan
from cloze.data.build.vocabulary import KIND
from cloze.data.dataset import Dataset
from cloze.data.reading.files import STDIN
from cloze.errors import MISSING, ClozeError, InputError
from cloze.parallel_map import Workers
from cloze.progress import SILENT, Progress
from cloze.tokenization.loading import load_wordpiece
from cloze.tokenization.wordpiece import WordPieceTokenizer


def build_dataset(
    inputs: Sequence[str | Path],
    vocabulary: Path | str | None,
    output: Path,
    config: BuildConfig = BuildConfig(),
    *,
    append: bool = False,
    task: ArrayTask | None = None,
    workers: Workers = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> BuildSummary | None:
    """Tokenize files into a data set in a directory, as `cloze.build_dataset` does.

    The tasks of a job array share only the inputs and the directory of the output. They may run at any time, on any
    machine, again, and with another number of tasks. `merge_array_tasks` makes a data set of their parts.
    """
    if task is not None and STDIN in map(str, inputs):
        raise InputError("can be read by one task only", where="stdin", remedy="Name files")
    check_output_is_not_read(output, inputs)
    if append:
        _check_append(output, config, verify=task is None, overwrite=overwrite)  # the merge verifies it again
    tokenizer = _choose_tokenizer(vocabulary, output if append else None)
    plan = _plan(inputs, tokenizer, config, append=append, progress=progress)
    if task is None and remove_leftover_parts(output, plan):
        return read_summary(output)
    if not append:
        artifacts.check_output_path(
            output,
            overwrite=overwrite or task is not None,  # the merge of all tasks checks it again
            inputs=[vocabulary],
            resume_hint=", add to it with `append`",
            hint_file=artifacts.MANIFEST,
        )
    if not overwrite:
        check_plan(output, plan)
    if task is not None:
        directory = parts_directory(output)
        if not append and (output / artifacts.MANIFEST).is_file() and not directory.exists():
            what = f"warning: {output} exists already: cloze corpus merge --overwrite will replace it"
            progress.note(f"{what}. To keep it, delete {directory}")
        write_plan(output, plan)
    with keep_finished_parts(output, plan, progress) as directory:
        tokenizer_path = _save_tokenizer(tokenizer, _tokenizer_path(output, plan))
        make_parts(
            directory,
            plan,
            partial(make_part, vocabulary=tokenizer_path, config=config),
            label="tokenizing",
            counts=("documents", "tokens"),
            workers=workers,
            progress=progress,
            task=task,
        )
        return None if task else _merge(output, plan, tokenizer, overwrite=overwrite, progress=progress)


def merge_array_tasks(output: Path, *, overwrite: bool = False, progress: Progress = SILENT) -> BuildSummary:
    """Make a data set of the parts that the tasks of a job array have made.

    Raises:
        InputError: parts are missing or damaged.
    """
    plan = read_plan(output)
    if finished_plan(output) == plan.hash:
        remove_parts(output)
        return read_summary(output)
    if not plan.settings["append"]:
        artifacts.check_output_path(output, overwrite=overwrite)
    if damaged := discard_damaged(list_parts(parts_directory(output), plan)):
        what = f"{len(damaged)} parts were damaged and are deleted"
        raise InputError(what, where=damaged[0], remedy="Run the tasks again: finished parts are kept")
    tokenizer = cached_tokenizer(_tokenizer_path(output, plan))
    return _merge(output, plan, tokenizer, overwrite=overwrite, progress=progress)


def _plan(
    inputs: Sequence[str | Path],
    tokenizer: WordPieceTokenizer,
    config: BuildConfig,
    *,
    append: bool,
    progress: Progress,
) -> BuildPlan:
    settings = part_settings(config, tokenizer)
    return BuildPlan.of(
        plan_input_shards(inputs, config.reading, progress=progress),
        settings,
        {
            "inputs": list(map(str, inputs)),
            "validation_fraction": config.validation_fraction,
            "append": append,
            "skipped_final_steps": sorted(FINAL_STEPS.intersection(config.reading.cleaning.without)),
        },
    )


def _merge(
    output: Path, plan: BuildPlan, tokenizer: WordPieceTokenizer, *, overwrite: bool, progress: Progress
) -> BuildSummary:
    summary = finalize(output, plan, tokenizer, overwrite=overwrite)
    for line in summary.describe():
        progress.note(line)
    return summary


def _tokenizer_path(output: Path, plan: BuildPlan) -> Path:
    """Return the directory of the tokenizer, for workers and the merge."""
    return parts_directory(output) / f"vocabulary-{plan.settings['vocabulary']}"


def _save_tokenizer(tokenizer: WordPieceTokenizer, path: Path) -> Path:
    """Write the tokenizer of a build, unless another task of a job array wrote it; return its directory."""
    try:
        if not path.exists():
            with artifacts.write_directory(path, kind=KIND) as temporary:
                tokenizer.save(temporary)
    except ClozeError:
        if not path.exists():  # else another task was faster
            raise
    return path


def _check_append(dataset: Path, config: BuildConfig, *, verify: bool, overwrite: bool) -> None:
    refused = {"validation_fraction": config.validation_fraction is not None, "overwrite": overwrite}
    for where in (name for name, is_set in refused.items() if is_set):
        raise InputError("cannot be combined with `append`", where=where, remedy="Leave out one of them")
    has_words = Dataset.open(dataset, verify=verify).info.has_words
    if has_words != (config.segmenter is not None):
        what = f"{dataset} was built with{'' if has_words else 'out'} one"
        raise InputError(what, where="segmenter", remedy="Append in the same way")


def _choose_tokenizer(vocabulary: Path | str | None, dataset: Path | None) -> WordPieceTokenizer:
    """Load the tokenizer of the vocabulary, or of the data set that is appended to."""
    if dataset is None:
        if vocabulary is None:
            raise InputError(MISSING, where="vocabulary", remedy="Name its directory")
        return load_wordpiece(vocabulary)
    tokenizer = load_wordpiece(dataset)
    if vocabulary is not None and hash_tokenizer(load_wordpiece(vocabulary)) != hash_tokenizer(tokenizer):
        remedy = "Leave out `vocabulary` to take that of the data set"
        raise InputError(f"is not the vocabulary of {dataset}", where=vocabulary, remedy=remedy)
    return tokenizer
