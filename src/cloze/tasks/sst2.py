"""SST-2: does this sentence of a film review speak well of the film?"""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("sst2")
@dataclass(frozen=True, kw_only=True)
class SST2(GlueClassification):
    """A sentence, or a part of one, and 1 where it is positive."""

    source: ClassVar[str] = "Socher et al. 2013; GLUE"
    columns: ClassVar[Columns] = Columns("sentence")
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
