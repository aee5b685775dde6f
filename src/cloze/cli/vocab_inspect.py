"""`cloze vocab inspect`: show what is in a vocabulary and how it splits text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cloze.cli import options
from cloze.cli.reading_options import ReadingFlags
from cloze.tables import text_table

_VOCABULARY_ROWS = {
    "tokens": "tokens",
    "lowercase": "lower-cases",
    "words": "  words and starts of words",
    "continuations": "  continuations (##)",
    "characters": "  single characters",
    "reserved": "  reserved",
}
_TEXT_ROWS = {
    "words": "words of the text",
    "distinct_words": "  distinct",
    "tokens": "tokens of the text",
    "tokens_per_word": "tokens per word",
    "cut_words": "words split",
    "unknown_words": "words unknown ([UNK])",
    "continuations": "tokens that continue a word",
    "characters": "tokens that are one character of a split word",
    "unused_tokens": "vocabulary not used by the text",
}


def run(
    vocabulary: options.Vocabulary,
    corpus: options.TextInputs = (),
    /,
    *,
    text: Annotated[options.Repeated, options.Flag(metavar="TEXT")] = (),
    beside: Annotated[tuple[str, ...], options.Flag(metavar="VOCAB…")] = (),
    reading: ReadingFlags,
    pool: options.WorkerFlags,
    flags: options.Flags,
) -> None:
    """Show what is in a vocabulary and how it splits text.

    As in BERT, each punctuation mark and each Chinese character is a word.

    Args:
        corpus: Text to count words in: files, folders or globs; - is stdin.
        text: Text to show the tokens of; may be repeated.
        beside: Other vocabularies to compare with.
    """
    from cloze.data.word_counts import count_input_words
    from cloze.tokenization.statistics import describe_text, describe_vocabulary
    from cloze.tokenization.tokenizer import Tokenizer

    directories = [vocabulary, *beside]
    tokenizers = [Tokenizer.load_wordpiece(directory) for directory in directories]
    counts: Sequence[Mapping[str, int]] = [{}] * len(tokenizers)
    if corpus:
        counts = count_input_words(
            corpus, tokenizers, reading=reading.config, workers=pool.resolve(), progress=flags.progress
        )
    results: list[dict[str, Any]] = []
    for directory, tokenizer, word_counts in zip(directories, tokenizers, counts, strict=True):
        result: dict[str, Any] = {
            "directory": str(directory),
            "vocabulary": asdict(describe_vocabulary(tokenizer)),
        }
        if word_counts:
            statistics = describe_text(tokenizer, word_counts)
            result["text"] = asdict(statistics)
        result["tokens"] = [tokenizer.encode(example).tokens[1:-1] for example in text]
        results.append(result)
    flags.print(results if beside else results[0], "\n".join(_format(results)))


def _format(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = [Path(result["directory"]).name or result["directory"] for result in results]
    rows = [
        [label, *(_format_cell(result["vocabulary"][key]) for result in results)]
        for key, label in _VOCABULARY_ROWS.items()
    ]
    if "text" in results[0]:
        for key, label in _TEXT_ROWS.items():
            is_share = key != "tokens_per_word"
            cells = (_format_cell(result["text"][key], is_share=is_share) for result in results)
            rows.append([label, *cells])
    yield text_table(["", *names], rows)
    for name, result in zip(names, results, strict=True):
        if len(results) > 1:
            yield f"{name}:"
        yield f"  longest: {' '.join(result['vocabulary']['longest'])}"
        if "text" in result:
            yield from _format_words("split most", result["text"]["most_cut"])
            yield from _format_words("unknown", result["text"]["unknown"])
        yield from (f"  {' '.join(tokens)}" for tokens in result["tokens"])


def _format_words(label: str, words: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if words:
        parts = (f"{word['word']} ({word['count']:,}: {' '.join(word['tokens'])})" for word in words)
        yield f"  {label}: {', '.join(parts)}"


def _format_cell(value: float, *, is_share: bool = False) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3%}" if is_share else f"{value:.4f}"
