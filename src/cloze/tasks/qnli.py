"""QNLI: does this sentence answer the question?"""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.glue import ENTAILMENT, GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("qnli")
@dataclass(frozen=True, kw_only=True)
class QNLI(GlueClassification):
    """A question of SQuAD's and a sentence of its paragraph."""

    source: ClassVar[str] = "Rajpurkar et al. 2016; GLUE"
    columns: ClassVar[Columns] = Columns("question", "sentence")
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)

    labels: tuple[str, ...] = ENTAILMENT
