"""QNLI: does the sentence answer the question?"""

from cloze.tasks.glue import ENTAILMENT, GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("qnli")
class QNLI(GlueClassification):
    """A question of SQuAD and a sentence of its paragraph."""

    source = "Rajpurkar et al. 2016; GLUE"
    columns = Columns("question", "sentence")

    labels: tuple[str, ...] = ENTAILMENT
