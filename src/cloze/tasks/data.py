"""The data of a fine-tuning run: found, read, split and tokenized before anything is learned."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cloze.corpus.streams import file_sha256
from cloze.errors import InputError
from cloze.progress import Progress
from cloze.stores import Place, as_place, below, is_file, is_folder
from cloze.tasks.batches import held_out, subset
from cloze.tasks.config import DEV_FRACTION, FinetuneConfig
from cloze.tasks.features import count_truncated, featurize
from cloze.tasks.task import AnyTask, Split
from cloze.text.tokenizer import Tokenizer

Features: TypeAlias = list[list[Any]]
"""Of each example, its features."""

_SUBSET_SEED = 0  # parts are the same for every baseline and every model: scores compare
_SPLIT_SEED = 0  # the dev examples are the same for every seed of a run: scores compare


@dataclass(frozen=True, slots=True)
class LabelledData:
    """The examples of a run, to learn from and to be scored on, and their features."""

    train: list[Any]
    train_features: Features
    dev: list[Any]
    dev_features: Features


def find_data(task: AnyTask, path: Place, split: Split) -> Place:
    """Return the file of a split: `path` itself, or the one in that directory that has a name the task knows.

    Raises:
        InputError: there is none.
    """
    if not is_folder(path):
        return as_place(path)
    found = _find_in(task, path, split)
    if found is None:
        what = f"no {' nor '.join(task.file_names[split])} in this directory"
        raise InputError(what, where=path, remedy="Name the file itself")
    return found


def _find_in(task: AnyTask, folder: Place, split: Split) -> Place | None:
    files = (below(folder, name) for name in task.file_names[split])
    return next((file for file in files if is_file(file)), None)


def find_files(task: AnyTask, train: str, dev: str | None) -> tuple[str, str | None]:
    """Return the files to learn from and to be scored on; a directory to learn from may have both.

    Raises:
        InputError: one that is named is not there.
    """
    train_file = str(find_data(task, train, "train"))
    if dev is not None:
        return train_file, str(find_data(task, dev, "dev"))
    beside = _find_in(task, train, "dev") if is_folder(train) else None
    return train_file, None if beside is None else str(beside)


def with_files(task: AnyTask, config: FinetuneConfig) -> FinetuneConfig:
    """Return the settings with files in the place of directories, and with what identifies their content.

    Raises:
        InputError: a file is not there, or not the one that the settings were made for.
    """
    train, dev = find_files(task, config.train, config.dev)
    digest = hashlib.sha256()
    for name in (train, dev):
        if name is not None:
            if not is_file(name):
                raise InputError("no such file", where=name)
            digest.update(bytes.fromhex(file_sha256(name)))
    found = digest.hexdigest()
    if config.data_sha256 not in (None, found):
        remedy = "Give the run its data back, or leave data_sha256 out of a new run's settings"
        raise InputError("not the data that the settings were made for", where=train, remedy=remedy)
    return replace(config, train=train, dev=dev, data_sha256=found)


def read_data(
    task: AnyTask, config: FinetuneConfig, tokenizer: Tokenizer, progress: Progress
) -> tuple[AnyTask, LabelledData]:
    """Read and check every example; return the task with what the training data tell of it.

    Raises:
        InputError: a line is wrong, or there is nothing to learn from or to be scored on.
    """
    dev_file = None if config.dev is None else as_place(config.dev)
    task, train, dev = read_examples(task, as_place(config.train), dev_file, dev_fraction=config.dev_fraction)
    if config.train_examples is not None:
        train = part_of(train, config.train_examples, where=config.train)
    for note in task.notes(tokenizer):
        progress.note(note)
    data = LabelledData(
        train,
        _featurize(task, train, tokenizer, config, "training", progress),
        dev,
        _featurize(task, dev, tokenizer, config, "dev", progress),
    )
    return task, data


def read_examples(
    task: AnyTask, train_file: Place, dev_file: Place | None, *, dev_fraction: float = DEV_FRACTION
) -> tuple[AnyTask, list[Any], list[Any]]:
    """Return the task with what the training data tell of it, and the examples to learn from and to be scored on.

    Args:
        task: whose files they are.
        train_file: the data to learn from.
        dev_file: the data to be scored on; where there are none, a share of the others is held out.
        dev_fraction: that share.

    Raises:
        InputError: a line is wrong, or there is nothing to learn from.
    """
    train = list(task.examples(train_file))
    task = task.fitted(train)
    if dev_file is not None:
        dev = list(task.examples(dev_file))
        task.check_scored(dev)
        return task, train, dev
    is_dev = _is_held_out(task, train, dev_fraction)
    dev = [example for example, out in zip(train, is_dev, strict=True) if out]
    train = [example for example, out in zip(train, is_dev, strict=True) if not out]
    if not train:
        remedy = "Give more examples, of more than one document or query, or a file with --dev"
        raise InputError("nothing is left to learn from", where=train_file, remedy=remedy)
    task.check_scored(dev)
    return task, train, dev


def part_of(train: Sequence[Any], size: int, *, where: object) -> list[Any]:
    """Return `size` training examples, drawn at random and the same each time: a smaller part is in every larger one.

    Raises:
        InputError: there are fewer.
    """
    if size > len(train):
        what = f"{size:,} training examples were asked for, there are {len(train):,}"
        raise InputError(what, where=where)
    return [train[i] for i in subset(len(train), size, seed=_SUBSET_SEED)]


def _is_held_out(task: AnyTask, examples: Sequence[Any], fraction: float) -> list[bool]:
    """Choose a share of the texts that the examples were taken from, at least one."""
    origins = [task.origin(example) for example in examples]
    texts = [number if origin is None else origin for number, origin in enumerate(origins)]
    different = list(dict.fromkeys(texts))
    is_chosen = held_out(len(different), fraction, seed=_SPLIT_SEED)
    chosen = {text for text, out in zip(different, is_chosen, strict=True) if out}
    return [text in chosen for text in texts]


def _featurize(
    task: AnyTask,
    examples: Sequence[Any],
    tokenizer: Tokenizer,
    config: FinetuneConfig,
    what: str,
    progress: Progress,
) -> Features:
    """Tokenize examples, and say how many were cut."""
    limit = config.max_seq_length
    features = featurize(task, examples, tokenizer, max_seq_length=limit, progress=progress)
    if cut := count_truncated(features):
        progress.note(f"{cut:,} of {len(examples):,} {what} examples are longer than {limit} tokens: cut")
    return features
