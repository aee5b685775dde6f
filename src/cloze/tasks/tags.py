"""Your own tagged words: any file in CoNLL's columns."""

from dataclasses import dataclass
from typing import ClassVar

from cloze.tasks.registry import register_task
from cloze.tasks.tagging import Tagging


@register_task("tagging")
@dataclass(frozen=True, kw_only=True)
class OwnTags(Tagging):
    """The columns are settings; labels and scheme are found in the training data."""

    source: ClassVar[str] = "your own data; Devlin et al. 2019, 5.3; score as conlleval"
