"""The labeled data of a fine-tuning run: reading, splitting, sampling and tokenizing them."""

import hashlib
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cloze.data.hashing import mix
from cloze.data.reading.directories import is_source, source_sha256
from cloze.data.reading.memory import ROWS_EXTENSION, Data, MemoryRows
from cloze.errors import InputError
from cloze.finetuning.config import DEV_FRACTION, FinetuneConfig
from cloze.finetuning.findings import Finding, classes_of, count_classes, find_in_examples, place
from cloze.progress import Progress
from cloze.remote_files import to_path_or_url
from cloze.tables import format_count
from cloze.tasks.data import find_files
from cloze.tasks.features import count_losses
from cloze.tasks.labels import describe_classes
from cloze.tasks.predict import featurize
from cloze.tasks.task import Task
from cloze.tokenization.tokenizer import Tokenizer

Features: TypeAlias = list[list[Any]]
"""The features of each example."""

MIN_DEV_EXAMPLES = 100
"""With fewer a warning is given: an accuracy is uncertain by more than 0.1."""
_HELD_OUT, _SUBSET, _FOLDS = 22, 23, 24  # purposes of random numbers
_SEED = 0
"""The same dev examples and samples for every baseline, model and seed of a run, so that scores compare."""


@dataclass(frozen=True, slots=True)
class LabeledData:
    """Training and dev examples, and their features."""

    train: list[Any]
    train_features: Features
    dev: list[Any]
    dev_features: Features
    unlabeled: list[Any]
    """Examples that a teacher alone labels."""
    unlabeled_features: Features
    findings: list[Finding]
    """Findings to print before training."""
    folds: Sequence[int] = ()
    """The fold of each training example, counted from 1, in a cross-validation, whose dev examples are the same."""

    def in_fold(self, fold: int | None) -> "LabeledData":
        """Return the data of a run that scores a fold and learns from the others; None: all."""
        if fold is None:
            return self
        learned, scored = ([(f == fold) == is_dev for f in self.folds] for is_dev in (False, True))
        train, features = (list(compress(of_all, learned)) for of_all in (self.train, self.train_features))
        dev, dev_features = (list(compress(of_all, scored)) for of_all in (self.dev, self.dev_features))
        return replace(self, train=train, train_features=features, dev=dev, dev_features=dev_features)

    @property
    def flat_train_features(self) -> list[Any]:
        """The features of all training examples, those without labels last."""
        return list(chain.from_iterable(chain(self.train_features, self.unlabeled_features)))


def find_data(task: Task, train: str, dev: str | None = None, unlabeled: str | None = None) -> dict[str, str]:
    """Return the files that a run reads, by their settings, with files in the place of directories."""
    train, dev = find_files(task, train, dev)
    names = {"train": train, "dev": dev, "unlabeled": unlabeled}
    files = {setting: name for setting, name in names.items() if name is not None}
    for name in files.values():
        if not is_source(name):
            raise InputError("no such file", where=name)
    return files


def hash_files(files: Mapping[str, str], expected: str | None = None) -> tuple[str, dict[str, str]]:
    """Return the SHA-256 of all files, which is the expected one if there is one, and of each by its setting."""
    hashes = {setting: source_sha256(name) for setting, name in files.items()}
    digest = hashlib.sha256(bytes.fromhex("".join(hashes.values()))).hexdigest()
    if expected not in (None, digest):
        remedy = "Restore the run's data, or leave data_sha256 out of a new run's settings"
        raise InputError("not the data that the settings were made for", where=files["train"], remedy=remedy)
    return digest, hashes


