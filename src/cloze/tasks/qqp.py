"""QQP: do the two questions ask the same?"""

from collections.abc import Iterator

from cloze.remote_files import PathOrUrl
from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns, LabeledText


@register_task("qqp")
class QQP(GlueClassification):
    """Two questions from Quora; 1 means duplicate."""

    data_format = "GLUE's TSV, without the few rows that a line end broke; also JSON lines or Parquet"
    source = "Quora Question Pairs; GLUE"
    columns = Columns("question1", "question2", ("is_duplicate", "label"))
    metrics = ("f1", "accuracy")

    def examples(self, path: PathOrUrl, *, labeled: bool = True) -> Iterator[LabeledText]:
        """Read the rows of a table, without broken ones."""
        return self.read_table(path, labeled=labeled, skip_broken=labeled)
