"""Build a data set from text: clean every document, split it into sentences, and tokenize it once.

Plan the parts (`plan`), make the missing ones in any process (`part_files`), merge them in order (`finalize`). So the
output has the same bytes for any number of workers, and however often the build was killed.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cloze import artifacts
from cloze.data.build.directory import check_output_is_not_read, keep_finished_parts, remove_leftover_parts
from cloze.data.build.finalize import finalize, read_summary
from cloze.data.build.input_shards import BuildRun, plan_input_shards
from cloze.data.build.part_files import BuildPlan, make_parts
from cloze.data.build.parts import (
    FINAL_STEPS,
    BuildConfig,
    BuildSummary,
    hash_tokenizer,
    make_part,
    part_settings,
)
from cloze.data.build.vocabulary import KIND
from cloze.data.dataset import Dataset
from cloze.errors import MISSING, ClozeError, InputError
from cloze.file_names import MANIFEST
from cloze.tokenization.loading import load_wordpiece
from cloze.tokenization.wordpiece import WordPieceTokenizer


def build_dataset(
    inputs: Sequence[str | Path],
    vocabulary: Path | str | None,
    output: Path,
    config: BuildConfig = BuildConfig(),
    run: BuildRun = BuildRun(),
    *,
    append: bool = False,
) -> BuildSummary:
    """Tokenize files into a data set in a directory, as `cloze.build_dataset` does."""
    check_output_is_not_read(output, inputs)
    language, splitter = "en", config.splitter
    if append:
        info = Dataset.open(output).info  # damage is found before the text is read
        if info.has_words != (config.segmenter is not None):
            what = f"{output} was built with{'' if info.has_words else 'out'} one"
            raise InputError(what, where="segmenter", remedy="Append in the same way")
        language, splitter = info.language, splitter or info.splitter
    if config.language is None:
        config = replace(config, language=language, splitter=splitter)
    tokenizer = _choose_tokenizer(vocabulary, output if append else None)
    plan = BuildPlan.of(
        plan_input_shards(inputs, config.reading, progress=run.progress),
        part_settings(config, tokenizer),
        {
            "inputs": list(map(str, inputs)),
            "validation_fraction": config.validation_fraction,
            "append": append,
            "skipped_final_steps": sorted(FINAL_STEPS.intersection(config.reading.cleaning.without)),
        },
    )
    if remove_leftover_parts(output, plan):
        return read_summary(output)
    if not append:
        artifacts.check_output_path(
            output,
            overwrite=run.overwrite,
            inputs=[vocabulary],
            resume_hint=", add to it with `append`",
            hint_file=MANIFEST,
        )
    with keep_finished_parts(output, plan, run.progress) as directory:
        tokenizer_path = directory / f"vocabulary-{plan.settings['vocabulary']}"
        try:
            if not tokenizer_path.exists():
                with artifacts.write_directory(tokenizer_path, kind=KIND) as temporary:
                    tokenizer.save(temporary)
        except ClozeError:
            if not tokenizer_path.exists():  # else another build was faster
                raise
        parts = make_parts(
            directory,
            plan,
            partial(make_part, vocabulary=tokenizer_path, config=config),
            label="tokenizing",
            counts=("documents", "tokens"),
            run=run,
        )
        summary = finalize(output, plan, parts, tokenizer, overwrite=run.overwrite)
    for line in summary.describe():
        run.progress.note(line)
    return summary


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
