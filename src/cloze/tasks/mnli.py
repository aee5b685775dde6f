"""MNLI: does the first sentence entail the second, contradict it, or neither? And AX, which asks its models more."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.task import Split
from cloze.tasks.texts import Columns


@register_task("mnli")
@dataclass(frozen=True, kw_only=True)
class MNLI(GlueClassification):
    """Premise and hypothesis; dev_matched has the genres of the training data, dev_mismatched others."""

    source: ClassVar[str] = "Williams et al. 2018; GLUE"
    columns: ClassVar[Columns] = Columns(
        ("sentence1", "premise"), ("sentence2", "hypothesis"), ("gold_label", "label")
    )
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = MappingProxyType(
        {"train": ("train.tsv", "mnli.train.jsonl"), "dev": ("dev_matched.tsv", "mnli.valid.jsonl")}
    )

    labels: tuple[str, ...] = ("entailment", "neutral", "contradiction")


@register_task("ax")
@dataclass(frozen=True, kw_only=True)
class AX(MNLI):
    """The diagnostic set: sentences by linguists, for a model of MNLI."""

    source: ClassVar[str] = "Wang et al. 2018, 4; GLUE"
    columns: ClassVar[Columns] = Columns(
        ("sentence1", "Premise", "premise"), ("sentence2", "Hypothesis", "hypothesis"), ("Label", "label")
    )
    main_metric: ClassVar[str] = "matthews"
    metrics: ClassVar[tuple[str, ...]] = ("matthews", "accuracy")
    libraries: ClassVar[tuple[str, ...]] = ("sklearn",)
    trained_as: ClassVar[str | None] = "mnli"
