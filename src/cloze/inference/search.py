"""Find the passages of text files that are nearest to a question, by exact cosine similarity.

`.cloze-search` beside the documents has a folder for each model and its settings, with a file for each document. It has
the SHA-256 of the document as its name, so that only new and changed documents are embedded. It holds the SHA-256 of
the rest, then the line and the text of each passage as one line of JSON, then the vectors as float32.

Shapes: P passages, D width of a vector.
"""

import hashlib
import json
import os
import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np

from cloze.arguments import check_integer, check_text
from cloze.artifacts import directory_sha256, remove_directory
from cloze.data.build.input_shards import find_files
from cloze.data.reading.files import file_sha256, read_lines
from cloze.data.reading.text_layout import split_paragraphs
from cloze.errors import DataWarning, InputError, RunError
from cloze.file_io import write_file
from cloze.inference.embedder import Embedder, Vectors
from cloze.inference.text_predictors import TextRanker
from cloze.progress import SILENT, Progress
from cloze.results import Result
from cloze.tables import format_count
from cloze.tasks.arrays import normalize
from cloze.tokenization.sentences import sentence_spans

FOLDER = ".cloze-search"
MAX_RERANKED = 50
"""Number of nearest passages that a ranker orders."""
_FORMAT = 3  # of a document's file, and of its division into passages
_SUFFIX, _KEPT_MODELS = ".passages", 4
_DIGEST_BYTES = hashlib.sha256().digest_size
_HEADING = re.compile("#{1,6} ")

_Passages: TypeAlias = tuple[list[tuple[int, str]], Vectors]
"""Line and text of each passage of a document, and their vectors."""


@dataclass(frozen=True, slots=True, repr=False)
class Hit(Result):
    """A passage that is near to a question."""

    file: str
    """Path of its document."""
    line: int
    """Line at which it begins, from 1."""
    score: float
    """Cosine of its vector and the question's, or the score of the reranker."""
    text: str
    """The passage."""


@dataclass(frozen=True, eq=False)
class PassageIndex:
    """The passages of text files and their vectors."""

    embedder: Embedder
    passages: Sequence[tuple[str, int, str]]
    """File, line and text of each."""
    vectors: Vectors
    """[P, D], of length 1."""

    @classmethod
    def open(
        cls,
        embedder: Embedder,
        documents: Path | str,
        *,
        encoding: str | None = None,
        progress: Progress = SILENT,
    ) -> Self:
        """Read the stored vectors of a text file, or of a folder of text files; embed and store missing ones.

        Files of a folder that are not text or cannot be read are left out with a warning, and another warning says that
        vectors cannot be stored. Stored vectors are deleted if their document is not in the folder, or if four other
        models were used since.
        """
        root = Path(documents)
        if not root.exists():
            raise InputError("no such file or folder", where=root)
        encoder = replace(embedder, prompt=_prompt(embedder, "document", "passage", "corpus"))
        output = replace(encoder.output, normalize=True)
        model = (directory_sha256(encoder.directory), output, encoder.engine.number_format)
        settings = repr((_FORMAT, *model, encoder.max_seq_length, encoder.prompt, encoding)).encode()
        folder = (root if root.is_dir() else root.parent) / FOLDER / hashlib.sha256(settings).hexdigest()
        unread, unwritten = list[InputError | OSError](), list[RunError]()
        files, stored, of_file = find_files(str(root), unread), set[str](), dict[str, _Passages]()
        with progress.bar("reading", total=len(files), unit="files") as bar:
            for file in files:
                try:
                    stored.add(sha256 := file_sha256(file))
                    of_file[file] = _read_or_embed(encoder, file, encoding, folder, sha256, unwritten)
                except (InputError, OSError) as error:
                    unread.append(error)
                bar.advance(1)
        passages = [(file, *row) for file, (rows, _) in of_file.items() for row in rows]
        first = next(iter(unread), InputError("contains no text", where=root))
        if isinstance(first, OSError):
            first = InputError(f"cannot be read: {first.strerror}", where=first.filename)
        if not passages:
            raise first
        if unread:
            what = f"{format_count(len(unread), 'file')} left out. {first}"
            warnings.warn(what, DataWarning, stacklevel=2)
        if unwritten:
            again = f"The next search embeds {format_count(len(unwritten), 'file')} again"
            warnings.warn(f"{folder.parent}: {unwritten[0].what}. {again}", DataWarning, stacklevel=2)
        are_all_seen = root.is_dir() and all(
            isinstance(error, InputError | FileNotFoundError) for error in unread
        )
        _delete_unused(folder, stored if are_all_seen else None)
        return cls(embedder, passages, np.concatenate([vectors for _, vectors in of_file.values()]))

    def search(self, question: str, *, top_k: int = 10, ranker: TextRanker | None = None) -> list[Hit]:
        """Return the passages nearest to a question; a ranker orders the nearest `MAX_RERANKED`."""
        top_k = check_integer(top_k, "top_k")
        if not check_text(question, "question").strip():
            raise InputError("the text is empty", where="question", remedy="Give a text")
        vector = replace(self.embedder, prompt=self.prompt)(question)
        if ranker is None:
            return self.nearest(vector, top_k)
        hits = self.nearest(vector, max(top_k, MAX_RERANKED))
        ranked = ranker(question, [hit.text for hit in hits], top_k=top_k)
        return [replace(hits[passage.index], score=passage.score) for passage in ranked]

    @property
    def prompt(self) -> str:
        """Text to put before a question."""
        return _prompt(self.embedder, "query")

    def nearest(self, vector: Vectors, top_k: int) -> list[Hit]:
        """Return the passages with the highest cosines, the first of equal ones."""
        scores = self.vectors @ normalize(vector)
        lowest = np.partition(scores, -top_k)[-top_k] if top_k < len(scores) else -np.inf
        candidates = np.flatnonzero(scores >= lowest)
        order = candidates[np.argsort(-scores[candidates], kind="stable")][:top_k]
        rows = ((*self.passages[i], float(scores[i])) for i in order)
        return [Hit(file, line, score, text) for file, line, text, score in rows]


