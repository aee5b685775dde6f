"""Tagged words, learned from what a frozen BERT says of them: any file in CoNLL's columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloze.tasks.feature_tagging import FeatureTagging
from cloze.tasks.registry import register_task
from cloze.tasks.task import Split


@register_task("feature-tagging")
@dataclass(frozen=True, kw_only=True)
class FeatureTags(FeatureTagging):
    """CoNLL-2003 as in table 7 of the paper, or your own data."""

    source: ClassVar[str] = "Devlin et al. 2019, table 7; score as conlleval"
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = MappingProxyType(
        {
            "train": ("train.conll", "train.txt", "eng.train", "wnut17train.conll"),
            "dev": ("dev.conll", "valid.txt", "eng.testa", "emerging.dev.conll"),
        }
    )
