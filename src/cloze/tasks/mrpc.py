"""MRPC: do the two sentences mean the same?"""

from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("mrpc")
class MRPC(GlueClassification):
    """Two sentences from news; 1 means paraphrase."""

    source = "Dolan and Brockett 2005; GLUE"
    columns = Columns(("#1 String", "sentence1"), ("#2 String", "sentence2"), ("Quality", "label"))
    metrics = ("f1", "accuracy")
