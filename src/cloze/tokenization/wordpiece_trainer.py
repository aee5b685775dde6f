"""Learn WordPiece tokens, top down: start with every substring of every word and keep the frequent ones.

Each round counts the substrings that start where the current tokens start. From long to short, a substring that
reaches the threshold becomes a token, and its occurrences no longer count for its prefixes. Then the words are
tokenized with the new tokens, and the next round counts again.

Source: the algorithm that TensorFlow Text documents as "top-down WordPiece generation", reimplemented on arrays.
Google never published the code that learned BERT's own vocabularies.
Differs: all substrings are nodes of one trie, so a round is a few passes over arrays, in which occurrences move from
the longest substrings towards the root and stop at the nodes that become tokens.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import normalizers, pre_tokenizers

from cloze.progress import Bar
from cloze.tokenization.special_tokens import CONTINUATION, UNK
from cloze.tokenization.word_cache import BATCH_CHARACTERS, WordIndex, batch_texts


def count_words(
    lines: Iterable[str],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    max_word_chars: int = 100,
    max_distinct: int = 1_000_000,
    batch_characters: int = BATCH_CHARACTERS,
    observe: Callable[[Iterable[tuple[str, int]]], object] = lambda words: None,
) -> "Counter[str]":
    """Normalize a text, split it into words and punctuation as the tokenizer does, and count them.

    The counts of parts of a text add up to those of the text; `Counter.update` merges them.

    >>> count_words(["Où est-il?", "où?"])
    Counter({'ou': 2, '?': 2, 'est': 1, '-': 1, 'il': 1})

    Args:
        max_word_chars: longer words, which the tokenizer maps to [UNK], are counted together as "[UNK]".
        observe: called with the distinct words before normalization, and their counts.
    """
    normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=tokenize_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    counter: Counter[str] = Counter()
    batches = batch_texts(lines, batch_characters)
    for raw_words, counts in _count_raw_words(batches, max_distinct, split_chinese=tokenize_chinese_chars):
        counted = list(zip(raw_words, counts.tolist(), strict=True))
        observe(counted)
        for raw_word, count in counted:
            for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(raw_word)):
                counter[word if len(word) <= max_word_chars else UNK] += count
    return counter


def _count_raw_words(
    batches: Iterable[list[str]], max_distinct: int, *, split_chinese: bool
) -> Iterator[tuple[list[str], npt.NDArray[np.int64]]]:
    """Yield distinct unnormalized words and their counts, several times if there are many."""
    index = WordIndex(split_chinese=split_chinese)
    counts = np.zeros(0, np.int64)
    for batch in batches:
        numbers, _ = index.number(batch)
        batch_counts = np.bincount(numbers, minlength=len(index.words))
        batch_counts[: len(counts)] += counts
        counts = batch_counts
        if len(index.words) > max_distinct:
            yield index.words, counts
            index, counts = WordIndex(split_chinese=split_chinese), np.zeros(0, np.int64)
    yield index.words, counts


Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ROUNDS = 4
MIN_COUNT = 2
"""A substring that occurs once is not worth a token."""


@dataclass(frozen=True)
class Words:
    """Distinct words end to end. A position is an index into `characters`.

    Shapes (C characters in all, W words): characters, ends [C], where `ends` is the end of the position's word;
    weights [C], the number of occurrences of the word; starts [W].
    """

    characters: Ints
    ends: Ints
    weights: Ints
    starts: Ints

    @classmethod
    def concatenate(cls, words: Sequence[str], counts: Sequence[int]) -> "Words":
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        code_points = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32).astype(np.int64)
        ends = np.cumsum(lengths)
        return cls(
            characters=code_points,
            ends=np.repeat(ends, lengths),
            weights=np.repeat(np.asarray(counts, np.int64), lengths),
            starts=ends - lengths,
        )


@dataclass(frozen=True)
class Trie:
    """The frequent substrings, with separate roots for substrings that start a word and those within one.

    Nodes are sorted by depth. Node 0 is the root of substrings at the start of a word, node 1 of those within; every
    character has nodes at depth 1, frequent or not.

    Shapes (N nodes, D depths): parent; final, one position where the substring ends; depth [N]; level_starts
    [D+1]; leaf, the deepest node of the substrings that start at a position [C].
    """

    parent: Ints
    final: Ints
    depth: Ints
    level_starts: Ints
    leaf: Ints

    @property
    def levels(self) -> list[slice]:
        """The nodes of depth 0, 1, and so on."""
        return [slice(int(a), int(b)) for a, b in zip(self.level_starts, self.level_starts[1:], strict=False)]


def build_trie(words: Words, minimum: int) -> Trie:
    """Collect the substrings that occur at least `minimum` times."""
    _, symbol = np.unique(words.characters, return_inverse=True)
    symbols = int(symbol.max()) + 1
    leaf = np.ones(len(symbol), np.int64)
    leaf[words.starts] = 0
    parents, finals = [np.zeros(2, np.int64)], [np.full(2, -1)]
    level_starts = [0, 2]
    active = np.arange(len(symbol))
    while len(active):
        depth = len(parents) - 1
        edges, first, edge = np.unique(
            leaf[active] * symbols + symbol[active + depth], return_index=True, return_inverse=True
        )
        kept = np.bincount(edge, weights=words.weights[active]) >= (minimum if depth else 0)
        parents.append(edges[kept] // symbols)
        finals.append(active[first[kept]] + depth)
        node = level_starts[-1] + np.cumsum(kept) - 1
        level_starts.append(level_starts[-1] + int(kept.sum()))
        active, edge = active[kept[edge]], edge[kept[edge]]
        leaf[active] = node[edge]
        active = active[active + depth + 1 < words.ends[active]]
    sizes = np.diff(level_starts)
    return Trie(
        parent=np.concatenate(parents),
        final=np.concatenate(finals),
        depth=np.repeat(np.arange(len(sizes)), sizes),
        level_starts=np.asarray(level_starts),
        leaf=leaf,
    )


def count_tokens(words: Words, trie: Trie, threshold: int) -> Ints:
    """Run the rounds. Returns the occurrences of each node as a token; 0 if it is not a token. [N]."""
    starts = np.ones(len(words.characters), np.bool_)
    counts = _count_longest(words, trie, starts, threshold)
    for _ in range(ROUNDS - 1):
        starts = _tokenize(words, trie, counts > 0)
        counts = _count_longest(words, trie, starts, threshold)
    return counts


def _count_longest(words: Words, trie: Trie, starts: Bools, threshold: int) -> Ints:
    """Count each occurrence for the longest frequent substring at its start."""
    counts = np.bincount(trie.leaf[starts], words.weights[starts], len(trie.parent)).astype(np.int64)
    levels = trie.levels
    for level, above in zip(levels[:0:-1], levels[-2::-1], strict=True):
        rare = counts[level] < threshold
        parents = trie.parent[level][rare] - above.start
        counts[above] += np.bincount(parents, counts[level][rare], above.stop - above.start).astype(np.int64)
        counts[level][rare] = 0
    counts[levels[0]] = 0
    return counts


def _tokenize(words: Words, trie: Trie, is_token: Bools) -> Bools:
    """Return where tokens start, [C], matching the longest first; single characters always match."""
    longest = np.where(is_token, trie.depth, 0)
    for level in trie.levels[1:]:
        longest[level] = np.maximum(longest[level], longest[trie.parent[level]])
    step = np.maximum(longest[trie.leaf], 1)
    starts = np.zeros(len(words.characters), np.bool_)
    position = words.starts
    while len(position):
        starts[position] = True
        following = position + step[position]
        position = following[following < words.ends[position]]
    return starts


def learn_tokens(words: Words, alphabet: Sequence[int], number: int, bar: Bar) -> list[str]:
    """Return tokens besides the alphabet, by binary search for the threshold that gives `number`, most frequent first.

    They are fewer if the text has not enough that occur twice. The code points of the alphabet are tokens anyway, with
    and without ##, and the only characters of words of several characters.
    """
    # Substrings below the threshold cannot become tokens, so a trie with a high minimum is tried first.
    minimum = max(MIN_COUNT, int(words.weights[words.starts].sum()) // 1_000_000)
    while True:
        trie = build_trie(words, minimum)
        countable = ~((trie.depth == 1) & np.isin(words.characters[trie.final], alphabet))
        counts = np.where(countable, count_tokens(words, trie, minimum), 0)
        if np.count_nonzero(counts) >= number or minimum == MIN_COUNT:
            break
        minimum = max(MIN_COUNT, minimum // 4)
    low, high = minimum, int(words.weights.sum()) + 1
    while high - low > 1 and np.count_nonzero(counts) != number:
        # Counts follow Zipf's law, so the search uses the geometric mean.
        threshold = min(max(int((low * high) ** 0.5), low + 1), high - 1)
        new_counts = np.where(countable, count_tokens(words, trie, threshold), 0)
        if np.count_nonzero(new_counts) >= number:
            low, counts = threshold, new_counts
        else:
            high = threshold
        bar.advance(1)
    ranked = []
    for node in np.flatnonzero(counts):
        end = int(trie.final[node]) + 1
        start = end - int(trie.depth[node])
        is_within = start > 0 and words.ends[start - 1] == words.ends[start]
        token = (CONTINUATION if is_within else "") + "".join(map(chr, words.characters[start:end]))
        ranked.append((-int(counts[node]), token))
    return [token for _, token in sorted(ranked)[:number]]
