"""WNLI: does the second sentence, in which a pronoun is replaced, follow from the first?"""

from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("wnli")
class WNLI(GlueClassification):
    """Winograd schemas. Dev pairs repeat training sentences with the opposite label; the majority is hard to beat."""

    source = "Levesque et al. 2011; GLUE"
    columns = Columns("sentence1", "sentence2")
