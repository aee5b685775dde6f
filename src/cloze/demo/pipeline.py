"""The pipeline of `cloze demo`: vocabulary, corpus, pre-training, fine-tuning, answers.

Each stage calls the function of its verb with the same settings, and prints the verb's command line. Two minutes of
pre-training make a weak encoder, so cloze-mini is asked the same questions, and is the one that is fine-tuned. Steps,
seeds, device and number format are fixed: a slow or busy machine takes longer and has the same results.
"""

import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cloze import artifacts, file_io
from cloze.demo.novels import NOVELISTS, read_chapters, sample_passages
from cloze.options import Overwrite, ShowProgress
from cloze.parallel_map import AnyWorkers
from cloze.process import configure_process
from cloze.progress import Progress, resolve_progress
from cloze.signatures import checks_arguments

Value = TypeVar("Value")

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
_SHORT_FLAGS = {"output": "-o", "model": "-m", "train": "-d"}


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
class DemoResult:
    """Metrics, answers and reports of the demo."""

    pretraining: dict[str, float]
    """Metrics on held-out documents."""
    scores: dict[str, float]
    """Scores of the classifier on the test novels."""
    text: str
    """The answers of both encoders and of the classifier, and what the metrics mean."""
    reports: tuple[Path, ...]


@checks_arguments()
def run_demo(
    *,
    output: str | Path = "demo-run",
    workers: AnyWorkers = "auto",
    overwrite: Overwrite = False,
    progress: ShowProgress = False,
) -> DemoResult:
    """Train a vocabulary, pre-train, fine-tune and answer on bundled novels.

    Takes about five minutes on two idle CPU cores. A slow or busy machine takes longer, with the same results.

    Args:
        output: directory of all results.

    Raises:
        InputError: the output exists.
        Interrupted: SIGINT or SIGTERM was received.
    """
    configure_process()
    directory = Path(output)
    if not overwrite:  # each stage replaces its own directory
        artifacts.check_output_path(directory, overwrite=False)
    return run_stages(directory, DemoSize(), workers=workers, progress=resolve_progress(progress))


def run_stages(output: Path, size: DemoSize, *, workers: AnyWorkers, progress: Progress) -> DemoResult:
    """Run the demo at a size."""
    # --help reads this module, and must not wait for these
    from cloze.api.datasets import build_dataset
    from cloze.api.finetuning import finetune
    from cloze.api.pretraining import pretrain
    from cloze.api.vocabularies import train_vocabulary
    from cloze.reports.run_report import write_report

    names = ("text", "vocabulary", "corpus", "pretrained", "novelist")
    text, vocabulary, corpus, encoder, classifier = (output / name for name in names)
    train, test = output / "passages/learned.tsv", output / "passages/tested.tsv"
    run = partial(_run, progress)
    titles = ", ".join(novelist.train_novel.title for novelist in NOVELISTS)
    progress.note(
        "\nThis takes about five minutes on two idle cores, longer on slow or busy ones. Steps and seeds are fixed, so "
        f"the results do not depend on the time.\n\nTwo novels each by six authors. For training: {titles}."
    )
    _write_texts(text, train, test, size)
    run(
        "1. Vocabulary: the tokens, words and parts of words, that text is split into.",
        ["vocab", text],
        partial(train_vocabulary, text, workers=workers),
        output=vocabulary,
        size=size.vocabulary_size,
    )
    run(
        "2. Corpus: the tokenized text; a chapter is a document.",
        ["corpus", text],
        partial(build_dataset, text, workers=workers),
        vocabulary=vocabulary,
        output=corpus,
        format="sentences",
    )
    metrics = run(
        "3. Pre-training: a small encoder learns to predict masked tokens, and whether one sentence follows another.",
        ["pretrain"],
        pretrain,
        data=corpus,
        output=encoder,
        config="demo",
        steps=size.pretrain_steps,
    )
    scores = run(
        "4. Fine-tuning: cloze-mini, the bundled model, learns to name the author of a passage. It is tested on the "
        "other novel of each author. All twelve were in its pre-training text, without their authors.",
        ["finetune", "classification"],
        partial(finetune, "classification"),
        output=classifier,
        model=BUNDLED_MODEL,
        train=train,
        dev=test,
        text_column="passage",
        label_column="novelist",
        learning_rate=_LEARNING_RATE,
        settings={"epochs": _EPOCHS, "precision": "float32", "device": _DEVICE},
    ).scores
    progress.note("\n5. Answers. Ask your own questions:")
    for model in (encoder, BUNDLED_MODEL):
        _show_command(progress, "fill", "-m", model, MASKED_TEXTS[0])
    _show_command(progress, "next", "-m", BUNDLED_MODEL, *PAIRS[0])
    _show_command(progress, "predict", "classification", "-m", classifier, test)
    reports = (write_report(encoder), write_report(classifier))
    masked, unigram = (f"{metrics[f'masked_lm_{name}']:.2f}" for name in ("loss", "unigram_loss"))
    conclusions = (
        f"The encoder trained here names {metrics['masked_lm_accuracy']:.1%} of the masked tokens of held-out chapters"
        f", with a loss of {masked} nats (word frequencies alone: {unigram}). Two minutes teach it common words and "
        "phrases, but not what a text means. cloze-mini has read a billion tokens.",
        f"The classifier names the author of {scores['accuracy']:.1%} of the passages, which are from novels that "
        f"it was not trained on (always the same author: {scores['majority_accuracy']:.1%}).",
    )
    filled = (textwrap.fill(conclusion, _MAX_WIDTH) for conclusion in conclusions)
    lines = [*_answers(encoder, classifier, size), "", *filled, "", *(f"Report: {path}" for path in reports)]
    return DemoResult(metrics, scores, "\n".join(lines), reports)


