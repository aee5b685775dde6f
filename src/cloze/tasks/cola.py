"""CoLA: is this sentence acceptable English?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cloze.stores import Place
from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.tables import is_tsv, read_lines
from cloze.tasks.texts import Columns, LabelledText, read_texts

_HEADER = ("source", "label", "mark", "sentence")


@register_task("cola")
@dataclass(frozen=True, kw_only=True)
class CoLA(GlueClassification):
    """A sentence, 1 where linguists take it as acceptable. Its training and dev files have no first line of names."""

    data_format: ClassVar[str] = "GLUE's TSV: source, label, the linguists' mark, sentence"
    source: ClassVar[str] = "Warstadt et al. 2018; GLUE"
    columns: ClassVar[Columns] = Columns("sentence")
    main_metric: ClassVar[str] = "matthews"
    metrics: ClassVar[tuple[str, ...]] = ("matthews", "accuracy")
    libraries: ClassVar[tuple[str, ...]] = ("sklearn",)

    def _rows(self, path: Place, *, labelled: bool) -> Iterator[LabelledText]:
        has_names = not is_tsv(path) or self.columns.text in next(read_lines(path), ("", ""))[0].split("\t")
        return read_texts(path, self.columns, labelled=labelled, header=None if has_names else _HEADER)
