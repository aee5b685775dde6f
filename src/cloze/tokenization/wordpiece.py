"""WordPiece tokenizer of BERT, and the files that every BERT tool reads.

The library `tokenizers` does the work, configured exactly as the `tokenizer.json` that `save` writes, so cloze,
transformers and `tokenizers.Tokenizer.from_file` return the same ids. Google's own Python tokenizer, which differs for
rare Unicode, is `cloze.tokenization.google_tokenizer`.
"""

import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from cloze.arguments import check_texts
from cloze.errors import InputError
from cloze.file_names import ADDED_TOKENS_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, VOCAB_FILE
from cloze.tokenization.google_tokenizer import GoogleTokenizer
from cloze.tokenization.special_tokens import CLS, CONTINUATION, ROLES, SEP, SPECIAL_TOKENS, UNK
from cloze.tokenization.tokenizer import Ids, Tokenizer
from cloze.tokenization.tokenizer_class import MAX_INPUT_CHARS_PER_WORD
from cloze.tokenization.tokenizer_files import ADDED_TOKENS_KEY, MAX_WORD_KEY, AddedToken
from cloze.tokenization.vocabulary import check_vocabulary
from cloze.tokenization.word_cache import WordCache

_MIN_CACHED_CHARACTERS = 500  # fewer are tokenized in less time than they are split into words