def _prompt(embedder: Embedder, *names: str) -> str:
    # Source: sentence-transformers 5, encode_query and encode_document
    name = next((name for name in names if name in embedder.stored.prompts), None)
    return embedder.prompt if name is None else embedder.stored.prompt(name, where=embedder.directory)


def _delete_unused(folder: Path, stored: Collection[str] | None) -> None:
    """Delete the vectors of all but the last models, and of documents that are not `stored`, if it is given."""
    with suppress(OSError):  # of another user, on a read-only disk or deleted by another process
        os.utime(folder)
        models = sorted(
            folder.parent.glob(f"{'?' * len(folder.name)}/"), key=lambda model: model.stat().st_mtime_ns
        )
        for model in models[:-_KEPT_MODELS]:
            remove_directory(model)
        for file in folder.parent.glob(f"*/*{_SUFFIX}"):
            if stored is not None and file.stem not in stored:
                file.unlink(missing_ok=True)


def _read_or_embed(
    encoder: Embedder, file: str, encoding: str | None, folder: Path, sha256: str, unwritten: list[RunError]
) -> _Passages:
    """Return the passages of a document and their vectors, which are computed where no undamaged file has them.

    `unwritten` gets the error if the vectors cannot be stored, as in a folder that is read-only.
    """
    stored = folder / f"{sha256}{_SUFFIX}"
    content = b""
    with suppress(OSError):  # another process may delete it
        content = stored.read_bytes()
    digest, content = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() == digest:
        head, _, numbers = content.partition(b"\n")
        rows = [(line, text) for line, text in json.loads(head)]
        return rows, np.frombuffer(numbers, np.float32).reshape(len(rows), encoder.width)
    limit = encoder.max_seq_length - 2 - len(encoder.token_ids([""])[0])
    if limit < 1:
        raise InputError("fills max_seq_length", where="prompt", remedy="Raise max_seq_length")
    lines = [line.strip() for line, _ in read_lines(file, encoding)]
    if file_sha256(file) != sha256:
        raise InputError("changed while it was read", where=file, remedy="Run it again")
    # with the blank line after a heading of Markdown, which belongs to the paragraph below it
    are_text = (bool(line or _HEADING.match(before)) for before, line in pairwise(["", *lines]))
    rows = []
    for is_text, block in groupby(zip(count(1), lines, are_text, strict=False), itemgetter(2)):
        if is_text:
            (line, *_), texts, _ = zip(*block, strict=True)
            rows += _split(encoder, texts, line, limit)
    vectors = normalize(encoder.embed([text for _, text in rows]).vectors)
    if not np.isfinite(vectors).all():
        raise InputError("its vectors hold NaN or infinite values", where=encoder.directory)
    content = json.dumps(rows).encode() + b"\n" + vectors.astype(np.float32).tobytes()
    try:
        with write_file(stored) as temporary:
            temporary.write_bytes(hashlib.sha256(content).digest() + content)
    except RunError as error:
        unwritten.append(error)
    return rows, vectors


def _split(encoder: Embedder, lines: Sequence[str], line: int, limit: int) -> Iterator[tuple[int, str]]:
    """Yield parts of at most `limit` tokens that end with a sentence or a line if possible, with their first line."""
    text, ends, begin = "\n".join(lines).rstrip(), [0], 0
    for paragraph in split_paragraphs(lines):
        begin = text.index(paragraph, begin)
        ends += [begin + end for _, end in sentence_spans(paragraph)]
        begin += len(paragraph)
    starts = [start for start, _ in encoder.tokenizer.encode(text).offsets[1:-1]]
    if not starts:
        return
    first, start = 0, starts[0]
    # several tokens may be of one character, which is not divided
    while (stop := max(first + limit, bisect_right(starts, start))) < len(starts):
        end = ends[bisect_right(ends, starts[stop]) - 1]
        end = end if end > start else starts[stop]
        yield line + text.count("\n", 0, start), text[start:end].rstrip()
        first = bisect_left(starts, end)
        start = starts[first]
    yield line + text.count("\n", 0, start), text[start:]
