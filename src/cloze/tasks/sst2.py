"""SST-2: is this sentence of a film review positive?"""

from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("sst2")
class SST2(GlueClassification):
    """A sentence or a part of one; 1 is positive."""

    source = "Socher et al. 2013; GLUE"
    columns = Columns("sentence")
