"""GUM: things, places, persons and eight other types that texts of several genres mention."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloze.tasks.registry import register_task
from cloze.tasks.tagging import Tagging
from cloze.tasks.task import Split


@register_task("gum")
@dataclass(frozen=True, kw_only=True)
class GUM(Tagging):
    """Sentences of news, guides and interviews; their entities are phrases as much as names."""

    source: ClassVar[str] = "Zeldes 2017; score as conlleval"
    data_format: ClassVar[str] = "two columns, a tab apart: a word and its tag"
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = MappingProxyType(
        {
            "train": ("gum-train.conll", "train/gum-train.conll"),
            "dev": ("gum-test.conll", "test/gum-test.conll"),
        }
    )
