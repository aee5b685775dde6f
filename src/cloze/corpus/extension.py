"""Words added to a vocabulary that is there: the user's own, or the most frequent that it cuts.

Ids that exist stay what they were, so a model of the old vocabulary goes on with the new one: only its rows for the
added words are to be set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cloze import artifacts
from cloze.corpus.inputs import paths_on_disk
from cloze.corpus.readers import read_documents
from cloze.corpus.sources import ReadingConfig, plan_stretches
from cloze.corpus.vocabulary import KIND
from cloze.corpus.word_counts import Normalization, count_text
from cloze.errors import InputError
from cloze.executor import Workers
from cloze.progress import SILENT, Progress
from cloze.text.inspection import cut_words, describe_text
from cloze.text.learner import LEAST_COUNT
from cloze.text.pieces import UNK
from cloze.text.tokenizer import Tokenizer
from cloze.text.vocabulary import MAX_WORD_CHARS, extend_pieces


@dataclass(frozen=True, slots=True)
class AddedWord:
    """A word that has become a piece."""

    word: str
    id: int
    count: int | None
    """Occurrences in the text, where one was given."""
    before: tuple[str, ...]
    """The pieces that it was cut into."""


@dataclass(frozen=True, slots=True)
class Extension:
    """What was added to a vocabulary."""

    pieces_before: int
    pieces: int
    added: tuple[AddedWord, ...]
    known: tuple[str, ...]
    """Words asked for that were pieces already."""
    pieces_per_word_before: float | None
    """Of the text, where one was given."""
    pieces_per_word: float | None

    @property
    def appended(self) -> int:
        """Words that found no [unused] place."""
        return self.pieces - self.pieces_before


def extend_vocabulary(
    vocabulary: Path,
    output: Path,
    *,
    words: Path | None = None,
    inputs: Sequence[str | Path] = (),
    number: int | None = None,
    reading: ReadingConfig = ReadingConfig(),
    workers: Workers = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Extension:
    """Add words to a vocabulary and write the tokenizer that has them.

    Args:
        vocabulary: a directory with a tokenizer.
        output: directory for the extended one.
        words: a file with a word a line, to be added in its order.
        inputs: text: files, folders, globs, or - for stdin.
        number: of the words of the text that are cut or [UNK], add the most frequent ones.
        reading: what the inputs hold and how it is cleaned.
        workers: processes, or a cluster.
        overwrite: replace the output.
        progress: where to tell how far it is.

    Raises:
        InputError: neither `words` nor `number` or both, a line that is not one word, nothing to add.
        RunError: the disk is full.
    """
    output = Path(output)
    artifacts.refuse_existing(output, overwrite=overwrite, inputs=[vocabulary, words, *paths_on_disk(inputs)])
    if (words is None) == (number is None):
        raise InputError(
            "one of --words FILE and --add N is needed", remedy="cloze vocab extend --help tells more"
        )
    tokenizer = Tokenizer.load(vocabulary)
    counts: Mapping[str, int] = {}
    if inputs:
        (counts,) = count_text(
            inputs, [tokenizer], reading=reading, workers=workers, progress=progress
        ).values()
    if words is not None:
        wanted = _read_words(words, tokenizer)
    elif number is not None:
        wanted = _most_frequent_cut(counts, tokenizer, number)
    pieces = set(tokenizer.pieces)
    new = [word for word in wanted if word not in pieces]
    if not new:
        raise InputError("every word of it is a piece already", where=words)
    extended = replace(
        tokenizer, pieces=tuple(extend_pieces(tokenizer.pieces, new, keep=tokenizer.added_pieces))
    )
    with artifacts.write_directory(output, kind=KIND, overwrite=overwrite) as directory:
        extended.save(directory)
    ids = {piece: index for index, piece in enumerate(extended.pieces)}
    return Extension(
        pieces_before=tokenizer.vocab_size,
        pieces=extended.vocab_size,
        added=tuple(
            AddedWord(word, ids[word], counts.get(word, 0) if counts else None, before)
            for word, before in zip(new, cut_words(tokenizer, new), strict=True)
        ),
        known=tuple(word for word in wanted if word in pieces),
        pieces_per_word_before=describe_text(tokenizer, counts).pieces_per_word if counts else None,
        pieces_per_word=describe_text(extended, counts).pieces_per_word if counts else None,
    )


def _read_words(file: Path, tokenizer: Tokenizer) -> list[str]:
    """Read a word a line, as the tokenizer changes it."""
    way = Normalization.of(tokenizer)
    words: dict[str, None] = {}
    with SILENT.bar("reading", total=None) as bar:
        for stretch in plan_stretches([file], ReadingConfig(text_format="lines")):
            for line in read_documents(stretch, bar):
                found = way.count(line.lines)
                word = next(iter(found), "")
                if found.total() != 1 or len(word) > MAX_WORD_CHARS or word == UNK:  # longer than any is read
                    what = f"{line.lines[0]!r:.60} is not one word of at most {MAX_WORD_CHARS} characters"
                    remedy = "Give a word a line; the tokenizer cuts at spaces and punctuation in any case"
                    raise InputError(what, where=line.where, remedy=remedy)
                words[word] = None
    if not words:
        raise InputError("no word in it", where=file)
    return list(words)


def _most_frequent_cut(counts: Mapping[str, int], tokenizer: Tokenizer, number: int) -> list[str]:
    """Return the most frequent words that are no piece."""
    if number < 1:
        raise InputError(f"{number} is less than 1", where="--add")
    if not counts:
        raise InputError("--add needs a text to take words from", remedy="Name files, folders or globs")
    pieces = set(tokenizer.pieces)
    usable = [
        w for w, n in counts.items() if n >= LEAST_COUNT and w not in pieces and len(w) <= MAX_WORD_CHARS
    ]
    if len(usable) < number:
        what = f"the text has {len(usable):,} words that are no piece and occur {LEAST_COUNT} times or more"
        fewer = f"Ask for {len(usable)} or fewer, or give" if usable else "Give"
        raise InputError(what, where="--add", remedy=f"{fewer} more text")
    return sorted(usable, key=lambda word: (-counts[word], word))[:number]
