"""The pipeline of `cloze demo`: vocabulary, corpus, pre-training, fine-tuning, answers.

Each stage calls the function of its verb with the same settings, and prints the verb's command line. Two minutes of
pre-training make a weak encoder, so cloze-mini is asked the same questions, and is the one that is fine-tuned. Steps,
seeds, device and number format are fixed: a slow or busy machine takes longer and has the same results.
"""

import shlex
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cloze import artifacts, file_io
from cloze.api.datasets import build_dataset
from cloze.api.finetuning import finetune
from cloze.api.pretraining import pretrain
from cloze.api.vocabularies import train_vocabulary
from cloze.demo.novels import NOVELISTS, Novel, read_chapters, split_passages
from cloze.inference.pretrained_heads import FillMask, NextSentence
from cloze.inference.text_predictors import TextClassifier
from cloze.parallel_map import AnyWorkers
from cloze.progress import SILENT, Progress, format_duration
from cloze.reports.run_report import write_report
from cloze.tasks.texts import LabeledText

BUNDLED_MODEL = "cloze-mini"
MASKED_TEXTS = (
    "He opened the [MASK] and went into the room.",
    "She shook her [MASK] and said nothing.",
    'I do not [MASK] what you mean," he said.',
    "It was a dark and cold night, and the [MASK] was blowing from the sea.",
)
PAIRS = (
    ("She knocked at the door of the house.", "It was opened by an old woman with a candle in her hand."),
    ("She knocked at the door of the house.", "The ship had been lying in the bay for three days."),
)
# Larger rates and a second epoch overfit the six books (LOG.md).
_LEARNING_RATE = 5e-5
_EPOCHS = 1
_PASSAGE_WORDS = 60
_MAX_WIDTH = 80
_DEVICE = "cpu"
_STAGE_SECONDS = {"vocabulary": 6, "corpus": 4, "pre-training": 175, "fine-tuning": 105, "answers": 10}
"""On two idle cores of a Xeon."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoSize:
    """Amounts of data and training; the defaults take about five minutes on two idle CPU cores."""

    max_chapters: int | None = None
    """Maximum number of chapters of each novel; None reads all."""
    vocabulary_size: int = 8000
    pretrain_steps: int = 1800
    train_passages: int = 800
    """Maximum per author."""
    test_passages: int = 200
    """Maximum per author."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, a model, and its answers with their probabilities, most probable first."""

    question: str
    model: str
    answers: tuple[tuple[str, float], ...]
    truth: str | None = None


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Answers, metrics and reports of the demo."""

    masks: tuple[Answer, ...]
    """For each masked text, by the new encoder and by cloze-mini."""
    next_sentences: tuple[tuple[str, str, str, float], ...]
    """A, B, the model, and the probability that B follows A."""
    novelists: tuple[Answer, ...]
    pretraining: dict[str, float]
    """Metrics on held-out documents."""
    scores: dict[str, float]
    """Scores of the classifier on the test novels."""
    reports: tuple[Path, ...]


def run_demo(
    output: Path,
    *,
    size: DemoSize = DemoSize(),
    workers: AnyWorkers = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> DemoResult:
    """Train a vocabulary, an encoder and a classifier on twelve novels, and ask them questions.

    Args:
        output: directory of all results.
        size: amounts of data and training.
        workers: processes for vocabulary and corpus.
        overwrite: replace the results of an earlier demo.
        progress: progress output.

    Raises:
        InputError: `output` exists.
        Interrupted: SIGINT or SIGTERM was received.
    """
    if not overwrite:  # each stage replaces its own directory
        artifacts.check_output_path(output, overwrite=False)
    stages = _Stages(output, size, workers, progress, progress.clock())
    stages.write_texts()
    stages.train_vocabulary()
    stages.build_corpus()
    pretraining = stages.pretrain()
    scores = stages.finetune()
    return stages.answer(pretraining, scores)


def format_result(result: DemoResult) -> str:
    """Return the answers and metrics as text."""
    metrics, scores = result.pretraining, result.scores
    lines = ["", "Masked tokens, by the encoder trained here and by cloze-mini:"]
    for question, answers in groupby(result.masks, key=lambda answer: answer.question):
        lines.append(f"  {question}")
        for answer in answers:
            guesses = "  ".join(f"{token} {probability:.2f}" for token, probability in answer.answers)
            lines.append(f"    {answer.model:<12}  {guesses}")
    lines += ["", "Probability that the second sentence follows the first:"]
    for (first, second), predictions in groupby(result.next_sentences, key=lambda row: row[:2]):
        lines += [f"  {first}", f"  {second}"]
        lines.append(
            "    " + "  ".join(f"{model} {probability:.2f}" for *_, model, probability in predictions)
        )
    lines += ["", "Author of a passage from the middle of each test novel, by the classifier:"]
    for answer in result.novelists:
        guesses = ", ".join(f"{name} {probability:.2f}" for name, probability in answer.answers)
        lines += [f"  {answer.question[: _MAX_WIDTH - 5]} …", f"    {guesses} (correct: {answer.truth})"]
    lines += [
        "",
        textwrap.fill(
            f"The encoder trained here names {metrics['masked_lm_accuracy']:.1%} of the masked tokens of held-out "
            f"chapters, with a loss of {metrics['masked_lm_loss']:.2f} nats (word frequencies alone: "
            f"{metrics['masked_lm_unigram_loss']:.2f}). Two minutes teach it common words and phrases, but not what "
            "a text means. cloze-mini has read a billion tokens.",
            _MAX_WIDTH,
        ),
        textwrap.fill(
            f"The classifier names the author of {scores['accuracy']:.1%} of the passages, which are from novels that "
            f"it was not trained on (always the same author: {scores['majority_accuracy']:.1%}).",
            _MAX_WIDTH,
        ),
        "",
        *(f"Report: {path}" for path in result.reports),
    ]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Stages:
    output: Path
    size: DemoSize
    workers: AnyWorkers
    progress: Progress
    started_at: float

    def write_texts(self) -> None:
        """Write a sentence per line for pre-training, and passages with their author for fine-tuning."""
        titles = ", ".join(novelist.train_novel.title for novelist in NOVELISTS)
        minutes = round(sum(_STAGE_SECONDS.values()) / 60)
        self._note(
            f"This takes about {minutes} minutes on two idle cores, longer on slow or busy ones. Steps and seeds are "
            "fixed, so the results do not depend on the time."
        )
        self._note(f"Two novels each by six authors. For training: {titles}.")
        train_rows, test_rows = [], []
        for novelist in NOVELISTS:
            chapters = read_chapters(novelist.train_novel, self.size.max_chapters)
            text = "\n".join("".join(f"{sentence}\n" for sentence in chapter) for chapter in chapters)
            file_io.write_text(self.output / "text" / f"{novelist.train_novel.file}.txt", text)
            train_rows += self._rows(novelist.train_novel, self.size.train_passages)
            test_rows += self._rows(novelist.test_novel, self.size.test_passages)
        for name, rows in (("learned.tsv", train_rows), ("tested.tsv", test_rows)):
            file_io.write_text(self.output / "passages" / name, "passage\tnovelist\n" + "".join(rows))

    def train_vocabulary(self) -> None:
        text, vocabulary, size = self._at("text"), self._at("vocabulary"), self.size.vocabulary_size
        self._begin(
            "vocabulary",
            "1. Vocabulary: the tokens, words and parts of words, that text is split into.",
            ["vocab", text, "-o", vocabulary, "--size", size],
        )
        train_vocabulary(
            text, output=vocabulary, size=size, workers=self.workers, overwrite=True, progress=self.progress
        )

    def build_corpus(self) -> None:
        text, vocabulary, corpus = self._at("text"), self._at("vocabulary"), self._at("corpus")
        self._begin(
            "corpus",
            "2. Corpus: the tokenized text; a chapter is a document.",
            ["corpus", text, "--vocabulary", vocabulary, "-o", corpus, "--format", "sentences"],
        )
        build_dataset(
            text,
            vocabulary=vocabulary,
            output=corpus,
            format="sentences",
            workers=self.workers,
            overwrite=True,
            progress=self.progress,
        )

    def pretrain(self) -> dict[str, float]:
        corpus, run, steps = self._at("corpus"), self._at("pretrained"), self.size.pretrain_steps
        self._begin(
            "pre-training",
            "3. Pre-training: a small encoder learns to predict masked tokens, and whether one sentence follows "
            "another.",
            ["pretrain", "--data", corpus, "-o", run, "--config", "demo", "--steps", steps],
        )
        return pretrain(
            data=corpus, output=run, config="demo", steps=steps, overwrite=True, progress=self.progress
        )

    def finetune(self) -> dict[str, float]:
        train, test = self._at("passages/learned.tsv"), self._at("passages/tested.tsv")
        run = self._at("novelist")
        settings = {"epochs": _EPOCHS, "precision": "float32", "device": _DEVICE}
        self._begin(
            "fine-tuning",
            "4. Fine-tuning: cloze-mini, the bundled model, learns to name the author of a passage. It is "
            "tested on the other novel of each author. All twelve were in its pre-training text, without "
            "their authors.",
            [
                *("finetune", "classification", "-m", BUNDLED_MODEL, "-o", run, "-d", train, "--dev", test),
                *("--text-column", "passage", "--label-column", "novelist"),
                *("--learning-rate", _LEARNING_RATE),
                *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")),
            ],
        )
        return finetune(
            "classification",
            output=run,
            model=BUNDLED_MODEL,
            train=train,
            dev=test,
            text_column="passage",
            label_column="novelist",
            learning_rate=_LEARNING_RATE,
            settings=settings,
            overwrite=True,
            progress=self.progress,
        ).scores

    def answer(self, pretraining: dict[str, float], scores: dict[str, float]) -> DemoResult:
        encoder, classifier = self._at("pretrained"), self._at("novelist")
        self._begin(
            "answers", "5. Answers. Ask your own questions:", ["fill", "-m", encoder, MASKED_TEXTS[0]]
        )
        self._note("", ["fill", "-m", BUNDLED_MODEL, MASKED_TEXTS[0]])
        self._note("", ["next", "-m", BUNDLED_MODEL, *PAIRS[0]])
        self._note("", ["predict", "classification", "-m", classifier, self._at("passages/tested.tsv")])
        models = {"this encoder": encoder, BUNDLED_MODEL: Path(BUNDLED_MODEL)}
        fill_masks = {name: FillMask.load(model, device=_DEVICE) for name, model in models.items()}
        masks = [
            Answer(text, name, tuple((candidate.token, candidate.probability) for candidate in candidates))
            for text in MASKED_TEXTS
            for name, fill_mask in fill_masks.items()
            for candidates in fill_mask(text, top_k=5)
        ]
        next_sentence = {name: NextSentence.load(model, device=_DEVICE) for name, model in models.items()}
        passages = [self._passages(novelist.test_novel, 3)[1] for novelist in NOVELISTS]
        classify = TextClassifier.load(classifier, device=_DEVICE)
        predictions, _ = classify.predict(list(map(LabeledText, passages)))
        novelists = [
            Answer(
                text, BUNDLED_MODEL, tuple(Counter(prediction.probabilities).most_common(2)), novelist.name
            )
            for novelist, text, prediction in zip(NOVELISTS, passages, predictions, strict=True)
        ]
        return DemoResult(
            tuple(masks),
            tuple(
                (a, b, name, predict(a, b).probability)
                for a, b in PAIRS
                for name, predict in next_sentence.items()
            ),
            tuple(novelists),
            pretraining,
            scores,
            (write_report(encoder), write_report(classifier)),
        )

    def _at(self, name: str) -> Path:
        return self.output / name

    def _passages(self, novel: Novel, count: int) -> list[str]:
        """Return up to `count` passages, evenly spaced."""
        chapters = read_chapters(novel, self.size.max_chapters)
        passages = [p for chapter in chapters for p in split_passages(chapter, min_words=_PASSAGE_WORDS)]
        if len(passages) <= count:
            return passages
        return [passages[i * len(passages) // count] for i in range(count)]

    def _rows(self, novel: Novel, count: int) -> list[str]:
        return [f"{passage}\t{novel.author}\n" for passage in self._passages(novel, count)]

    def _begin(self, stage: str, text: str, command: Sequence[object]) -> None:
        """Print what a stage does, and how long the demo still takes, judged by the time of the stages before."""
        names, seconds = list(_STAGE_SECONDS), list(_STAGE_SECONDS.values())
        number = names.index(stage)
        self._note(text, command)
        if number:
            slowdown = (self.progress.clock() - self.started_at) / sum(seconds[:number])
            left = format_duration(max(slowdown, 1) * sum(seconds[number:]))
            self.progress.note(f"   about {left} left in all")

    def _note(self, text: str, command: Sequence[object] = ()) -> None:
        if text:
            self.progress.note(f"\n{text}")
        if command:
            self.progress.note(f"   $ cloze {shlex.join(map(str, command))}")