@dataclass(frozen=True)
class WordPieceTokenizer(Tokenizer):
    """WordPiece tokenizer of BERT: cased or uncased, Chinese or multilingual.

    >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "token", "##ization", "is", "fun", "!"]
    >>> tokenizer = WordPieceTokenizer.from_tokens(vocabulary)
    >>> encoding = tokenizer.encode("Tokenization is [MASK]!")
    >>> encoding.tokens
    ['[CLS]', 'token', '##ization', 'is', '[MASK]', '!', '[SEP]']
    >>> encoding.input_ids
    [2, 5, 6, 7, 4, 9, 3]
    >>> encoding.offsets[1:3]
    [(0, 5), (5, 12)]
    >>> tokenizer.decode(encoding.input_ids[1:-1])
    'tokenization is [MASK]!'

    Args:
        strip_accents: remove accents; None removes them if the text is lower-cased, as Google's code does.
        tokenize_chinese_chars: make every Chinese character a word.
        added_tokens: tokens besides the five special ones that are matched as a whole in the text; a str is a special
            token, like [MASK].
        max_input_chars_per_word: longer words become [UNK].
    """

    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    added_tokens: tuple[AddedToken, ...] = ()
    max_input_chars_per_word: int = MAX_INPUT_CHARS_PER_WORD

    def __post_init__(self) -> None:
        added: Iterable[AddedToken | str] = self.added_tokens
        tokens = tuple(AddedToken(token) if isinstance(token, str) else token for token in added)
        object.__setattr__(self, "added_tokens", tokens)

    @classmethod
    def from_tokens(cls, tokens: Sequence[str], **settings: Any) -> "WordPieceTokenizer":
        """Build a tokenizer from a vocabulary in memory, with other fields as keyword arguments."""
        tokens = check_texts(tokens, "tokens")
        check_vocabulary(tokens, where="vocabulary")
        return cls(tuple(tokens), **settings)

    @property
    def added_words(self) -> list[str]:
        return [token.content for token in self.added_tokens if not token.special]

    def ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Tokenize many texts at once; words are cached between calls, if no words are added to the vocabulary."""
        texts = check_texts(texts)
        return self._word_cache.ids(texts) if self._caches(texts) else super().ids(texts)

    def text_ids(self, texts: Sequence[str]) -> list[Ids]:
        if not self._caches(texts):
            return super().text_ids(texts)
        flat, lengths = self._word_cache.ids(texts)
        ids = [array("I", part.tobytes()) for part in np.split(flat, np.cumsum(lengths)[:-1])]
        for i, text in enumerate(texts):
            # the cache takes special tokens as plain text
            if any(
                token.content in text or (token.normalized and self.lowercase)
                for token in self._special_tokens.values()
            ):
                [ids[i]] = super().text_ids([text])
        return ids

    def _caches(self, texts: Sequence[str]) -> bool:
        return not self.added_words and sum(map(len, texts)) >= _MIN_CACHED_CHARACTERS

    def text_of(self, token_id: int) -> str:
        return self.tokens[token_id]

    def _files(self) -> dict[str, str]:
        config: dict[str, Any] = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.lowercase,
            "strip_accents": self.strip_accents,
            "tokenize_chinese_chars": self.tokenize_chinese_chars,
            "model_max_length": self.model_max_length,
            **ROLES,
        }
        inputs = ["input_ids", *(["token_type_ids"] if self.feeds_segments else []), "attention_mask"]
        if not self.feeds_segments:
            config["model_input_names"] = inputs
        if self.max_input_chars_per_word != MAX_INPUT_CHARS_PER_WORD:  # which BertTokenizer does not read
            generic = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs}
            config |= {**generic, MAX_WORD_KEY: self.max_input_chars_per_word}
        return {
            VOCAB_FILE: "".join(f"{token}\n" for token in self.tokens),
            TOKENIZER_FILE: self._backend.to_str(pretty=True) + "\n",
            TOKENIZER_CONFIG_FILE: json.dumps(config, indent=2) + "\n",
        }

    @cached_property
    def google_tokenizer(self) -> GoogleTokenizer:
        if self.added_words:
            what = (
                f"adds the words {', '.join(self.added_words[:5])}, which question answering does not match"
            )
            remedy = (
                f"Write all tokens to {VOCAB_FILE}, in order of their ids, delete {TOKENIZER_FILE} and "
                f"{ADDED_TOKENS_FILE}, and remove {ADDED_TOKENS_KEY} from {TOKENIZER_CONFIG_FILE}"
            )
            raise InputError(what, where="tokenizer", remedy=remedy)
        return GoogleTokenizer(
            self.tokens, lowercase=self.lowercase, strip_accents=self.strip_accents is not False
        )

    @cached_property
    def _backend(self) -> tokenizers.Tokenizer:
        backend = self.build_backend()
        added = {token: AddedToken(token) for token in SPECIAL_TOKENS}
        added |= {token.content: token for token in self.added_tokens}
        # in the order of their ids, which the library counts up
        for token in sorted(added.values(), key=lambda token: self.tokens.index(token.content)):
            add = backend.add_special_tokens if token.special else backend.add_tokens
            flags = {name: flag for name, flag in token._asdict().items() if name != "in_wordpiece"}
            add([tokenizers.AddedToken(**flags)])
        segment = int(self.feeds_segments)
        backend.post_processor = processors.TemplateProcessing(
            single=f"{CLS}:0 $A:0 {SEP}:0",
            pair=f"{CLS}:0 $A:0 {SEP}:0 $B:{segment} {SEP}:{segment}",
            special_tokens=[(CLS, self.cls_id), (SEP, self.sep_id)],
        )
        backend.decoder = decoders.WordPiece(prefix=CONTINUATION)
        return backend

    @cached_property
    def _word_cache(self) -> WordCache:
        return WordCache(self.build_backend())

    def build_backend(self) -> tokenizers.Tokenizer:
        """Return the same tokenizer of the library `tokenizers`, but without special and added tokens."""
        only_added = {token.content for token in self.added_tokens if not token.in_wordpiece}
        num_wordpiece_tokens = len(self.tokens)  # the library numbers other tokens after them
        while num_wordpiece_tokens and self.tokens[num_wordpiece_tokens - 1] in only_added:
            num_wordpiece_tokens -= 1
        model = models.WordPiece(
            {token: index for index, token in enumerate(self.tokens[:num_wordpiece_tokens])},
            unk_token=UNK,
            max_input_chars_per_word=self.max_input_chars_per_word,
        )
        backend = tokenizers.Tokenizer(model)
        backend.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.tokenize_chinese_chars,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return backend
