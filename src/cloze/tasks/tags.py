"""Your own tagged words: any file in CoNLL's columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloze.tasks.registry import register_task
from cloze.tasks.tagging import Tagging
from cloze.tasks.task import Split


@register_task("tagging")
@dataclass(frozen=True, kw_only=True)
class OwnTags(Tagging):
    """The columns are settings; labels and scheme are found in the training data."""

    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = MappingProxyType(
        {
            "train": ("train.conll", "train.txt", "train.tsv"),
            "dev": ("dev.conll", "valid.txt", "dev.txt", "dev.tsv"),
        }
    )
    source: ClassVar[str] = "your own data; Devlin et al. 2019, 5.3; score as conlleval"
