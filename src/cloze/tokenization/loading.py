"""Load the tokenizer of a directory."""

from dataclasses import replace
from pathlib import Path

from cloze.artifacts import verify
from cloze.errors import InputError
from cloze.file_names import MANIFEST, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, VOCAB_FILE
from cloze.tokenization.library_limits import LibraryPanics
from cloze.tokenization.library_tokenizer import LibraryTokenizer
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.tokenizer_files import DAMAGED_REMEDY, TokenizerFiles
from cloze.tokenization.wordpiece import WordPieceTokenizer


def load_tokenizer(directory: Path | str) -> Tokenizer:
    """Load the tokenizer in a directory of cloze or of any BERT tool.

    Reads `tokenizer.json` if it exists, else `vocab.txt`, as the tokenizer class of the directory does in transformers:
    `PreTrainedTokenizerFast` reads `tokenizer.json` alone, `BertTokenizer` takes case, accents and Chinese characters
    from `tokenizer_config.json`. Where no file names a class, text is lower-cased if no token of `vocab.txt` has a
    capital letter.
    """
    directory = Path(directory)
    if directory.is_file():
        raise InputError("is a file", where=directory, remedy="Give its directory")
    if (directory / MANIFEST).exists():
        verify(directory, only={VOCAB_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE}.__contains__)
    files = TokenizerFiles.read(directory)
    where = directory / (VOCAB_FILE if files.library is None else TOKENIZER_FILE)
    tokenizer: Tokenizer
    try:
        with LibraryPanics():
            if files.is_wordpiece:
                tokenizer = WordPieceTokenizer(
                    **files.wordpiece_settings(),
                    model_max_length=files.model_max_length,
                    feeds_segments=files.feeds_segments,
                )
            else:
                tokenizer = LibraryTokenizer.parse(files)
            tokenizer.encode("a", "a")  # which fails for parts that do not belong together
    except InputError:
        raise
    except Exception as error:  # the library raises no other class
        what = f"damaged, or {TOKENIZER_CONFIG_FILE} is ({error!r})"
        raise InputError(what, where=where, remedy=DAMAGED_REMEDY) from error
    return tokenizer


def load_wordpiece(directory: Path | str) -> WordPieceTokenizer:
    """Load a tokenizer for building a vocabulary or a data set; refuse another kind than BERT's."""
    tokenizer = load_tokenizer(directory)
    if not isinstance(tokenizer, WordPieceTokenizer):
        what = f"a tokenizer of the kind {tokenizer.kind}: vocabularies and data sets are BERT's WordPiece"
        remedy = "Give the vocabulary of a BERT, or one that cloze vocab learned"
        raise InputError(what, where=directory, remedy=remedy)
    return replace(tokenizer, feeds_segments=True)  # as pre-training does
