"""RTE: does the first text entail the second?"""

from cloze.tasks.glue import ENTAILMENT, GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("rte")
class RTE(GlueClassification):
    """A text from news or Wikipedia and a sentence."""

    source = "Dagan et al. 2006; Bentivogli et al. 2009; GLUE"
    columns = Columns("sentence1", "sentence2")

    labels: tuple[str, ...] = ENTAILMENT
