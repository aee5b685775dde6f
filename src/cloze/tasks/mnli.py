"""MNLI: does the first sentence entail or contradict the second, or neither? And AX, answered by MNLI's models."""

from cloze.tasks.glue import GlueClassification
from cloze.tasks.registry import register_task
from cloze.tasks.texts import Columns


@register_task("mnli")
class MNLI(GlueClassification):
    """Premise and hypothesis; dev_matched has the genres of the training data, dev_mismatched others."""

    source = "Williams et al. 2018; GLUE"
    columns = Columns(("sentence1", "premise"), ("sentence2", "hypothesis"), ("gold_label", "label"))
    train_files = ("train.tsv", "mnli.train.jsonl")
    dev_files = ("dev_matched.tsv", "mnli.valid.jsonl")

    labels: tuple[str, ...] = ("entailment", "neutral", "contradiction")


@register_task("ax")
class AX(MNLI):
    """The diagnostic set: sentences by linguists, for a model of MNLI."""

    source = "Wang et al. 2018, 4; GLUE"
    columns = Columns(
        ("sentence1", "Premise", "premise"), ("sentence2", "Hypothesis", "hypothesis"), ("Label", "label")
    )
    metrics = ("matthews", "accuracy")
    trained_as = "mnli"
