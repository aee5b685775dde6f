"""Four examples of each task, and the outputs of a perfect model for each family."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import cloze
from cloze.tasks.answers.choice import Choice
from cloze.tasks.answers.label_set import LabelSet
from cloze.tasks.answers.number import Number
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.answers.relevance import Relevance
from cloze.tasks.answers.span import Span
from cloze.tasks.answers.tags import Tags
from cloze.tasks.answers.vectors import Cosine, Retrieval
from cloze.tasks.features import TextFeature
from cloze.tasks.task_batch import Array
from helpers import task_of

REVIEWS = task_of("classification", text_column="review", label_column="liked")
"""The task of the fixture `reviews`."""
TEXTS = (
    ("the film was very , very good .", "very fine ."),
    ("a bad book", "awful , awful"),
    ("fine", "good ."),
    ("awful", "bad"),
)


def tokens_of(tokenizer: cloze.Tokenizer, sequence: Any) -> str:
    """Return the tokens of a sequence, or of the only one of a feature, separated by spaces."""
    [sequence] = getattr(sequence, "sequences", [sequence])
    return " ".join(tokenizer.tokens[i] for i in sequence.input_ids)


@dataclass(frozen=True)
class Case:
    """A file of four examples, of good and bad things in turn."""

    file: str
    content: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Other files in the same directory."""
    perfect: float = 1.0
    """The perfect score; some official programs use percent."""


def table(names: str, *labels: object, before: tuple[str, ...] = ()) -> str:
    """Return a TSV of texts or pairs; the last columns of `names` are those of texts and label."""
    columns = names.split("|")
    rows = []
    for pair, label in zip(TEXTS, labels, strict=True):
        texts = pair[: len(columns) - 1 - len(before)]
        rows.append("\t".join([*before, *texts, str(label)]))
    return "\n".join(["\t".join(columns), *rows]) + "\n"


def json_lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def swag() -> str:
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
    rows = [
        f'{i},v,{i},x,"{a} ,",the,gold,' + ",".join([b if j == i else "book" for j in range(4)]) + f",{i}"
        for i, (a, b) in enumerate((a, b.replace(",", ".")) for a, b in TEXTS)
    ]
    return "\n".join([header, *rows]) + "\n"


def questions() -> str:
    choices = ([b for _, b in TEXTS[:2]], ["the", TEXTS[1][1]], [".", "a", TEXTS[2][1]], ["bad", "book"])
    rows = zip(TEXTS, choices, (0, 1, 2, 0), strict=True)
    return json_lines(*({"prompt": a, "choices": texts, "label": label} for (a, _), texts, label in rows))


