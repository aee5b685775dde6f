"""WNLI: does the second sentence, in which a pronoun is replaced, follow from the first?"""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("wnli")
@dataclass(frozen=True, kw_only=True)
class WNLI(GlueClassification):
    """Winograd's riddles. The dev set turns labels of the training set round, so the majority is hard to beat."""

    source: ClassVar[str] = "Levesque et al. 2011; GLUE"
    columns: ClassVar[Columns] = Columns("sentence1", "sentence2")
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
