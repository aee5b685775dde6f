"""Choose the examples of the explorer page from held-out sentences: those that the bundled model gets right.

    python page/choose_examples.py records/2026-11-21-sentences/sentences.tsv ARTICLES

ARTICLES is the directory of Wikipedia that the sentences were drawn from, for the sentence that follows each. Run it
again whenever the bundled model changes, then `make page`; a test compares the model's digest.
"""

import json
import lzma
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import cloze
from cloze.explorer.encoder_internals import trace_masked_lm, trace_token
from cloze.inference.pretrained_heads import Candidate
from cloze.tokenization.sentences import split_sentences

MODEL = "cloze-mini"
SOURCE = "Held-out sentence of the English Wikipedia, CC BY-SA 3.0."
OUTPUT = Path(__file__).with_name("src") / "examples.json"
MASK = "[MASK]"
PLAIN = re.compile(r"[A-Z][A-Za-z0-9 ,'\[\]-]*\.")
MIN_CHARACTERS, MAX_CHARACTERS = 40, 105
NUM_COMMON = 25
PAST_TENSE = re.compile(
    r"(?!united|hundred).+ed|became|began|won|held|made|known|born|found|given|taken|written"
)
BEFORE_A_VERB = re.compile(
    r"\b(was|were|is|are|been|be|has|had|have|he|she|it|they|who|which|that) \[MASK\]", re.I
)
KEY_CHARACTERS = 24  # as in the next line
SENTENCE_START = re.compile(r"(?:^|(?<=[.!?] )|(?<=[.!?][\"”] ))(?=(.{24}))")


@dataclass(frozen=True)
class Sentence:
    """A sentence with a hidden word, and the guesses of the model."""

    text: str
    answer: str
    both: Candidate
    """The first guess from the words on both sides."""
    left: Candidate
    """The first guess if the words on the right are masked."""
    layers: tuple[Candidate, ...]
    """The first guess after the embeddings and after each layer."""

    @property
    def first_right(self) -> int:
        """The layer from which on the first guess is right, where the last one is."""
        wrong = [i for i, candidate in enumerate(self.layers) if candidate.token != self.answer]
        return max(wrong, default=-1) + 1


def masked_on_the_right(text: str) -> str:
    """Mask the words after the blank as the page does, and keep the length."""
    start, end = text.split(MASK)
    return start + MASK + re.sub(r"\w+|[^\w\s]", MASK, end)


def read(path: Path) -> list[tuple[str, str]]:
    """Return the sentences and their words."""
    rows = path.read_text("utf-8").splitlines()[1:]
    return [(text, answer) for text, answer in (row.split("\t") for row in rows)]


def is_plain(text: str) -> bool:
    """Whether a sentence is short and easy to read on a page."""
    return MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS and PLAIN.fullmatch(text) is not None