def load_data(
    task: Task, config: FinetuneConfig, files: Mapping[str, str], tokenizer: Tokenizer, progress: Progress
) -> tuple[Task, LabeledData]:
    """Read and check every example of `find_data`; return the task fitted to the training data, and the data."""
    sources: dict[str, Data] = {
        setting: MemoryRows.read(Path(name)) if name.endswith(ROWS_EXTENSION) else to_path_or_url(name)
        for setting, name in files.items()
    }
    train_source, dev_source = sources["train"], sources.get("dev")
    task, train, dev, findings = read_examples(
        task, train_source, dev_source, dev_fraction=config.dev_fraction, holds_out=config.folds == 1
    )
    folds = [] if config.folds == 1 else divide(task, train, config.folds, where=train_source)
    train = _sample_by_config(train, config, where=train_source)
    if counts := count_classes(task, train):
        progress.note(describe_classes(counts))
        if (num_scored := len(dev) or len(train)) < MIN_DEV_EXAMPLES:
            interval = 1.96 * math.sqrt(0.25 / num_scored)
            what = f"{format_count(num_scored, 'example')} to score on"
            what = f"{what}: scores are uncertain by up to ±{interval:.2f} (95%)"
            remedy = "Label more, or give a larger file to score on"
            findings.append(Finding("few_examples", num_scored, (), what, remedy))
    for note in task.answer.notes(train, dev, tokenizer):
        progress.note(note)
    unlabeled = list(task.examples(sources["unlabeled"], labeled=False)) if "unlabeled" in sources else []
    if "unlabeled" in sources and not unlabeled:
        remedy = "Give one a line, or leave `unlabeled` out"
        raise InputError("no texts", where=sources["unlabeled"], remedy=remedy)

    limit = config.max_seq_length

    def tokenize(examples: list[Any], name: str, labeled_in: Data | None) -> Features:
        """Return features; report truncated texts, and refuse labeled ones without a target."""
        features = featurize(task.answer, examples, tokenizer, max_seq_length=limit, progress=progress)
        losses = count_losses(examples, features, tokenizer)
        if losses.truncated:
            truncated = f"{losses.truncated:,} of {len(examples):,} {name} examples"
            what = f"{task.answer.describe_truncation(truncated, limit)}: cut"
            cut = zip(examples, features, strict=True)
            rows = tuple((place(e),) for e, of_one in cut if any(f.is_truncated for f in of_one))
            findings.append(Finding("long_texts", losses.truncated, rows, what))
        if labeled_in is not None:
            losses.unknown.warn(f"{name} examples")
            if not any(task.answer.batch([one]).num_targets for one in chain.from_iterable(features)):
                remedy = "Add examples with words and labels"
                raise InputError(f"the {name} examples have no targets", where=labeled_in, remedy=remedy)
        return features

    train_features = tokenize(train, "training", train_source)
    if folds:
        dev, dev_features = train, train_features
    else:
        dev_features = tokenize(dev, "dev", train_source if dev_source is None else dev_source)
    unlabeled_features = tokenize(unlabeled, "unlabeled", None) if unlabeled else []
    data = LabeledData(
        train, train_features, dev, dev_features, unlabeled, unlabeled_features, findings, folds
    )
    return task, data.in_fold(config.fold)


def read_examples(
    task: Task,
    train_file: Data,
    dev_file: Data | None,
    *,
    dev_fraction: float = DEV_FRACTION,
    holds_out: bool = True,
) -> tuple[Task, list[Any], list[Any], list[Finding]]:
    """Return the task fitted to the training data, the training examples, the dev examples, and the findings in them.

    Without dev data a share of the training data is held out, if `holds_out`.
    """
    train = list(task.examples(train_file))
    unfitted, task = task, task.fit(train)
    dev: list[Any] = []
    if dev_file is not None:
        dev = list(task.examples(dev_file))
    elif holds_out:
        train, dev = _hold_out(task, train, dev_fraction, where=train_file)
    task.answer.check_scorable(dev if holds_out else train)
    findings = find_in_examples(unfitted, task, train, dev, is_held_out=dev_file is None)
    return task, train, dev, findings


