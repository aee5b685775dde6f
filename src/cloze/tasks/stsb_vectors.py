"""STS-B by sentence vectors: the cosine of two sentences, each encoded alone."""

from cloze.tasks.glue import GlueTexts
from cloze.tasks.registry import register_task
from cloze.tasks.sentence_vectors import SentenceVectors
from cloze.tasks.texts import Columns


@register_task("stsb-vectors")
class STSBVectors(GlueTexts, SentenceVectors):
    """Pairs of STS-B, scored from 0 to 5."""

    source = "Cer et al. 2017; Reimers and Gurevych 2019, 4.2"
    columns = Columns("sentence1", "sentence2", ("score", "label"))

    minimum: float | None = 0.0
    maximum: float | None = 5.0
