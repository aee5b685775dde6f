"""The pipeline of `cloze demo`: vocabulary, corpus, pre-training, fine-tuning, answers.

Each stage calls the function of its verb with the same settings, and prints the verb's command line. Two minutes of
pre-training make a weak encoder, so cloze-mini is asked the same questions, and is the one that is fine-tuned.
"""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cloze import artifacts, file_io
from cloze import config as configuration
from cloze.data.build import BuildConfig, build_dataset
from cloze.data.input_shards import ReadingConfig
from cloze.data.vocabulary import train_vocabulary
from cloze.demo.novels import NOVELISTS, Novel, read_chapters, split_passages
from cloze.inference.fill_mask import FillMask
from cloze.inference.next_sentence import NextSentence
from cloze.inference.text_predictors import TextClassifier
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.run import pretrain
from cloze.progress import SILENT, Progress
from cloze.reports.run_report import write_report
from cloze.tasks.config import load_finetuning
from cloze.tasks.custom import Classification
from cloze.tasks.finetune import finetune
from cloze.tasks.texts import LabeledText

BUNDLED_MODEL = "cloze-mini"
MASKED_TEXTS = (
    "He opened the [MASK] and went into the room.",
    "She shook her [MASK] and said nothing.",
    'I do not [MASK] what you mean," he said.',
    "It was a dark and cold [MASK], and the [MASK] was blowing from the sea.",
)
PAIRS = (
    ("She knocked at the door of the house.", "It was opened by an old woman with a candle in her hand."),
    ("She knocked at the door of the house.", "The ship had been lying in the bay for three days."),
)
# From Google's grid for its compact models. A second epoch overfits the six books (LOG.md).
_LEARNING_RATE = 1e-4
_PASSAGE_WORDS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoSize:
    """Amounts of data and training; the defaults take up to five minutes on two slow CPU cores."""

    vocabulary_size: int = 8000
    pretrain_seconds: int = 110
    finetune_seconds: int = 100
    finetune_epochs: int = 1
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
    """For each [MASK], by the new encoder and by cloze-mini."""
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
    workers: int = 1,
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
    output = Path(output)
    if not overwrite:  # each stage replaces its own directory
        artifacts.check_output_path(output, overwrite=False)
    stages = _Stages(output, size, workers, progress)
    stages.write_texts()
    stages.train_vocabulary()
    stages.build_corpus()
    pretraining = stages.pretrain()
    scores = stages.finetune()
    return stages.answer(pretraining, scores)


