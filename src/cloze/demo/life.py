"""The script of `cloze demo`: vocabulary, corpus, pre-training, fine-tuning, answers, in a few minutes.

Each stage calls the function that its verb calls, with the same settings, and prints the verb's command line. Two
minutes make a small encoder, which shows how pre-training goes; what is asked of it is asked of cloze-mini, too, and
that one learns the task.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cloze import artifacts
from cloze import config as configuration
from cloze.corpus.build import BuildConfig, build_dataset
from cloze.corpus.sources import ReadingConfig
from cloze.corpus.vocabulary import train_vocabulary
from cloze.demo.novels import NOVELISTS, Novel, chapters, passages
from cloze.evidence.report import write_report
from cloze.inference.classify import TextClassifier
from cloze.inference.fill import FillMask
from cloze.inference.next_sentence import NextSentence
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.run import pretrain
from cloze.progress import SILENT, Progress
from cloze.tasks.classification import Classification
from cloze.tasks.config import load_finetuning
from cloze.tasks.finetune import finetune
from cloze.tasks.texts import LabelledText

SHIPPED = "cloze-mini"
MASKED = (
    "He opened the [MASK] and went into the room.",
    "She shook her [MASK] and said nothing.",
    'I do not [MASK] what you mean," he said.',
    "It was a dark and cold [MASK], and the [MASK] was blowing from the sea.",
)
PAIRS = (
    ("She knocked at the door of the house.", "It was opened by an old woman with a candle in her hand."),
    ("She knocked at the door of the house.", "The ship had been lying in the harbour for three days."),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoSize:
    """How much of everything; the defaults end within five minutes on two slow processor cores."""

    vocabulary_size: int = 8000
    pretrain_seconds: int = 110
    finetune_seconds: int = 100
    finetune_epochs: int = 1
    learned_passages: int = 800
    """Of each author, at most."""
    tested_passages: int = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked, of which model, and what it says, likeliest first."""

    question: str
    model: str
    answers: tuple[tuple[str, float], ...]
    truth: str | None = None


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo ends with."""

    masks: tuple[Answer, ...]
    """For each [MASK], of the encoder made here and of cloze-mini."""
    next_sentences: tuple[tuple[str, str, str, float], ...]
    """A, B, the model, and the probability that B follows A."""
    novelists: tuple[Answer, ...]
    pretraining: dict[str, float]
    """Measures on held-out documents."""
    scores: dict[str, float]
    """Of the classifier, on the books that it has not seen."""
    reports: tuple[Path, ...]


def run_demo(
    output: Path,
    *,
    size: DemoSize = DemoSize(),
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> DemoResult:
    """Take twelve novels through the whole life of a BERT.

    Args:
        output: directory for all that is made.
        size: how much of everything.
        workers: processes for vocabulary and corpus.
        overwrite: replace what an earlier demo left there.
        progress: where to tell what happens and how far it is.

    Raises:
        InputError: `output` exists.
        Interrupted: SIGINT or SIGTERM came.
    """
    output = Path(output)
    if not overwrite:  # what is overwritten are the directories in it, each by its own stage
        artifacts.refuse_existing(output, overwrite=False)
    stages = _Stages(output, size, workers, progress)
    stages.write_texts()
    stages.learn_vocabulary()
    stages.build_corpus()
    pretraining = stages.pretrain()
    scores = stages.finetune()
    return stages.answer(pretraining, scores)


@dataclass(frozen=True, slots=True)
class _Stages:
    output: Path
    size: DemoSize
    workers: int
    progress: Progress

    def write_texts(self) -> None:
        """Write a sentence a line for pre-training, and passages with their author for fine-tuning."""
        titles = ", ".join(novelist.learned.title for novelist in NOVELISTS)
        self._tell(f"Six novelists, two books each. To learn from: {titles}.")
        learned, tested = [], []
        for novelist in NOVELISTS:
            book = chapters(novelist.learned)
            text = "\n".join("".join(f"{sentence}\n" for sentence in chapter) for chapter in book)
            artifacts.write_text(self.output / "text" / f"{novelist.learned.file}.txt", text)
            learned += _rows(novelist.learned, self.size.learned_passages)
            tested += _rows(novelist.tested, self.size.tested_passages)
        for name, rows in (("learned.tsv", learned), ("tested.tsv", tested)):
            artifacts.write_text(self.output / "passages" / name, "passage\tnovelist\n" + "".join(rows))

    def learn_vocabulary(self) -> None:
        self._tell(
            "1. Vocabulary: the words and parts of words that text is cut into.",
            ["vocab", self._at("text"), "-o", self._at("vocabulary"), "--size", self.size.vocabulary_size],
        )
        train_vocabulary(
            [self._at("text")],
            self._at("vocabulary"),
            size=self.size.vocabulary_size,
            workers=self.workers,
            overwrite=True,
            progress=self.progress,
        )

    def build_corpus(self) -> None:
        self._tell(
            "2. Corpus: the text, cut into pieces once and for all; a chapter is a document.",
            [
                *("corpus", self._at("text"), "--vocab", self._at("vocabulary"), "-o", self._at("corpus")),
                *("--format", "sentences", "--validation-fraction", "0.02"),
            ],
        )
        build_dataset(
            [self._at("text")],
            self._at("vocabulary"),
            self._at("corpus"),
            BuildConfig(reading=ReadingConfig(text_format="sentences"), validation_fraction=0.02),
            workers=self.workers,
            overwrite=True,
            progress=self.progress,
        )

    def pretrain(self) -> dict[str, float]:
        seconds = self.size.pretrain_seconds
        self._tell(
            "3. Pre-training: guess hidden words, and whether one sentence follows another.",
            [
                *("pretrain", "--data", self._at("corpus"), "-o", self._at("pretrained")),
                *("--config", "demo", "--budget", f"{seconds}s"),
            ],
        )
        recipe = resources.files("cloze") / "recipes" / "demo.toml"
        overrides = configuration.as_overrides(
            {"data": str(self._at("corpus")), "budget_seconds": float(seconds)}
        )
        with resources.as_file(recipe) as path:
            config = configuration.load(PretrainConfig, path, overrides)
        return pretrain(config, self._at("pretrained"), overwrite=True, progress=self.progress)

    def finetune(self) -> dict[str, float]:
        self._tell(
            "4. Fine-tuning: who wrote this passage? Learned by cloze-mini, which comes with cloze and was\n"
            "   pre-trained for longer; tested on the other book of each novelist. It has read these novels,\n"
            "   too, but was never told who wrote them.",
            [
                *("finetune", "classification", "-m", SHIPPED, "-o", self._at("novelist")),
                *("-d", self._at("passages/learned.tsv"), "--dev", self._at("passages/tested.tsv")),
                *("--text-column", "passage", "--label-column", "novelist"),
                *("--epochs", self.size.finetune_epochs, "--learning-rate", _FINETUNE_RATE),
                *("--set", f"budget_seconds={self.size.finetune_seconds}"),
            ],
        )
        task, config = load_finetuning(
            Classification.name,
            overrides=configuration.as_overrides(
                {
                    "model": SHIPPED,
                    "train": str(self._at("passages/learned.tsv")),
                    "dev": str(self._at("passages/tested.tsv")),
                    "classification.text_column": "passage",
                    "classification.label_column": "novelist",
                    "epochs": self.size.finetune_epochs,
                    "optimizer.learning_rate": _FINETUNE_RATE,
                    "budget_seconds": self.size.finetune_seconds,
                }
            ),
        )
        return finetune(task, config, self._at("novelist"), overwrite=True, progress=self.progress)

    def answer(self, pretraining: dict[str, float], scores: dict[str, float]) -> DemoResult:
        self._tell("5. Answers. Ask your own:", ["fill", "-m", self._at("pretrained"), MASKED[0]])
        self._tell("", ["fill", "-m", SHIPPED, MASKED[0]])
        self._tell("", ["next", "-m", SHIPPED, *PAIRS[0]])
        self._tell(
            "", ["predict", "classification", "-m", self._at("novelist"), self._at("passages/tested.tsv")]
        )
        models = {"this encoder": self._at("pretrained"), SHIPPED: Path(SHIPPED)}
        fillers = {name: FillMask.load(model) for name, model in models.items()}
        masks = [
            Answer(text, name, tuple((candidate.token, candidate.probability) for candidate in candidates))
            for text in MASKED
            for name, fill_mask in fillers.items()
            for candidates in fill_mask(text, top_k=5)
        ]
        judges = {name: NextSentence.load(model) for name, model in models.items()}
        return DemoResult(
            tuple(masks),
            tuple((a, b, name, judge(a, b)) for a, b in PAIRS for name, judge in judges.items()),
            self._classify_some(),
            pretraining,
            scores,
            (write_report(self._at("pretrained")), write_report(self._at("novelist"))),
        )

    def _classify_some(self) -> tuple[Answer, ...]:
        """Ask who wrote the passage in the middle of each book that was kept for testing."""
        classifier = TextClassifier.load(self._at("novelist"))
        asked = [_spread(_all_passages(novelist.tested), 3)[1] for novelist in NOVELISTS]
        predictions, _ = classifier.predict([LabelledText(passage) for passage in asked])
        return tuple(
            Answer(
                passage,
                SHIPPED,
                tuple(sorted(prediction.probabilities.items(), key=lambda item: -item[1])[:2]),
                novelist.name,
            )
            for novelist, passage, prediction in zip(NOVELISTS, asked, predictions, strict=True)
        )

    def _at(self, name: str) -> Path:
        return self.output / name

    def _tell(self, text: str, command: Sequence[object] = ()) -> None:
        if text:
            self.progress.note(f"\n{text}")
        if command:
            self.progress.note(f"   $ cloze {shlex.join(map(str, command))}")


# Of Google's grid for its compact models. Once through, or it learns the six books by heart (LOG.md).
_FINETUNE_RATE = 1e-4
_PASSAGE_WORDS = 60


def _all_passages(novel: Novel) -> list[str]:
    return [p for chapter in chapters(novel) for p in passages(chapter, min_words=_PASSAGE_WORDS)]


def _rows(novel: Novel, count: int) -> list[str]:
    return [f"{passage}\t{novel.author}\n" for passage in _spread(_all_passages(novel), count)]


def _spread(things: Sequence[str], count: int) -> list[str]:
    """Take `count` of them, or all where there are fewer, evenly from beginning to end."""
    if len(things) <= count:
        return list(things)
    return [things[i * len(things) // count] for i in range(count)]
