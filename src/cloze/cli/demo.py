"""`cloze demo`: the whole life of a BERT on bundled text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cloze.cli.common import Flags, default_workers

if TYPE_CHECKING:
    from cloze.demo.life import DemoResult


def run(
    *,
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("demo-run"),
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Take six novelists through the whole life of a BERT: vocabulary, corpus, pre-training, fine-tuning, answers.

    Ends within five minutes on two processor cores.

    Args:
        output: directory for all that is made.
        overwrite: replace what an earlier demo left there.
        flags: flags of every verb.
    """
    from dataclasses import asdict

    from cloze.demo.life import run_demo
    from cloze.training.memory import keep_freed_memory

    keep_freed_memory()
    result = run_demo(output, workers=default_workers(), overwrite=overwrite, progress=flags.progress)
    table = asdict(result) | {"reports": [str(path) for path in result.reports]}
    flags.print(table, _describe(result))


def _describe(result: "DemoResult") -> str:
    lines = ["", "Hidden words, by the encoder made here and by the one that comes with cloze:"]
    asked = None
    for answer in result.masks:
        if answer.question != asked:
            lines.append(f"  {answer.question}")
            asked = answer.question
        guesses = "  ".join(f"{token} {share:.2f}" for token, share in answer.answers)
        lines.append(f"    {answer.model:<14}{guesses}")
    lines += ["", "Does the second sentence follow the first?"]
    for a, b, model, probability in result.next_sentences:
        lines.append(f"  {model:<14}{probability:.2f}  {a} {b}")
    lines += ["", "Who wrote this? A passage from the middle of each book kept for testing:"]
    for answer in result.novelists:
        guesses = ", ".join(f"{name} {share:.2f}" for name, share in answer.answers)
        lines += [f"  {answer.question[:90]} …", f"      {guesses} (it was {answer.truth})"]
    words, scores = result.pretraining, result.scores
    lines += [
        "",
        f"Hidden words in held-out chapters: {words['masked_lm_accuracy']:.1%} guessed right, "
        f"loss {words['masked_lm_loss']:.2f} nats (by word frequency alone {words['masked_lm_unigram_loss']:.2f})",
        f"Novelists of unseen books: {scores['accuracy']:.1%} right "
        f"(always the most frequent one: {scores['majority_accuracy']:.1%})",
        *(f"Report: {path}" for path in result.reports),
    ]
    return "\n".join(lines)
