"""The tasks of GLUE: fixed columns and labels.

They read the benchmark's own TSVs, without quote parsing, and JSON lines and Parquet, where labels may be numbers.

Source: Wang et al. 2018 (GLUE); gluebenchmark.com/tasks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from cloze.data.reading.json_rows import as_text
from cloze.data.reading.tables import TableConfig
from cloze.tasks.families.sentence_vectors import SentenceVectors
from cloze.tasks.families.sequence_classification import ClassPrediction, SequenceClassification
from cloze.tasks.families.text_regression import ScoreScale, TextRegression
from cloze.tasks.registry import register_task
from cloze.tasks.texts import text_columns

_FORMAT = "GLUE's TSV; also JSON lines or Parquet"
_ENTAILMENT = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True)
class GlueClassification(SequenceClassification):
    """A classification task; the labels are in the order in which other programs number them."""

    data_format: ClassVar[str] = _FORMAT
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)

    labels: tuple[str, ...] = ("0", "1")

    def check_label(self, label: str, where: str) -> str:
        """Return the class of a label, which may be its number."""
        return super().check_label(self._label_name(label), where)

    def from_json(self, values: Mapping[str, Any]) -> ClassPrediction:
        """Read a label or its number; probabilities are optional."""
        label = as_text(values["label"])
        return super().from_json(values if label is None else {**values, "label": self._label_name(label)})

    def _label_name(self, label: str) -> str:
        """Return the name of a label that may be its number in the data set."""
        names = type(self)().labels  # a model of another program may have another order
        if label in names or not (label.isascii() and label.isdigit()):
            return label
        return names[int(label)] if int(label) < len(names) else label


@register_task("cola")
class CoLA(GlueClassification):
    """A sentence; 1 is acceptable to linguists. The training and dev files have no header."""

    data_format = "GLUE's TSV: source, label, the linguists' mark, sentence"
    source = "Warstadt et al. 2018; GLUE"
    columns = text_columns("sentence")
    header = ("source", "label", "mark", "sentence")
    metrics = ("matthews", "accuracy")


@register_task("sst2")
class SST2(GlueClassification):
    """A sentence or a part of one; 1 is positive."""

    source = "Socher et al. 2013; GLUE"
    columns = text_columns("sentence")


@register_task("mrpc")
class MRPC(GlueClassification):
    """Two sentences from news; 1 means paraphrase."""

    source = "Dolan and Brockett 2005; GLUE"
    columns = text_columns(("#1 String", "sentence1"), ("#2 String", "sentence2"), ("Quality", "label"))
    metrics = ("f1", "accuracy")


@dataclass(frozen=True, kw_only=True)
class _StsB(ScoreScale):
    """The columns and the scale of STS-B."""

    data_format: ClassVar[str] = _FORMAT
    columns = text_columns("sentence1", "sentence2", ("score", "label"))

    minimum: float | None = 0.0
    maximum: float | None = 5.0


@register_task("stsb")
class STSB(_StsB, TextRegression):
    """Two sentences from news, captions and forums, and their mean human score, from 0 to 5."""

    source = "Cer et al. 2017; GLUE"


@register_task("stsb-vectors")
class STSBVectors(_StsB, SentenceVectors):
    """Pairs of STS-B, scored from 0 to 5: the cosine of two sentences, each encoded alone."""

    source = "Cer et al. 2017; Reimers and Gurevych 2019, 4.2"


@register_task("qqp")
class QQP(GlueClassification):
    """Two questions from Quora; 1 means duplicate."""

    data_format = "GLUE's TSV, without the few rows that a line end broke; also JSON lines or Parquet"
    source = "Quora Question Pairs; GLUE"
    columns = text_columns("question1", "question2", ("is_duplicate", "label"))
    metrics = ("f1", "accuracy")

    def table(self, *, labeled: bool) -> TableConfig:
        """Return how tables are read: a few rows with more or fewer cells are left out."""
        return replace(super().table(labeled=labeled), skip_broken=labeled)


@register_task("mnli")
class MNLI(GlueClassification):
    """Premise and hypothesis; dev_matched has the genres of the training data, dev_mismatched others."""

    source = "Williams et al. 2018; GLUE"
    columns = text_columns(("sentence1", "premise"), ("sentence2", "hypothesis"), ("gold_label", "label"))
    train_files = ("train.tsv", "mnli.train.jsonl")
    dev_files = ("dev_matched.tsv", "mnli.valid.jsonl")

    labels: tuple[str, ...] = ("entailment", "neutral", "contradiction")


@register_task("ax")
class AX(MNLI):
    """The diagnostic set: sentences by linguists, for a model of MNLI."""

    source = "Wang et al. 2018, 4; GLUE"
    columns = text_columns(
        ("sentence1", "Premise", "premise"), ("sentence2", "Hypothesis", "hypothesis"), ("Label", "label")
    )
    metrics = ("matthews", "accuracy")
    trained_as = "mnli"


@register_task("qnli")
class QNLI(GlueClassification):
    """A question of SQuAD and a sentence of its paragraph."""

    source = "Rajpurkar et al. 2016; GLUE"
    columns = text_columns("question", "sentence")

    labels: tuple[str, ...] = _ENTAILMENT


@register_task("rte")
class RTE(GlueClassification):
    """A text from news or Wikipedia and a sentence."""

    source = "Dagan et al. 2006; Bentivogli et al. 2009; GLUE"
    columns = text_columns("sentence1", "sentence2")

    labels: tuple[str, ...] = _ENTAILMENT


@register_task("wnli")
class WNLI(GlueClassification):
    """Winograd schemas. Dev pairs repeat training sentences with the opposite label; the majority is hard to beat."""

    source = "Levesque et al. 2011; GLUE"
    columns = text_columns("sentence1", "sentence2")
