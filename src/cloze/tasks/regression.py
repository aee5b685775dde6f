"""Your own texts, or pairs of texts, with a number each."""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.registry import register_task
from cloze.tasks.text_regression import TextRegression
from cloze.tasks.texts import OwnTexts


@register_task("regression")
@dataclass(frozen=True, kw_only=True)
class Regression(OwnTexts, TextRegression):
    """The ends of the scale are found in the training data."""

    data_format: ClassVar[str] = "TSV, CSV, JSON lines or Parquet: a text, or two, and a number"
    source: ClassVar[str] = "your own data; Devlin et al. 2019, 4.1 (STS-B)"