def followers(rows: list[tuple[str, str]], articles: Path) -> Iterator[tuple[str, str, int]]:
    """Yield sentences of the list with the sentence after them, and a number of their paragraph."""
    known = {text.replace(MASK, answer).lower()[:KEY_CHARACTERS] for text, answer in rows}
    whole = {text.replace(MASK, answer).lower() for text, answer in rows}
    number = 0
    for path in sorted(articles.glob("*.txt.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            for line in stream:
                number += 1
                if not any(match[1].lower() in known for match in SENTENCE_START.finditer(line)):
                    continue
                sentences = list(split_sentences(line.strip()))
                for first, second in pairwise(sentences):
                    if " ".join(first.split()).lower() in whole:
                        yield first, second, number


def choose_fill(sentences: list[Sentence], share: float) -> Iterator[dict[str, Any]]:
    """Choose four examples of the view Fill, each of another kind."""
    common = {word for word, _ in Counter(s.answer for s in sentences).most_common(NUM_COMMON)}
    right = [s for s in sentences if s.both.token == s.answer]
    rare = [s for s in right if s.answer not in common and len(s.answer) > 3]
    share_common = sum(s.answer in common for s in right) / len(right)
    kinds = {
        "The right side decides": (
            [s for s in rare if s.left.token != s.answer],
            "Mask the words on the right as well, and the first guess becomes “{left}”.",
        ),
        "The left side is enough": (
            [s for s in rare if s.left.token == s.answer],
            "Mask the words on the right as well, and the first guess stays the same.",
        ),
        "A verb": (
            [s for s in rare if PAST_TENSE.fullmatch(s.answer) and BEFORE_A_VERB.search(s.text)],
            "The model names the verb and its form.",
        ),
        "A common word": (
            [s for s in right if s.answer in common],
            f"{share_common:.0%} of the model's right guesses are of the {NUM_COMMON} most common words.",
        ),
    }
    caveat = f"The model names {share:.0%} of the words of 1,000 such sentences; this is one of them."
    return choose(kinds, caveat)


def choose_layers(sentences: list[Sentence]) -> Iterator[dict[str, Any]]:
    """Choose three examples of the view Map."""
    right = [s for s in sentences if s.both.token == s.answer and len(s.answer) > 3]
    last = len(right[0].layers) - 1
    kinds = {
        "At the last layer": (
            [s for s in right if s.first_right == last],
            "The right word is first only after the last layer.",
        ),
        "Half-way": (
            [s for s in right if s.first_right == last // 2],
            f"The right word is first after layer {last // 2}, and from there on.",
        ),
        "Changes its mind": (
            [s for s in right if len({c.token for c in s.layers}) == last + 1],
            "Another word is first after each layer, and the right one after the last.",
        ),
    }
    caveat = "The MLM head was trained on the last layer only; its earlier readings are hints."
    return choose(kinds, caveat)


def choose(kinds: dict[str, tuple[list[Sentence], str]], caveat: str) -> Iterator[dict[str, Any]]:
    """Yield an example of each kind as the page reads it: the sentence whose word the model is surest of."""
    used: set[str] = set()
    for name, (candidates, caption) in kinds.items():
        unused = [s for s in candidates if s.text not in used]
        if not unused:  # the model is right about no such sentence
            continue
        chosen = max(unused, key=lambda s: s.both.probability)
        used.add(chosen.text)
        caption = f"{caption.format(left=chosen.left.token)} {caveat}"
        yield {"name": name, "text": chosen.text, "answer": chosen.answer, "caption": caption}


def choose_pairs(pairs: list[tuple[str, str, int]]) -> Iterator[dict[str, Any]]:
    """Yield a pair of sentences that follow each other, and one that do not."""
    next_sentence = cloze.NextSentence.load(MODEL)

    def model(a: str, b: str) -> float:
        return next_sentence(a, b).probability

    pairs = [(a, b, n) for a, b, n in pairs if is_plain(a) and is_plain(b)]
    right = [(a, b, n) for a, b, n in pairs if model(a, b) > 0.9]
    a, b, number = min(right, key=lambda pair: len(pair[0]) + len(pair[1]))
    caption = (
        f"The model recognizes {sum(model(a, b) > 0.5 for a, b, _ in pairs)} of {len(pairs)} such pairs."
    )
    yield {"name": "It follows", "text": a, "pair": b, "follows": True, "caption": caption}
    others = [other for _, other, n in pairs if n != number]
    wrong = min(others, key=lambda other: model(a, other))
    seen = sum(model(a, other) < 0.5 for other in others)
    caption = f"Sentence B is of another article: the model says so of {seen} of {len(others)} sentences."
    yield {"name": "It does not", "text": a, "pair": wrong, "follows": False, "caption": caption}


def main(path: Path, articles: Path) -> None:
    """Write the examples."""
    rows = read(path)
    fill_mask = cloze.FillMask.load(MODEL)
    sentences, num_right = [], 0
    for text, answer in rows:
        [[both]] = fill_mask(text, top_k=1)
        num_right += both.token == answer
        if not is_plain(text):
            continue
        left = fill_mask(masked_on_the_right(text), top_k=1)[0][0]
        hidden_states = trace_token(fill_mask.encoder, fill_mask.tokenizer, text).hidden_states
        *_, read_off = trace_masked_lm(fill_mask, hidden_states, top_k=1)
        layers = tuple(candidate for (candidate,) in read_off)
        sentences.append(Sentence(text, answer, both, left, layers))
    manifest = json.loads((Path(cloze.__file__).parent / "pretrained" / MODEL / "manifest.json").read_text())
    pairs = list(followers(rows, articles))
    examples = {
        "model": {"name": MODEL, "sha256": manifest["files"]["model.safetensors"]["sha256"]},
        "source": SOURCE,
        "fill": list(choose_fill(sentences, num_right / len(rows))),
        "layers": list(choose_layers(sentences)),
        "next_sentence": list(choose_pairs(pairs)),
    }
    OUTPUT.write_text(json.dumps(examples, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
