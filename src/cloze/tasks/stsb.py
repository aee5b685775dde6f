"""STS-B: how similar in meaning are the two sentences, from 0 to 5?"""

from cloze.tasks.glue import GlueTexts
from cloze.tasks.registry import register_task
from cloze.tasks.text_regression import TextRegression
from cloze.tasks.texts import Columns


@register_task("stsb")
class STSB(GlueTexts, TextRegression):
    """Two sentences from news, captions and forums, and their mean human score."""

    source = "Cer et al. 2017; GLUE"
    columns = Columns("sentence1", "sentence2", ("score", "label"))

    minimum: float | None = 0.0
    maximum: float | None = 5.0
