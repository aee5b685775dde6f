"""The data of a fine-tuning run: reading, splitting and tokenizing them."""

import hashlib
import math
import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from cloze.artifacts import RUN_DATA_FOLDER
from cloze.data.reading.directories import is_source, source_sha256
from cloze.data.reading.memory import ROWS_EXTENSION, Data, MemoryRows
from cloze.errors import DataWarning, InputError
from cloze.finetuning.batches import held_out_mask, sample_indices, stratified_mask
from cloze.finetuning.config import DEV_FRACTION, FinetuneConfig
from cloze.progress import Progress
from cloze.remote_files import to_path_or_url
from cloze.suggestions import no_such_path
from cloze.tables import format_count
from cloze.tasks.data import find_files
from cloze.tasks.features import count_losses
from cloze.tasks.labels import describe_classes
from cloze.tasks.predict import featurize
from cloze.tasks.task import AnyTask
from cloze.tokenization.tokenizer import Tokenizer

Features: TypeAlias = list[list[Any]]
"""The features of each example."""

MIN_DEV_EXAMPLES = 100
"""With fewer a warning is given: an accuracy is uncertain by more than 0.1."""
_SUBSET_SEED = 0  # the same samples for every baseline and model, so that scores compare
_SPLIT_SEED = 0  # the same dev examples for every seed of a run, so that scores compare


@dataclass(frozen=True, slots=True)
class LabeledData:
    """Training and dev examples, and their features."""

    train: list[Any]
    train_features: Features
    dev: list[Any]
    dev_features: Features
    unlabeled: list[Any] = field(default_factory=list)
    """Examples that a teacher alone labels."""
    unlabeled_features: Features = field(default_factory=list)

    def with_fraction(self, fraction: float) -> "LabeledData":
        """Return the data with a share of the training examples, which a larger share contains."""
        indices = _fraction_indices(len(self.train), fraction)
        train, features = ([values[i] for i in indices] for values in (self.train, self.train_features))
        return replace(self, train=train, train_features=features)

    @property
    def flat_train_features(self) -> list[Any]:
        """The features of all training examples, those without labels last."""
        return list(chain.from_iterable(chain(self.train_features, self.unlabeled_features)))

    @property
    def num_labeled_features(self) -> int:
        """The number of features of labeled training examples."""
        return sum(map(len, self.train_features))


def find_data(task: AnyTask, config: FinetuneConfig) -> FinetuneConfig:
    """Return the settings with files in the place of directories."""
    train, dev = find_files(task, config.train, config.dev)
    config = replace(config, train=train, dev=dev)
    for name in _data_files(config).values():
        if not is_source(name):
            remedy = (
                "`train` takes a file, a URL or the directory of a benchmark, or a glob of tables"
                if name == train
                else None
            )
            raise no_such_path(name, remedy=remedy)
    return config


def add_checksums(config: FinetuneConfig) -> tuple[FinetuneConfig, dict[str, str]]:
    """Hash the data files; return the settings with `data_sha256`, and the SHA-256 of each file by its setting."""
    hashes = {setting: source_sha256(name) for setting, name in _data_files(config).items()}
    digest = hashlib.sha256(bytes.fromhex("".join(hashes.values()))).hexdigest()
    if config.data_sha256 not in (None, digest):
        remedy = "Restore the run's data, or leave data_sha256 out of a new run's settings"
        raise InputError("not the data that the settings were made for", where=config.train, remedy=remedy)
    return replace(config, data_sha256=digest), hashes


def _data_files(config: FinetuneConfig) -> dict[str, str]:
    files = {"train": config.train, "dev": config.dev, "unlabeled": config.distillation.unlabeled}
    return {setting: name for setting, name in files.items() if name is not None}


def keep_rows(config: FinetuneConfig, run: Path) -> tuple[FinetuneConfig, dict[str, Path]]:
    """Return the settings with files of the run in place of temporary ones, and these by their names in the run."""
    files = {
        f"{RUN_DATA_FOLDER}/{setting}.jsonl": Path(name)
        for setting, name in _data_files(config).items()
        if name.endswith(ROWS_EXTENSION)
    }
    kept = {file.stem: str(run / name) for name, file in files.items()}
    return replace(config, **kept), files


def _open(name: str) -> Data:
    return MemoryRows.read(Path(name)) if name.endswith(ROWS_EXTENSION) else to_path_or_url(name)


def count_classes(task: AnyTask, examples: Sequence[Any]) -> dict[str, int]:
    """Return the number of examples of each class; empty if the task has no classes."""
    counts = Counter(chain.from_iterable(map(task.answer.classes_of, examples)))
    return {name: counts[name] for name in task.answer.class_names} if counts else {}


def _warn_of_untrained_classes(task: AnyTask, train: Sequence[Any], dev: Sequence[Any], where: Data) -> None:
    """Warn of classes that the dev examples have and no training example has."""
    trained = count_classes(task, train)
    counts = {name: count for name, count in count_classes(task, dev).items() if count and not trained[name]}
    if counts:
        names = ", ".join(f"{name!r} ({format_count(count, 'example')})" for name, count in counts.items())
        what = f"no training example has {names} of the data to score on, which cannot be learned"
        warnings.warn(DataWarning(f"{where}: {what}. Label more, or leave them out"), stacklevel=2)