def _answers(encoder: Path, classifier: Path, size: DemoSize) -> Iterator[str]:
    """Ask the new encoder, cloze-mini and the classifier; yield questions and answers as lines."""
    from cloze.inference.pretrained_heads import FillMask, NextSentence
    from cloze.inference.text_predictors import TextClassifier
    from cloze.tasks.texts import LabeledText

    models = {"this encoder": encoder, BUNDLED_MODEL: Path(BUNDLED_MODEL)}
    fill_masks = {name: FillMask.load(model, device=_DEVICE) for name, model in models.items()}
    yield from ("", "Masked tokens, by the encoder trained here and by cloze-mini:")
    for text in MASKED_TEXTS:
        yield f"  {text}"
        for name, fill_mask in fill_masks.items():
            [mask] = fill_mask(text, top_k=5)
            yield f"    {name:<12}  " + "  ".join(f"{c.token} {c.probability:.2f}" for c in mask)
    next_sentence = {name: NextSentence.load(model, device=_DEVICE) for name, model in models.items()}
    yield from ("", "Probability that the second sentence follows the first:")
    for pair in PAIRS:
        yield from (f"  {sentence}" for sentence in pair)
        yield "    " + "  ".join(
            f"{name} {predict(*pair).probability:.2f}" for name, predict in next_sentence.items()
        )
    passages = [
        sample_passages(novelist.test_novel, 3, _PASSAGE_WORDS, max_chapters=size.max_chapters)[1]
        for novelist in NOVELISTS
    ]
    predictions, _ = TextClassifier.load(classifier, device=_DEVICE).predict(list(map(LabeledText, passages)))
    yield from ("", "Author of a passage from the middle of each test novel, by the classifier:")
    for novelist, passage, prediction in zip(NOVELISTS, passages, predictions, strict=True):
        best = Counter(prediction.probabilities).most_common(2)
        guesses = ", ".join(f"{name} {probability:.2f}" for name, probability in best)
        yield from (f"  {passage[: _MAX_WIDTH - 5]} …", f"    {guesses} (correct: {novelist.name})")


def _write_texts(text: Path, train: Path, test: Path, size: DemoSize) -> None:
    """Write a sentence per line for pre-training, and passages with their author for fine-tuning."""
    rows: dict[Path, list[str]] = {train: [], test: []}
    for novelist in NOVELISTS:
        chapters = read_chapters(novelist.train_novel, size.max_chapters)
        sentences = "\n".join("".join(f"{sentence}\n" for sentence in chapter) for chapter in chapters)
        file_io.write_text(text / f"{novelist.train_novel.file}.txt", sentences)
        for file, novel, count in (
            (train, novelist.train_novel, size.train_passages),
            (test, novelist.test_novel, size.test_passages),
        ):
            rows[file] += [
                f"{passage}\t{novel.author}\n"
                for passage in sample_passages(novel, count, _PASSAGE_WORDS, max_chapters=size.max_chapters)
            ]
    for file, lines in rows.items():
        file_io.write_text(file, "passage\tnovelist\n" + "".join(lines))


def _run(
    progress: Progress, text: str, command: Sequence[object], function: Callable[..., Value], **keywords: Any
) -> Value:
    """Call the function of a verb, after its command line with the same arguments."""
    progress.note(f"\n{text}")
    flags: list[object] = []
    for name, value in keywords.items():
        if name == "settings":
            flags += [word for setting in value.items() for word in ("--set", "=".join(map(str, setting)))]
        else:
            flags += [_SHORT_FLAGS.get(name, f"--{name.replace('_', '-')}"), value]
    _show_command(progress, *command, *flags)
    return function(**keywords, overwrite=True, progress=progress)


def _show_command(progress: Progress, *words: object) -> None:
    progress.note(f"   $ cloze {shlex.join(map(str, words))}")
