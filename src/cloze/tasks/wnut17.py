"""WNUT-17: new and rare names in posts and comments."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloze.tasks.registry import register_task
from cloze.tasks.tagging import Tagging
from cloze.tasks.task import Split


@register_task("wnut17")
@dataclass(frozen=True, kw_only=True)
class WNUT17(Tagging):
    """Posts, whose names in the dev and test sets hardly occur in the training set."""

    source: ClassVar[str] = "Derczynski et al. 2017; score as conlleval"
    data_format: ClassVar[str] = "two columns, a tab apart: a word and its tag"
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = MappingProxyType(
        {"train": ("wnut17train.conll",), "dev": ("emerging.dev.conll",)}
    )
