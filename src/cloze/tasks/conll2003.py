"""CoNLL-2003: persons, places, organisations and other names in the news."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloze.tasks.registry import register_task
from cloze.tasks.tagging import Context, Tagging
from cloze.tasks.task import Split


@register_task("conll2003")
@dataclass(frozen=True, kw_only=True)
class CoNLL2003(Tagging):
    """Sentences of Reuters articles, which the model sees with as much of the article as fits, as in the paper.

    That is 25 times the work of reading them alone, which `context="sentence"` and `max_seq_length=128` ask for. The
    paper found batch size, rate and epochs on dev data, and does not name them.
    """

    source: ClassVar[str] = "Tjong Kim Sang and De Meulder 2003; Devlin et al. 2019, 5.3; score as conlleval"
    data_format: ClassVar[str] = (
        "four columns, the word first and the tag last; -DOCSTART- before each article"
    )
    defaults: ClassVar[tuple[str, ...]] = ("max_seq_length=512",)
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = MappingProxyType(
        {"train": ("eng.train", "train.txt"), "dev": ("eng.testa", "valid.txt")}
    )

    context: Context = "document"
