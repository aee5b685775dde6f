"""Train, extend and inspect vocabularies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from cloze import artifacts
from cloze.api.texts import BuildOptions, Inputs, ProcessingOptions, build_run, open_text
from cloze.arguments import check_paths, check_texts
from cloze.errors import InputError
from cloze.model_paths import resolve_checkpoint
from cloze.remote_files import write_directory_to
from cloze.results import Result
from cloze.signatures import checks_arguments

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.build.vocabulary import Extension
    from cloze.tokenization.statistics import TextStatistics, VocabularyStatistics
    from cloze.tokenization.tokenizer import Tokenizer


@checks_arguments()
def load_tokenizer(directory: str | Path) -> "Tokenizer":
    """Load the tokenizer of a model or a vocabulary.

    Reads `tokenizer.json` if it exists, else `vocab.txt`. As in transformers, case, accents and Chinese characters in
    `tokenizer_config.json` take precedence. With `vocab.txt` alone, text is lower-cased if no token has a capital
    letter.

    The tokenizer is called as one of transformers: `tokenizer(texts, padding=True, truncation=True,
    return_tensors="pt")`.

    Args:
        directory: directory of cloze or of any BERT tool, run, cloze-mini or hf://org/name.
    """
    from cloze.tokenization import loading

    return loading.load_tokenizer(resolve_checkpoint(directory, files="tokenizer"))


@checks_arguments()
def train_vocabulary(
    inputs: Inputs = (),
    *,
    output: str | Path,
    texts: Any = None,
    size: int = 30_522,
    cased: bool = False,
    keep_accents: bool = False,
    max_word_chars: int = 100,
    **options: Unpack[BuildOptions],
) -> "Tokenizer":
    """Train a WordPiece vocabulary on text.

    The same text gives the same bytes with any number of workers.

    >>> import cloze, tempfile
    >>> texts = ["the moor at night", "the hound on the moor"] * 50
    >>> tokenizer = cloze.train_vocabulary(texts=texts, output=f"{tempfile.mkdtemp()}/vocab", size=25)
    >>> tokenizer.vocab_size, "the" in tokenizer.tokens
    (25, True)

    Args:
        inputs: text files, folders, globs or URLs, plain or compressed; - is stdin.
        output: directory or URL, as in s3://bucket/vocab, of vocab.txt and the tokenizer.
        texts: instead of inputs, texts in memory, each a document: any collection or iterator, or a table with the
            column text.
        size: number of tokens, with the special ones.
        cased: keep upper case and accents.
        keep_accents: lower-case without removing accents and the marks of scripts such as Devanagari, Thai or Korean.
        max_word_chars: words of more characters are [UNK]. Runs of Thai, Lao or Khmer are often longer than 100.
    """
    from cloze.data.build import vocabulary

    with (
        open_text(inputs, texts, options) as (files, reading),
        write_directory_to(output, overwrite=options["overwrite"]) as directory,
    ):
        config = vocabulary.VocabularyConfig(
            reading=reading,
            size=size,
            lowercase=not cased,
            keep_accents=keep_accents,
            max_word_chars=max_word_chars,
        )
        return vocabulary.train_vocabulary(
            files, directory, config, build_run(options, overwrite=options["overwrite"])
        )


@checks_arguments()
def extend_vocabulary(
    vocabulary: str | Path,
    inputs: Inputs = (),
    *,
    output: str | Path,
    words: str | Path | Sequence[str] | None = None,
    number: int | None = None,
    texts: Any = None,
    **options: Unpack[BuildOptions],
) -> "Extension":
    """Add words to a vocabulary: first in its [unused] tokens, then at its end.

    All other tokens keep their ids.

    Args:
        vocabulary: directory of a vocabulary or of a model with a tokenizer, cloze-mini or hf://org/name.
        inputs: text to take words from, or to count words in: files, folders, globs or URLs; - is stdin.
        output: directory of the extended vocabulary.
        words: file of words to add, one per line. In Python also a list of words.
        number: instead of words, number of words to add: the most frequent ones of the text that are not tokens yet.
        texts: instead of inputs, texts in memory.
    """
    from cloze.data.build.input_shards import local_paths
    from cloze.data.build.vocabulary import (
        KIND,
        add_words,
        count_input_words,
        most_frequent_words,
        read_words,
    )
    from cloze.tokenization.loading import load_wordpiece

    source, target = resolve_checkpoint(vocabulary, files="tokenizer"), Path(output)
    words = Path(words) if isinstance(words, str) else words
    counts: Mapping[str, int] = {}
    run = build_run(options, overwrite=options["overwrite"])
    with open_text(inputs, texts, options) as (files, reading):
        read = [source, *([words] if isinstance(words, Path) else []), *local_paths(files)]
        artifacts.check_output_path(target, overwrite=run.overwrite, inputs=read)
        if (words is None) == (number is None):
            remedy = "Give words, or how many to add"
            raise InputError("one of `words` and `number` is needed", remedy=remedy)
        tokenizer = load_wordpiece(source)
        if files:
            (counts,) = count_input_words(files, [tokenizer], reading, run)
    if words is not None:
        wanted = read_words(words, tokenizer)
    elif number is not None:
        wanted = most_frequent_words(counts, tokenizer, number)
    extended, extension = add_words(tokenizer, wanted, counts)
    with artifacts.write_directory(target, kind=KIND, overwrite=run.overwrite) as directory:
        extended.save(directory)
    return extension


@dataclass(frozen=True, slots=True, repr=False)
class InspectedVocabulary(Result):
    """The tokens of a vocabulary, and how it splits text."""

    directory: str
    vocabulary: "VocabularyStatistics"
    text: "TextStatistics | None"
    """How it splits the words of the inputs; None without inputs."""
    tokens: tuple[tuple[str, ...], ...]
    """The tokens of each text in the argument `text`."""


@checks_arguments()
def inspect_vocabulary(
    vocabulary: str | Path,
    inputs: Inputs = (),
    *,
    text: Sequence[str] = (),
    beside: Sequence[str | Path] = (),
    texts: Any = None,
    **options: Unpack[ProcessingOptions],
) -> list[InspectedVocabulary]:
    """Show what is in a vocabulary and how it splits text.

    As in BERT, each punctuation mark and each Chinese character is a word.

    >>> import cloze
    >>> [inspected] = cloze.inspect_vocabulary("cloze-mini", text=["unreadable"], texts=["The ferret sat down there."])
    >>> inspected.tokens, inspected.text.words, inspected.text.tokens
    ((('unrea', '##da', '##ble'),), 6, 7)

    Args:
        vocabulary: directory of a vocabulary or of a model with a tokenizer, cloze-mini or hf://org/name.
        inputs: text to count words in: files, folders, globs or URLs; - is stdin.
        text: text to show the tokens of; several are possible.
        beside: other vocabularies to compare with.
        texts: instead of inputs, texts in memory.

    Returns:
        The vocabulary, then those beside it.
    """
    from cloze.data.build.vocabulary import count_input_words
    from cloze.tokenization.loading import load_wordpiece
    from cloze.tokenization.statistics import describe_text, describe_vocabulary

    directories = [vocabulary, *check_paths(beside, "beside")]
    tokenizers = [load_wordpiece(resolve_checkpoint(path, files="tokenizer")) for path in directories]
    examples = check_texts(text, "text")
    counts: Sequence[Mapping[str, int]] = [{}] * len(tokenizers)
    with open_text(inputs, texts, options) as (files, reading):
        if files:
            counts = count_input_words(files, tokenizers, reading, build_run(options))
    return [
        InspectedVocabulary(
            str(directory),
            describe_vocabulary(tokenizer),
            describe_text(tokenizer, word_counts) if word_counts else None,
            tuple(tuple(tokenizer.encode(example).tokens[1:-1]) for example in examples),
        )
        for directory, tokenizer, word_counts in zip(directories, tokenizers, counts, strict=True)
    ]
