"""WNUT-17: new and rare names in posts and comments."""

from cloze.tasks.registry import register_task
from cloze.tasks.tagging import Tagging


@register_task("wnut17")
class WNUT17(Tagging):
    """Posts; the names of the dev and test sets are rare in the training set."""

    source = "Derczynski et al. 2017; score as conlleval"
    data_format = "two columns, a tab apart: a word and its tag"
    train_files = ("wnut17train.conll",)
    dev_files = ("emerging.dev.conll",)
