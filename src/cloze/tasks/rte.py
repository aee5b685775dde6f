"""RTE: does the first text entail the second?"""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.glue import ENTAILMENT, GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("rte")
@dataclass(frozen=True, kw_only=True)
class RTE(GlueClassification):
    """A text from news or Wikipedia and a sentence."""

    source: ClassVar[str] = "Dagan et al. 2006; Bentivogli et al. 2009; GLUE"
    columns: ClassVar[Columns] = Columns("sentence1", "sentence2")
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)

    labels: tuple[str, ...] = ENTAILMENT
