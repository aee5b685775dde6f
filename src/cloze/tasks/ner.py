"""Benchmarks of names and other entities: CoNLL-2003, WNUT-17 and GUM."""

from cloze.tasks.families.tagging import Tagging
from cloze.tasks.registry import register_task
from cloze.tasks.tagging_formats.settings import Context

_TWO_COLUMNS = "two columns, a tab apart: a word and its tag"


@register_task("conll2003")
class CoNLL2003(Tagging):
    """Sentences of Reuters articles, each with as much of its article as fits, as in the paper.

    The entities are persons, places, organizations and other names in the news.

    This costs 25 times as much as sentences alone (`context="sentence"` with `max_seq_length=128`). The paper chose
    batch size, rate and epochs on dev data and does not report them.
    """

    source = "Tjong Kim Sang and De Meulder 2003; Devlin et al. 2019, 5.3; score as conlleval"
    data_format = "four columns, the word first and the tag last; -DOCSTART- before each article"
    defaults = ("max_seq_length=512",)
    train_files = ("eng.train", "train.txt")
    dev_files = ("eng.testa", "valid.txt")

    context: Context = "document"


@register_task("wnut17")
class WNUT17(Tagging):
    """Posts; the names of the dev and test sets are rare in the training set."""

    source = "Derczynski et al. 2017; score as conlleval"
    data_format = _TWO_COLUMNS
    train_files = ("wnut17train.conll",)
    dev_files = ("emerging.dev.conll",)


@register_task("gum")
class GUM(Tagging):
    """Sentences of news, guides and interviews; the entities are phrases as well as names, of eleven types."""

    source = "Zeldes 2017; score as conlleval"
    data_format = _TWO_COLUMNS
    train_files = ("gum-train.conll", "train/gum-train.conll")
    dev_files = ("gum-test.conll", "test/gum-test.conll")
