"""CoNLL-2003: persons, places, organizations and other names in the news."""

from cloze.tasks.registry import register_task
from cloze.tasks.tagged_files import Context
from cloze.tasks.tagging import Tagging


@register_task("conll2003")
class CoNLL2003(Tagging):
    """Sentences of Reuters articles, each with as much of its article as fits, as in the paper.

    This costs 25 times as much as sentences alone (`context="sentence"` with `max_seq_length=128`). The paper chose
    batch size, rate and epochs on dev data and does not report them.
    """

    source = "Tjong Kim Sang and De Meulder 2003; Devlin et al. 2019, 5.3; score as conlleval"
    data_format = "four columns, the word first and the tag last; -DOCSTART- before each article"
    defaults = ("max_seq_length=512",)
    train_files = ("eng.train", "train.txt")
    dev_files = ("eng.testa", "valid.txt")

    context: Context = "document"
