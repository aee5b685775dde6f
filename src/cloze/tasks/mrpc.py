"""MRPC: do these two sentences say the same?"""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("mrpc")
@dataclass(frozen=True, kw_only=True)
class MRPC(GlueClassification):
    """Two sentences from news, 1 where they are paraphrases."""

    source: ClassVar[str] = "Dolan and Brockett 2005; GLUE"
    columns: ClassVar[Columns] = Columns(
        ("#1 String", "sentence1"), ("#2 String", "sentence2"), ("Quality", "label")
    )
    main_metric: ClassVar[str] = "f1"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "accuracy")
    libraries: ClassVar[tuple[str, ...]] = ("sklearn",)
