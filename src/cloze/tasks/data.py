"""The data of a fine-tuning run: finding files, reading, splitting and tokenizing them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cloze.data.files import file_sha256
from cloze.errors import InputError
from cloze.progress import Progress
from cloze.remote_files import PathOrUrl, is_directory, is_file, join_path, to_path_or_url
from cloze.tasks.batches import held_out_mask, sample_indices
from cloze.tasks.config import DEV_FRACTION, FinetuneConfig
from cloze.tasks.features import count_truncated, featurize
from cloze.tasks.labels import describe_classes
from cloze.tasks.task import AnyTask, Split
from cloze.tokenization.tokenizer import Tokenizer

Features: TypeAlias = list[list[Any]]
"""The features of each example."""

_SUBSET_SEED = 0  # the same samples for every baseline and model, so that scores compare
_SPLIT_SEED = 0  # the same dev examples for every seed of a run, so that scores compare


@dataclass(frozen=True, slots=True)
class LabeledData:
    """Training and dev examples, and their features."""

    train: list[Any]
    train_features: Features
    dev: list[Any]
    dev_features: Features

    @property
    def flat_train_features(self) -> list[Any]:
        """The features of all training examples."""
        return [feature for features in self.train_features for feature in features]


def find_split_file(task: AnyTask, path: PathOrUrl, split: Split) -> PathOrUrl:
    """Return the file of a split: `path` itself, or the file in that directory with one of the task's names.

    Raises:
        InputError: there is no such file.
    """
    if not is_directory(path):
        return to_path_or_url(path)
    file = _find_in(task, path, split)
    if file is None:
        what = f"no {' nor '.join(task.file_names(split))} in this directory"
        raise InputError(what, where=path, remedy="Name the file itself")
    return file


def _find_in(task: AnyTask, folder: PathOrUrl, split: Split) -> PathOrUrl | None:
    files = (join_path(folder, name) for name in task.file_names(split))
    return next((file for file in files if is_file(file)), None)


def find_files(task: AnyTask, train: str, dev: str | None) -> tuple[str, str | None]:
    """Return the training and dev files; a directory of training data may have both.

    Raises:
        InputError: a file does not exist.
    """
    train_file = _as_text(find_split_file(task, train, "train"))
    if dev is not None:
        return train_file, _as_text(find_split_file(task, dev, "dev"))
    dev_file = _find_in(task, train, "dev") if is_directory(train) else None
    return train_file, None if dev_file is None else str(dev_file)


def _as_text(path: PathOrUrl) -> str:
    return path if isinstance(path, str) else str(path)  # `str` would drop the rows of a MemoryFile


def resolve_files(task: AnyTask, config: FinetuneConfig) -> tuple[FinetuneConfig, dict[str, str]]:
    """Return the settings with files in the place of directories and `data_sha256`, and the SHA-256 of each file.

    Raises:
        InputError: a file does not exist, or is not the one that the settings were made for.
    """
    train, dev = find_files(task, config.train, config.dev)
    hashes = {}
    for name in filter(None, (train, dev)):
        if not is_file(name):
            raise InputError("no such file", where=name)
        hashes[name] = file_sha256(name)
    digests = [bytes.fromhex(hashes[name]) for name in filter(None, (train, dev))]
    digest = hashlib.sha256(b"".join(digests)).hexdigest()
    if config.data_sha256 not in (None, digest):
        remedy = "Restore the run's data, or leave data_sha256 out of a new run's settings"
        raise InputError("not the data that the settings were made for", where=train, remedy=remedy)
    return replace(config, train=train, dev=dev, data_sha256=digest), hashes


def load_data(
    task: AnyTask, config: FinetuneConfig, tokenizer: Tokenizer, progress: Progress
) -> tuple[AnyTask, LabeledData]:
    """Read and check every example; return the task fitted to the training data, and the data.

    Raises:
        InputError: a line is wrong, or there are no training or dev examples.
    """
    dev_file = None if config.dev is None else to_path_or_url(config.dev)
    task, train, dev = read_examples(
        task, to_path_or_url(config.train), dev_file, dev_fraction=config.dev_fraction
    )
    if config.train_examples is not None:
        train = sample_examples(train, config.train_examples, where=config.train)
    if counts := task.count_classes(train):
        progress.note(describe_classes(counts))
    for note in task.notes(train, tokenizer):
        progress.note(note)
    features = []
    limit = config.max_seq_length
    for name, examples in (("training", train), ("dev", dev)):
        features.append(featurize(task, examples, tokenizer, max_seq_length=limit, progress=progress))
        if cut := count_truncated(features[-1]):
            progress.note(f"{cut:,} of {len(examples):,} {name} examples are longer than {limit} tokens: cut")
    return task, LabeledData(train, features[0], dev, features[1])


def read_examples(
    task: AnyTask, train_file: PathOrUrl, dev_file: PathOrUrl | None, *, dev_fraction: float = DEV_FRACTION
) -> tuple[AnyTask, list[Any], list[Any]]:
    """Return the task fitted to the training data, the training examples, and the dev examples.

    Args:
        task: the task.
        train_file: training data.
        dev_file: dev data; None holds out a share of the training data.
        dev_fraction: the held-out share.

    Raises:
        InputError: a line is wrong, or there are no training examples.
    """
    train = list(task.examples(train_file))
    task = task.fit_labels(train)
    train = task.with_class_labels(train)
    if dev_file is not None:
        dev = list(task.examples(dev_file))
        task.check_scorable(dev)
        return task, train, dev
    split_groups = [task.split_group(example) for example in train]
    groups = [number if group is None else group for number, group in enumerate(split_groups)]
    distinct = list(dict.fromkeys(groups))
    is_dev = dict(zip(distinct, held_out_mask(len(distinct), dev_fraction, seed=_SPLIT_SEED), strict=True))
    dev = [example for example, group in zip(train, groups, strict=True) if is_dev[group]]
    train = [example for example, group in zip(train, groups, strict=True) if not is_dev[group]]
    if not train:
        remedy = "Give more examples, of more than one document or query, or a file with --dev"
        raise InputError("no training examples are left", where=train_file, remedy=remedy)
    task.check_scorable(dev)
    return task, train, dev


def sample_examples(train: Sequence[Any], size: int, *, where: object) -> list[Any]:
    """Return `size` random training examples, always the same ones; a smaller sample is part of every larger one.

    Raises:
        InputError: there are fewer examples.
    """
    if size > len(train):
        what = f"there are {len(train):,} training examples, fewer than train_examples {size:,}"
        raise InputError(what, where=where)
    return [train[i] for i in sample_indices(len(train), size, seed=_SUBSET_SEED)]
