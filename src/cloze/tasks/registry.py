"""The tasks by name: a reader, a kind of answer and metrics each, and their descriptions. To add a task, add an entry.

Source: Wang et al. 2018 (GLUE); gluebenchmark.com/tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cloze.data.reading.columns import Column
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.signatures import checks_arguments, field_descriptions
from cloze.suggestions import did_you_mean
from cloze.tasks.answers.choice import Choice
from cloze.tasks.answers.label_set import LabelSet
from cloze.tasks.answers.number import Number
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.answers.relevance import Relevance
from cloze.tasks.answers.span import Span, SpanOrNone
from cloze.tasks.answers.tags import Tags
from cloze.tasks.answers.vectors import Cosine, Retrieval
from cloze.tasks.questions import QuestionReader
from cloze.tasks.tagged_reader import TaggedReader
from cloze.tasks.task import Task
from cloze.tasks.texts import ChoiceReader, PassageReader, TextReader, TripletReader

_TABLE = "TSV, CSV, JSON lines or Parquet"
_GLUE = "GLUE's TSV; also JSON lines or Parquet"
_TAGGED = "words and tags in columns, CoNLL-U, tables, JSON or Parquet; or texts with spans in JSON"
_WORDS = "two columns, a tab apart: a word and its tag"
_SQUAD = "SQuAD's JSON, or a table with the columns question, context and answers"
_ENTAILMENT, _MNLI = ("entailment", "not_entailment"), ("entailment", "neutral", "contradiction")
_COSINE = ("batch_size=16", "epochs=4", "optimizer.learning_rate=2e-5")


@dataclass(frozen=True, kw_only=True)
class _CoLAReader(TextReader):
    """The training and dev files of CoLA have no header."""

    header: ClassVar[tuple[str, ...]] = ("source", "label", "mark", "sentence")


@dataclass(frozen=True, kw_only=True)
class _QQPReader(TextReader):
    """The files of QQP have a few rows that a line end broke."""

    skips_broken_rows = True


@dataclass(frozen=True, kw_only=True)
class _SWAGReader(ChoiceReader):
    """The first sentence is one segment, the second with an ending the other."""

    text_column: str = "sent1"
    choices_column: str = "sent2"
    choice_columns: tuple[str, ...] = ("ending0", "ending1", "ending2", "ending3")

    def columns(self) -> tuple[Column, ...]:
        return (*super().columns(), Column(self.choices_column))

    def choices(self, row: Row) -> list[str]:
        second = row.text(self.choices_column)
        return [f"{second} {row.text(ending)}".strip() for ending in self.choice_columns]


def _glue(
    name: str,
    about: str,
    source: str,
    reader: TextReader,
    labels: tuple[str, ...] = ("0", "1"),
    metrics: tuple[str, ...] = ("accuracy",),
    *,
    label: str = "label",
    **others: Any,
) -> Task:
    """Return a task of GLUE with labels in the order of their numbers in other programs."""
    answer = OneLabel(label_column=label, labels=labels, label_names=labels)
    return Task(name, about, f"{source}; GLUE", reader, answer, metrics, **{"data_format": _GLUE, **others})


def _squad_files(split: str, version: str) -> tuple[str, ...]:
    return (*(f"{split}-{version}.json{suffix}" for suffix in ("", ".xz", ".gz")), f"{split}.json")


_PREMISES = TextReader(text_column="sentence1|premise|Premise", pair_column="sentence2|hypothesis|Hypothesis")
_SENTENCES = TextReader(text_column="sentence1", pair_column="sentence2")

# fmt: off
_OWN = (
    Task("classification", "Texts or pairs with a label each.", "your own data; Devlin et al. 2019, 4.1",
         TextReader(), OneLabel(), data_format=f"{_TABLE}: a text, or two, and a label"),
    Task("multi-label", "Texts or pairs with any number of labels.", "your own data", TextReader(), LabelSet(),
         data_format="as classification: a cell with labels parted by a comma, a list, or a 0/1 column per label"),
    Task("regression", "Texts or pairs with a number each.", "your own data; Devlin et al. 2019, 4.1 (STS-B)",
         TextReader(), Number(), data_format=f"{_TABLE}: a text, or two, and a number"),
    Task("scored-pairs", "Pairs of texts with a similarity score each, which the cosine of their vectors learns.",
         "your own data; Reimers and Gurevych 2019, 3",
         TextReader(text_column="text|sentence1", pair_column="pair|sentence2"), Cosine(),
         data_format=f"{_TABLE}: two texts and a number", defaults=_COSINE),
    Task("text-pairs", "Pairs of texts that belong together: the vector of the first finds that of the second.",
         "your own data; Henderson et al. 2017, 4.4", TripletReader(), Retrieval(),
         data_format=f"{_TABLE}: two texts that belong together; a column negative is optional",
         defaults=("batch_size=64", "optimizer.learning_rate=2e-5")),
    Task("ranking", "Queries and passages with a relevance each; a query's candidates are all rows with its text.",
         "your own data; Nogueira and Cho 2019", PassageReader(), Relevance(),
         data_format=f"{_TABLE}: a query, a passage, its relevance from 0"),
    Task("multiple-choice", "Prompts with any number of choices. A label is the index of a choice, from 0.",
         "your own data; Devlin et al. 2019, 4.4", ChoiceReader(), Choice(),
         data_format=f"{_TABLE}: a text, a list of choices, the number of the right one"),
    Task("tagging", "Tagged words in CoNLL columns.", "your own data; Devlin et al. 2019, 5.3; score as conlleval",
         TaggedReader(), Tags(), data_format=_TAGGED, train_files=("train.conll", "train.txt", "train.tsv"),
         dev_files=("dev.conll", "valid.txt", "dev.txt", "dev.tsv")),
)
_BENCHMARKS = (
    _glue("cola", "A sentence; 1 is acceptable to linguists. The training and dev files have no header.",
          "Warstadt et al. 2018", _CoLAReader(text_column="sentence"), metrics=("matthews", "accuracy"),
          data_format="GLUE's TSV: source, label, the linguists' mark, sentence"),
    _glue("sst2", "A sentence or a part of one; 1 is positive.", "Socher et al. 2013",
          TextReader(text_column="sentence")),
    _glue("mrpc", "Two sentences from news; 1 means paraphrase.", "Dolan and Brockett 2005",
          TextReader(text_column="#1 String|sentence1", pair_column="#2 String|sentence2"),
          metrics=("f1", "accuracy"), label="Quality|label"),
    Task("stsb", "Two sentences from news, captions and forums, and their mean human score, from 0 to 5.",
         "Cer et al. 2017; GLUE", _SENTENCES, Number(label_column="score|label", minimum=0.0, maximum=5.0),
         data_format=_GLUE),
    Task("stsb-vectors", "Pairs of STS-B, scored from 0 to 5: the cosine of two sentences, each encoded alone.",
         "Cer et al. 2017; Reimers and Gurevych 2019, 4.2", _SENTENCES,
         Cosine(label_column="score|label", minimum=0.0, maximum=5.0), data_format=_GLUE, defaults=_COSINE),
    _glue("qqp", "Two questions from Quora; 1 means duplicate.", "Quora Question Pairs",
          _QQPReader(text_column="question1", pair_column="question2"), metrics=("f1", "accuracy"),
          label="is_duplicate|label",
          data_format="GLUE's TSV, without the few rows that a line end broke; also JSON lines or Parquet"),
    _glue("mnli", "Premise and hypothesis; dev_matched has the genres of the training data, dev_mismatched others.",
          "Williams et al. 2018", _PREMISES, _MNLI, label="gold_label|label",
          train_files=("train.tsv", "mnli.train.jsonl"), dev_files=("dev_matched.tsv", "mnli.valid.jsonl")),
    _glue("ax", "The diagnostic set: sentences by linguists, for a model of MNLI.", "Wang et al. 2018, 4",
          _PREMISES, _MNLI, ("matthews", "accuracy"), label="Label|label", trained_as="mnli"),
    _glue("qnli", "A question of SQuAD and a sentence of its paragraph.", "Rajpurkar et al. 2016",
          TextReader(text_column="question", pair_column="sentence"), _ENTAILMENT),
    _glue("rte", "A text from news or Wikipedia and a sentence.", "Dagan et al. 2006; Bentivogli et al. 2009",
          _SENTENCES, _ENTAILMENT),
    _glue("wnli", "Winograd schemas. Dev pairs repeat training sentences with the opposite label.",
          "Levesque et al. 2011", _SENTENCES),
    Task("squad_v1", "Every question has an answer (Rajpurkar et al. 2016; Devlin et al. 2019, 4.2).",
         "SQuAD 1.1, or your own file; Devlin et al. 2019, 4.2; score as evaluate-v1.1.py",
         QuestionReader(), Span(), data_format=_SQUAD, defaults=("max_seq_length=384",),
         train_files=_squad_files("train", "v1.1"), dev_files=_squad_files("dev", "v1.1")),
    Task("squad_v2", "A question may have no answer (Rajpurkar et al. 2018; Devlin et al. 2019, 4.3).",
         "SQuAD 2.0, or your own file; Devlin et al. 2019, 4.3; score as evaluate-v2.0.py",
         QuestionReader(), SpanOrNone(), data_format=_SQUAD,
         defaults=("max_seq_length=384", "batch_size=48", "epochs=2"),
         train_files=_squad_files("train", "v2.0"), dev_files=_squad_files("dev", "v2.0")),
    Task("swag", "A sentence about a video and the beginning of the next one, with four endings.",
         "Zellers et al. 2018; Devlin et al. 2019, 4.4", _SWAGReader(), Choice(),
         data_format="CSV: sent1, sent2, ending0 to ending3, label; also JSON lines or Parquet",
         defaults=("batch_size=16", "optimizer.learning_rate=2e-5"),
         train_files=("train.csv",), dev_files=("val.csv",)),
    Task("conll2003", "Sentences of Reuters articles, each with as much of its article as fits, as in the paper.",
         "Tjong Kim Sang and De Meulder 2003; Devlin et al. 2019, 5.3; score as conlleval",
         TaggedReader(context="document"), Tags(), defaults=("max_seq_length=512",),
         data_format="four columns, the word first and the tag last; -DOCSTART- before each article",
         train_files=("eng.train", "train.txt"), dev_files=("eng.testa", "valid.txt")),
    Task("wnut17", "Posts; the names of the dev and test sets are rare in the training set.",
         "Derczynski et al. 2017; score as conlleval", TaggedReader(), Tags(), data_format=_WORDS,
         train_files=("wnut17train.conll",), dev_files=("emerging.dev.conll",)),
    Task("gum", "Sentences of news, guides and interviews; the entities are phrases and names, of eleven types.",
         "Zeldes 2017; score as conlleval", TaggedReader(), Tags(), data_format=_WORDS,
         train_files=("gum-train.conll", "train/gum-train.conll"),
         dev_files=("gum-test.conll", "test/gum-test.conll")),
)
# fmt: on
TASKS: dict[str, Task] = {task.name: task for task in (*_OWN, *_BENCHMARKS)}


@checks_arguments()
def register_task(task: Task) -> Task:
    """Make a task known by its name, which is new, to all verbs and classes; return it."""
    if task.name in TASKS:
        raise ValueError(f"there is a task {task.name!r} already")
    TASKS[task.name] = task
    return task


@checks_arguments()
def find_task(name: str, *, where: object = None, others: Iterable[str] = ()) -> Task:
    """Return the task called `name`; the error for an unknown one may also suggest `others`."""
    if name not in TASKS:
        remedy = did_you_mean(name, sorted({*TASKS, *others}), full_list="cloze tasks")
        raise InputError(f"no task {name!r}", where=where, remedy=remedy)
    return TASKS[name]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSetting:
    """A setting of a task."""

    default: Any
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskDescription:
    """What a task reads and measures, and its settings."""

    task: str
    summary: str
    data: str
    """The files it reads, in a few words."""
    train: tuple[str, ...]
    """Possible names of the training file in a directory of data."""
    dev: tuple[str, ...]
    """Possible names of the dev file."""
    metrics: tuple[str, ...]
    """The first selects the best epoch and run."""
    source: str
    settings: Mapping[str, TaskSetting]
    """By dotted key, as in "classification.text_column"."""
    defaults: tuple[str, ...]
    """Settings of a run that differ from GLUE's."""


def describe_task(task: Task) -> TaskDescription:
    """Return what a task reads and measures, and its settings with their defaults and docstrings."""
    texts = field_descriptions(type(task.reader)) | field_descriptions(type(task.answer))
    return TaskDescription(
        task=task.name,
        summary=task.about,
        data=task.data_format,
        train=task.train_files,
        dev=task.dev_files,
        metrics=task.metrics,
        source=task.source,
        settings={
            f"{task.name}.{name}": TaskSetting(default=value, description=texts[name])
            for name, value in task.settings.items()
        },
        defaults=task.defaults,
    )