def _hold_out(
    task: Task, examples: list[Any], fraction: float, *, where: Data
) -> tuple[list[Any], list[Any]]:
    """Return training and dev examples, the same share of each class; one text, document or query stays together."""
    groups, classes = _group(task, examples)
    is_stratified = all(len(of_group) == 1 for of_group in classes.values())
    strata = list(classes.values()) if is_stratified else [None] * len(classes)
    chosen = choose_held_out(strata, fraction, seed=_SEED)
    is_dev = {group: number in chosen for number, group in enumerate(classes)}
    train, dev = (
        [example for example, group in zip(examples, groups, strict=True) if is_dev[group] == held_out]
        for held_out in (False, True)
    )
    if not train:
        what = "no training examples are left"
        if len(classes) < len(dev):
            groups_of = f"{format_count(len(classes), 'group')} (a text, document or query)"
            what = f"{what}: all {len(dev):,} belong to {groups_of}, which stay together"
        remedy = "Give more examples, of more than one document or query, or a file with `dev`"
        raise InputError(what, where=where, remedy=remedy)
    return train, dev


def divide(task: Task, examples: Sequence[Any], count: int, *, where: Data) -> list[int]:
    """Return the fold of each example, from 1, the same for every seed.

    Folds have the same share of each label or set of labels; one text, document or query stays together.
    """
    groups, classes = _group(task, examples)
    if len(classes) < count:
        groups_of = f"{format_count(len(classes), 'group')} (a text, document or query)"
        what = f"{groups_of}, fewer than {count} folds"
        raise InputError(what, where=where, remedy="Give more examples, or ask for fewer `folds`")
    names, shuffled = list(classes), _shuffled(len(classes), _SEED, _FOLDS)
    ordered = sorted((names[i] for i in shuffled), key=lambda group: sorted(classes[group]))  # stable
    fold_of = {group: number % count + 1 for number, group in enumerate(ordered)}
    return [fold_of[group] for group in groups]


def _group(task: Task, examples: Sequence[Any]) -> tuple[list[Hashable], dict[Hashable, frozenset[str]]]:
    """Return the group of each example, its text, document or query, and the labels of each group."""
    keys = [task.reader.group(example) for example in examples]
    groups = [number if key is None else key for number, key in enumerate(keys)]
    classes: dict[Hashable, frozenset[str]] = {}
    for group, example in zip(groups, examples, strict=True):
        classes.setdefault(group, classes_of(example))  # of texts that occur twice the first
    return groups, classes


def choose_held_out(strata: Sequence[Hashable], fraction: float, *, seed: int) -> set[int]:
    """Choose a random share of items, at least one, with the same share of each stratum up to one item.

    The only item of a stratum is not chosen, unless the others are too few.
    """
    sizes = Counter(strata)
    number = {stratum: i for i, stratum in enumerate(sizes)}
    shuffled = _shuffled(len(strata), seed, _HELD_OUT)
    eligible = [i for i in shuffled if sizes[strata[i]] > 1]
    size = max(1, round(len(strata) * fraction))
    if size > len(eligible) or len(sizes) == 1:
        return set(shuffled[:size])
    eligible.sort(key=lambda i: number[strata[i]])  # stable: random within a stratum
    return {eligible[int((k + 0.5) * len(eligible) / size)] for k in range(size)}  # evenly over the strata


def _sample_by_config(train: list[Any], config: FinetuneConfig, *, where: Data) -> list[Any]:
    """Return the training examples that the settings ask for."""
    if config.train_examples is not None:
        if config.train_examples > len(train):
            what = f"there are {len(train):,} training examples, fewer than train_examples {config.train_examples:,}"
            raise InputError(what, where=where)
        train = sample(train, config.train_examples)
    if config.data_fraction < 1:
        train = sample(train, fraction_size(len(train), config.data_fraction))
    return train


def sample(examples: Sequence[Any], size: int) -> list[Any]:
    """Return `size` random examples in order, always the same; a smaller sample is part of every larger one."""
    return [examples[i] for i in sorted(_shuffled(len(examples), _SEED, _SUBSET)[:size])]


def _shuffled(count: int, seed: int, purpose: int) -> list[int]:
    order: list[int] = np.argsort(mix(seed, purpose, np.arange(count)), kind="stable").tolist()
    return order


def fraction_size(num_examples: int, fraction: float) -> int:
    """Return the number of examples in a share of them, at least one.

    >>> fraction_size(10, 0.29), fraction_size(10, 0.01)
    (3, 1)
    """
    return max(1, round(fraction * num_examples))