def load_data(
    task: AnyTask,
    config: FinetuneConfig,
    tokenizer: Tokenizer,
    progress: Progress,
) -> tuple[AnyTask, LabeledData]:
    """Read and check every example; return the task fitted to the training data, and the data."""
    train_source = _open(config.train)
    dev_source = None if config.dev is None else _open(config.dev)
    task, train, dev = read_examples(
        task, train_source, dev_source, dev_fraction=config.dev_fraction, stratify=config.stratify
    )
    if config.train_examples is not None:
        train = sample_examples(train, config.train_examples, where=train_source)
    if config.data_fraction < 1:
        train = [train[i] for i in _fraction_indices(len(train), config.data_fraction)]
    if counts := count_classes(task, train):
        progress.note(describe_classes(counts))
        if len(dev) < MIN_DEV_EXAMPLES:
            interval = 1.96 * math.sqrt(0.25 / len(dev))
            what = f"{format_count(len(dev), 'example')} to score on: scores are uncertain by up to ±{interval:.2f}"
            progress.note(f"warning: {what} (95%). Label more, or give a larger file to score on")
    for note in (*task.answer.notes(train, tokenizer), *task.answer.dev_notes(dev)):
        progress.note(note)
    unlabeled = _read_unlabeled(task, config.distillation.unlabeled)
    features: list[Features] = []
    limit = config.max_seq_length
    for name, examples in (("training", train), ("dev", dev), ("unlabeled", unlabeled)):
        if not examples:
            features.append([])
            continue
        features.append(featurize(task.answer, examples, tokenizer, max_seq_length=limit, progress=progress))
        if name != "unlabeled" and not any(
            task.answer.batch([feature]).num_targets for feature in chain.from_iterable(features[-1])
        ):
            where = train_source if name == "training" else dev_source or train_source
            remedy = "Add examples with words and labels"
            raise InputError(f"the {name} examples have no targets", where=where, remedy=remedy)
        losses = count_losses(examples, features[-1], tokenizer)
        if losses.truncated:
            truncated = f"{losses.truncated:,} of {len(examples):,} {name} examples"
            progress.note(f"{task.answer.describe_truncation(truncated, limit)}: cut")
        if name != "unlabeled":
            losses.unknown.warn(f"{name} examples")
    return task, LabeledData(train, features[0], dev, features[1], unlabeled, features[2])


def _read_unlabeled(task: AnyTask, path: str | None) -> list[Any]:
    """Read the examples of a file without labels; no examples if there is no file."""
    if path is None:
        return []
    examples = list(task.examples(to_path_or_url(path), labeled=False))
    if not examples:
        raise InputError("no texts", where=path, remedy="Give one a line, or leave `unlabeled` out")
    return examples


def read_examples(
    task: AnyTask,
    train_file: Data,
    dev_file: Data | None,
    *,
    dev_fraction: float = DEV_FRACTION,
    stratify: bool = True,
) -> tuple[AnyTask, list[Any], list[Any]]:
    """Return the task fitted to the training data, the training examples, and the dev examples.

    Without dev data a share of the training data is held out; `stratify` holds out this share of each class.
    """
    train = list(task.examples(train_file))
    task = task.fit(train)
    if dev_file is not None:
        dev = list(task.examples(dev_file))
        task.answer.check_scorable(dev)
        _warn_of_untrained_classes(task, train, dev, dev_file)
        return task, train, dev
    split_groups = [task.reader.group(example) for example in train]
    groups = [number if group is None else group for number, group in enumerate(split_groups)]
    strata: dict[Hashable, frozenset[str]] = {}
    for group, example in zip(groups, train, strict=True):
        strata.setdefault(group, task.answer.classes_of(example))  # of texts that occur twice the first
    if stratify and len(set(strata.values())) > 1 and set(map(len, strata.values())) == {1}:
        is_held_out = stratified_mask(list(strata.values()), dev_fraction, seed=_SPLIT_SEED)
    else:
        is_held_out = held_out_mask(len(strata), dev_fraction, seed=_SPLIT_SEED)
    is_dev = dict(zip(strata, is_held_out, strict=True))
    dev = [example for example, group in zip(train, groups, strict=True) if is_dev[group]]
    train = [example for example, group in zip(train, groups, strict=True) if not is_dev[group]]
    if not train:
        remedy = "Give more examples, of more than one document or query, or a file with `dev`"
        what = "no training examples are left"
        if len(strata) < len(dev):
            texts = "text, document or query"
            distinct = f"one {texts}" if len(strata) == 1 else f"{len(strata):,} texts, documents or queries"
            what = f"{what}: all {len(dev):,} are of {distinct}, and those of one are trained on or held out together"
        raise InputError(what, where=train_file, remedy=remedy)
    task.answer.check_scorable(dev)
    _warn_of_untrained_classes(task, train, dev, train_file)
    return task, train, dev


def fraction_size(num_examples: int, fraction: float) -> int:
    """Return the number of examples in a share of them, at least one.

    >>> fraction_size(10, 0.29), fraction_size(10, 0.01)
    (3, 1)
    """
    return max(1, round(fraction * num_examples))


def _fraction_indices(num_examples: int, fraction: float) -> Sequence[int]:
    size = fraction_size(num_examples, fraction)
    return [int(i) for i in sample_indices(num_examples, size, seed=_SUBSET_SEED)]


def sample_examples(train: Sequence[Any], size: int, *, where: object) -> list[Any]:
    """Return `size` random training examples, always the same ones; a smaller sample is part of every larger one."""
    if size > len(train):
        what = f"there are {len(train):,} training examples, fewer than train_examples {size:,}"
        raise InputError(what, where=where)
    return [train[i] for i in sample_indices(len(train), size, seed=_SUBSET_SEED)]
