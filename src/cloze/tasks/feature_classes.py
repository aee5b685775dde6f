"""Your own texts, or pairs of texts, with a label each, told by the vectors of a frozen encoder."""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.feature_classification import FeatureClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import OwnTexts


@register_task("feature-classification")
@dataclass(frozen=True, kw_only=True)
class FeatureClasses(OwnTexts, FeatureClassification):
    """The labels are found in the training data."""

    data_format: ClassVar[str] = "TSV, CSV, JSON lines or Parquet: a text, or two, and a label"
    source: ClassVar[str] = "your own data; Devlin et al. 2019, 5.3, with a linear model"
