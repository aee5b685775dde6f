"""GUM: things, places, persons and eight other types, in texts of several genres."""

from cloze.tasks.registry import register_task
from cloze.tasks.tagging import Tagging


@register_task("gum")
class GUM(Tagging):
    """Sentences of news, guides and interviews; the entities are phrases as well as names."""

    source = "Zeldes 2017; score as conlleval"
    data_format = "two columns, a tab apart: a word and its tag"
    train_files = ("gum-train.conll", "train/gum-train.conll")
    dev_files = ("gum-test.conll", "test/gum-test.conll")