def squad(*answers: str | None) -> str:
    """Return two questions on each of two texts; None: no answer."""
    contexts = ["the film was very good , a bad book was awful .", "fine , fine . the book was a bad film ."]
    asked = ["was the film good", "a book", "was the film awful", "very , very bad"]
    paragraphs = [{"context": context, "qas": []} for context in contexts]
    for i, (question, answer) in enumerate(zip(asked, answers, strict=True)):
        context = contexts[i // 2]
        known = [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}]
        paragraphs[i // 2]["qas"].append({"id": f"q{i}", "question": question, "answers": known})
    return json.dumps({"version": "1", "data": [{"title": "x", "paragraphs": paragraphs}]})


def columns(separator: str = "\t", *, marks: bool = False) -> str:
    """Return CoNLL columns with words of praise and blame as entities of two types."""
    kinds = {"good": "GOOD", "fine": "GOOD", "bad": "BAD", "awful": "BAD"}
    sentences = []
    for a, b in TEXTS:
        lines = []
        for word in f"{a} {b}".split():
            tag = f"B-{kinds[word]}" if word in kinds else "O"
            lines.append(f"{word}{separator}X{separator}{tag}\n")
        sentences.append(("-DOCSTART- X O\n\n" if marks else "") + "".join(lines))
    return "\n".join(sentences)


def rankings() -> str:
    """Return two queries, each with a good passage and a bad one."""
    rows = zip(("the film", "the film", "a book", "a book"), TEXTS, (2, 0, 1, 0), strict=True)
    return json_lines(*({"query": q, "passage": f"{a} {b}", "label": label} for q, (a, b), label in rows))


ENTAILS = ("entailment", "not_entailment") * 2
CASES = {
    "classification": Case(
        "a.tsv",
        table("said|then|kind", "up", "down", "up", "down"),
        {"text_column": "said", "pair_column": "then", "label_column": "kind"},
    ),
    "regression": Case("a.tsv", table("text|label", 9, -2, 7.5, 0)),
    "multi-label": Case("a.tsv", table("text|labels", "up, calm", "down", "up", "calm,down")),
    "multiple-choice": Case("a.jsonl", questions()),
    "cola": Case("a.tsv", "".join(f"x\t{1 - i % 2}\t\t{a}\n" for i, (a, _) in enumerate(TEXTS))),
    "sst2": Case("a.tsv", table("sentence|label", 1, 0, 1, 0)),
    "mrpc": Case("a.tsv", table("#1 String|#2 String|Quality", 1, 0, 1, 0)),
    "qqp": Case("a.tsv", table("id|question1|question2|is_duplicate", 1, 0, 1, 0, before=("7",))),
    "mnli": Case(
        "a.tsv",
        table("sentence1|sentence2|gold_label", "entailment", "contradiction", "entailment", "neutral"),
    ),
    "ax": Case("a.tsv", table("Premise|Hypothesis|Label", "entailment", "neutral", "entailment", "neutral")),
    "qnli": Case("a.tsv", table("question|sentence|label", *ENTAILS)),
    "rte": Case("a.tsv", table("sentence1|sentence2|label", *ENTAILS)),
    "wnli": Case("a.tsv", table("sentence1|sentence2|label", 1, 0, 1, 0)),
    "stsb": Case("a.tsv", table("sentence1|sentence2|score", 5, "0.000", "4.2", 1.25)),
    "scored-pairs": Case("a.tsv", table("text|pair|score", 9, -2, 7.5, 0)),
    "stsb-vectors": Case("a.tsv", table("sentence1|sentence2|score", 5, "0.000", "4.2", 1.25)),
    "text-pairs": Case("a.tsv", "text\tpair\n" + "".join(f"{a}\t{b}\n" for a, b in TEXTS)),
    "ranking": Case("a.jsonl", rankings()),
    "swag": Case("a.csv", swag()),
    "squad_v1": Case("a.json", squad("very good", "awful", "fine , fine", "book"), perfect=100),
    "squad_v2": Case("a.json", squad("very good", None, "fine", None), perfect=100),
    "tagging": Case("a.conll", columns(), perfect=100),
    "conll2003": Case("a.conll", columns(" ", marks=True), perfect=100),
    "wnut17": Case("a.conll", columns(), perfect=100),
    "gum": Case("a.conll", columns(), perfect=100),
}
"""By the name of the task."""


def write_case(name: str, directory: Path) -> tuple[cloze.Task, Path]:
    """Write the examples of a task to a file; return both."""
    case = CASES[name]
    path = directory / case.file
    path.write_text(case.content, "utf-8")
    return task_of(name, **case.settings), path


def one_hot(count: int, targets: Any) -> Array:
    """Return logits of 9 for the targets, 0 for others."""
    return 9 * np.eye(count, dtype=np.float32)[targets]


def same_vectors(answer: Retrieval, feature: TextFeature) -> Array:
    """Return two equal vectors, other ones for another second text."""
    vector = np.random.default_rng(feature.sequences[1].input_ids).standard_normal(8).astype(np.float32)
    return np.tile(vector / np.linalg.norm(vector), (2, 1))


GOLD_OUTPUTS: dict[type, Callable[[Any, Any], Array]] = {
    OneLabel: lambda answer, feature: one_hot(len(answer.labels), feature.target),
    Number: lambda answer, feature: np.array([feature.target], np.float32),
    LabelSet: lambda answer, feature: 2 * one_hot(len(answer.labels), feature.target).max(0) - 9,
    Choice: lambda answer, feature: one_hot(len(feature.sequences), feature.target),
    Relevance: lambda answer, feature: np.array([9 * (2 * feature.target - 1)], np.float32),
    Cosine: lambda answer, feature: np.array([feature.target], np.float32),
    Retrieval: same_vectors,
    Span: lambda answer, feature: one_hot(feature.num_tokens, list(feature.target)).T,
    Tags: lambda answer, feature: one_hot(len(answer.labels), feature.targets),
}
"""The output of a perfect model for a feature, by kind of answer."""


def kind_of(task: cloze.Task) -> type:
    """Return the class in `GOLD_OUTPUTS` of a task's answer."""
    return next(kind for kind in GOLD_OUTPUTS if isinstance(task.answer, kind))


def gold_output(task: cloze.Task, feature: Any) -> Array:
    """Return the output of a perfect model for a feature."""
    return GOLD_OUTPUTS[kind_of(task)](task.answer, feature)


FIRST_TASKS = {kind_of(cloze.find_task(name)): name for name in reversed(CASES)}
FAMILIES = sorted({*FIRST_TASKS.values(), "squad_v2"})
"""The first task of each kind of answer: the others differ in data and scores only. SQuAD 2.0 may have no answer."""