def format_result(result: DemoResult) -> str:
    """Return the answers and metrics as text."""
    lines = ["", "Masked tokens, predicted by the new encoder and by cloze-mini:"]
    question = None
    for answer in result.masks:
        if answer.question != question:
            question = answer.question
            lines.append(f"  {question}")
        lines.append(f"    {answer.model:<14}" + "  ".join(f"{token} {p:.2f}" for token, p in answer.answers))
    lines += ["", "Probability that the second sentence follows the first:"]
    lines += [f"  {model:<14}{p:.2f}  {a} {b}" for a, b, model, p in result.next_sentences]
    lines += ["", "Author of a passage from the middle of each test novel:"]
    for answer in result.novelists:
        guesses = ", ".join(f"{name} {p:.2f}" for name, p in answer.answers)
        lines += [f"  {answer.question[:90]} …", f"      {guesses} (correct: {answer.truth})"]
    metrics, scores = result.pretraining, result.scores
    lines += [
        "",
        f"Masked tokens of held-out chapters: {metrics['masked_lm_accuracy']:.1%} correct, "
        f"loss {metrics['masked_lm_loss']:.2f} nats (from word frequencies {metrics['masked_lm_unigram_loss']:.2f})",
        f"Authors of test novels: {scores['accuracy']:.1%} correct "
        f"(always the most frequent author: {scores['majority_accuracy']:.1%})",
        *(f"Report: {path}" for path in result.reports),
    ]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Stages:
    output: Path
    size: DemoSize
    workers: int
    progress: Progress

    def write_texts(self) -> None:
        """Write a sentence per line for pre-training, and passages with their author for fine-tuning."""
        titles = ", ".join(novelist.train_novel.title for novelist in NOVELISTS)
        self._note(f"Two novels each by six authors. For training: {titles}.")
        train_rows, test_rows = [], []
        for novelist in NOVELISTS:
            chapters = read_chapters(novelist.train_novel)
            text = "\n".join("".join(f"{sentence}\n" for sentence in chapter) for chapter in chapters)
            file_io.write_text(self.output / "text" / f"{novelist.train_novel.file}.txt", text)
            train_rows += _rows(novelist.train_novel, self.size.train_passages)
            test_rows += _rows(novelist.test_novel, self.size.test_passages)
        for name, rows in (("learned.tsv", train_rows), ("tested.tsv", test_rows)):
            file_io.write_text(self.output / "passages" / name, "passage\tnovelist\n" + "".join(rows))

    def train_vocabulary(self) -> None:
        text, vocabulary, size = self._at("text"), self._at("vocabulary"), self.size.vocabulary_size
        self._note(
            "1. Vocabulary: the tokens, words and parts of words, that text is split into.",
            ["vocab", text, "-o", vocabulary, "--size", size],
        )
        train_vocabulary(
            [text], vocabulary, size=size, workers=self.workers, overwrite=True, progress=self.progress
        )

    def build_corpus(self) -> None:
        text, vocabulary, corpus = self._at("text"), self._at("vocabulary"), self._at("corpus")
        self._note(
            "2. Corpus: the tokenized text; a chapter is a document.",
            ["corpus", text, "--vocab", vocabulary, "-o", corpus, "--format", "sentences"],
        )
        build_dataset(
            [text],
            vocabulary,
            corpus,
            BuildConfig(reading=ReadingConfig(text_format="sentences")),
            workers=self.workers,
            overwrite=True,
            progress=self.progress,
        )

    def pretrain(self) -> dict[str, float]:
        corpus, run, seconds = self._at("corpus"), self._at("pretrained"), self.size.pretrain_seconds
        self._note(
            "3. Pre-training: predict masked tokens, and whether one sentence follows another.",
            ["pretrain", "--data", corpus, "-o", run, "--config", "demo", "--budget", f"{seconds}s"],
        )
        overrides = configuration.to_overrides({"data": str(corpus), "budget_seconds": float(seconds)})
        with resources.as_file(resources.files("cloze") / "recipes" / "demo.toml") as recipe:
            config = configuration.load(PretrainConfig, recipe, overrides)
        return pretrain(config, run, overwrite=True, progress=self.progress)

    def finetune(self) -> dict[str, float]:
        train, test = self._at("passages/learned.tsv"), self._at("passages/tested.tsv")
        run, size = self._at("novelist"), self.size
        self._note(
            "4. Fine-tuning: cloze-mini, the bundled model, learns to name the author of a passage. It is "
            "tested on the other novel of each author. All twelve were in its pre-training text, without "
            "their authors.",
            [
                *("finetune", "classification", "-m", BUNDLED_MODEL, "-o", run, "-d", train, "--dev", test),
                *("--text-column", "passage", "--label-column", "novelist"),
                *("--epochs", size.finetune_epochs, "--learning-rate", _LEARNING_RATE),
                *("--set", f"budget_seconds={size.finetune_seconds}"),
            ],
        )
        settings = {
            "model": BUNDLED_MODEL,
            "train": str(train),
            "dev": str(test),
            "classification.text_column": "passage",
            "classification.label_column": "novelist",
            "epochs": size.finetune_epochs,
            "optimizer.learning_rate": _LEARNING_RATE,
            "budget_seconds": size.finetune_seconds,
        }
        task, config = load_finetuning(Classification.name, overrides=configuration.to_overrides(settings))
        return finetune(task, config, run, overwrite=True, progress=self.progress)

    def answer(self, pretraining: dict[str, float], scores: dict[str, float]) -> DemoResult:
        encoder, classifier = self._at("pretrained"), self._at("novelist")
        self._note("5. Answers. Ask your own questions:", ["fill", "-m", encoder, MASKED_TEXTS[0]])
        self._note("", ["fill", "-m", BUNDLED_MODEL, MASKED_TEXTS[0]])
        self._note("", ["next", "-m", BUNDLED_MODEL, *PAIRS[0]])
        self._note("", ["predict", "classification", "-m", classifier, self._at("passages/tested.tsv")])
        models = {"this encoder": encoder, BUNDLED_MODEL: Path(BUNDLED_MODEL)}
        fill_masks = {name: FillMask.load(model) for name, model in models.items()}
        masks = [
            Answer(text, name, tuple((candidate.token, candidate.probability) for candidate in candidates))
            for text in MASKED_TEXTS
            for name, fill_mask in fill_masks.items()
            for candidates in fill_mask(text, top_k=5)
        ]
        next_sentence = {name: NextSentence.load(model) for name, model in models.items()}
        passages = [_spread(_all_passages(novelist.test_novel), 3)[1] for novelist in NOVELISTS]
        predictions, _ = TextClassifier.load(classifier).predict(list(map(LabeledText, passages)))
        novelists = [
            Answer(
                text, BUNDLED_MODEL, tuple(Counter(prediction.probabilities).most_common(2)), novelist.name
            )
            for novelist, text, prediction in zip(NOVELISTS, passages, predictions, strict=True)
        ]
        return DemoResult(
            tuple(masks),
            tuple((a, b, name, predict(a, b)) for a, b in PAIRS for name, predict in next_sentence.items()),
            tuple(novelists),
            pretraining,
            scores,
            (write_report(encoder), write_report(classifier)),
        )

    def _at(self, name: str) -> Path:
        return self.output / name

    def _note(self, text: str, command: Sequence[object] = ()) -> None:
        if text:
            self.progress.note(f"\n{text}")
        if command:
            self.progress.note(f"   $ cloze {shlex.join(map(str, command))}")


def _all_passages(novel: Novel) -> list[str]:
    return [p for chapter in read_chapters(novel) for p in split_passages(chapter, min_words=_PASSAGE_WORDS)]


def _rows(novel: Novel, count: int) -> list[str]:
    return [f"{passage}\t{novel.author}\n" for passage in _spread(_all_passages(novel), count)]


def _spread(passages: Sequence[str], count: int) -> list[str]:
    """Return up to `count` passages, evenly spaced."""
    if len(passages) <= count:
        return list(passages)
    return [passages[i * len(passages) // count] for i in range(count)]
