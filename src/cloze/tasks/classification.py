"""Your own texts, or pairs of texts, with a label each."""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.registry import register_task
from cloze.tasks.sequence_classification import SequenceClassification
from cloze.tasks.texts import OwnTexts


@register_task("classification")
@dataclass(frozen=True, kw_only=True)
class Classification(OwnTexts, SequenceClassification):
    """The labels are found in the training data."""

    data_format: ClassVar[str] = "TSV, CSV, JSON lines or Parquet: a text, or two, and a label"
    source: ClassVar[str] = "your own data; Devlin et al. 2019, 4.1"
