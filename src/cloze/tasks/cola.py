"""CoLA: is this sentence acceptable English?"""

from collections.abc import Iterator

from cloze.data.files import read_lines
from cloze.data.table_files import is_tsv
from cloze.remote_files import PathOrUrl
from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns, LabeledText

_HEADER = ("source", "label", "mark", "sentence")


@register_task("cola")
class CoLA(GlueClassification):
    """A sentence; 1 is acceptable to linguists. The training and dev files have no header."""

    data_format = "GLUE's TSV: source, label, the linguists' mark, sentence"
    source = "Warstadt et al. 2018; GLUE"
    columns = Columns("sentence")
    metrics = ("matthews", "accuracy")

    def examples(self, path: PathOrUrl, *, labeled: bool = True) -> Iterator[LabeledText]:
        """Read the rows of a table, with or without a header."""
        has_header = not is_tsv(path) or self.columns.text in next(read_lines(path), ("", ""))[0].split("\t")
        return self.read_table(path, labeled=labeled, header=None if has_header else _HEADER)
