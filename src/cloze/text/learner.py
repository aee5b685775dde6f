"""WordPiece learning, top down: begin with every substring of every word and keep the frequent ones.

A round counts, for each substring that begins where the words are cut now, how often it occurs, and goes from
long to short: what reaches the threshold becomes a piece and takes its occurrences away from its prefixes.
Then the words are cut with the new pieces, and the next round counts again.

Source: the learner that TensorFlow Text documents ("top-down WordPiece generation"), written anew on arrays.
Google never published the learner of BERT's own vocabularies.
Differs: all substrings are nodes of one trie, so a round is a few passes over arrays, in which occurrences
flow from the longest substrings towards the root and stop at the nodes that become pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cloze.progress import Bar
from cloze.text.pieces import CONTINUATION

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ROUNDS = 4
LEAST_COUNT = 2  # what occurs once is worth no piece


@dataclass(frozen=True)
class Words:
    """Distinct words end to end. A position is a place in `characters`.

    Shapes (C characters in all, W words): characters, ends [C], where `ends` is the end of the position's
    word; weights [C], how often the word occurs; starts [W].
    """

    characters: Ints
    ends: Ints
    weights: Ints
    starts: Ints

    @classmethod
    def of(cls, words: Sequence[str], counts: Sequence[int]) -> "Words":
        """Lay words end to end."""
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
    """The substrings that occur often enough, those that begin a word apart from those within one.

    Nodes of one depth lie together, shallow first. Node 0 is the root of substrings at the start of a word,
    node 1 of those within; every character is there at depth 1, rare or not.

    Shapes (N nodes, D depths): parent; final, one position where the substring ends; depth [N]; level_starts
    [D+1]; leaf, the deepest node of the substrings that begin at a position [C].
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
    going_on = np.arange(len(symbol))
    while len(going_on):
        depth = len(parents) - 1
        edges, first, edge = np.unique(
            leaf[going_on] * symbols + symbol[going_on + depth], return_index=True, return_inverse=True
        )
        kept = np.bincount(edge, weights=words.weights[going_on]) >= (minimum if depth else 0)
        parents.append(edges[kept] // symbols)
        finals.append(going_on[first[kept]] + depth)
        node = level_starts[-1] + np.cumsum(kept) - 1
        level_starts.append(level_starts[-1] + int(kept.sum()))
        going_on, edge = going_on[kept[edge]], edge[kept[edge]]
        leaf[going_on] = node[edge]
        going_on = going_on[going_on + depth + 1 < words.ends[going_on]]
    sizes = np.diff(level_starts)
    return Trie(
        parent=np.concatenate(parents),
        final=np.concatenate(finals),
        depth=np.repeat(np.arange(len(sizes)), sizes),
        level_starts=np.asarray(level_starts),
        leaf=leaf,
    )


def count_pieces(words: Words, trie: Trie, threshold: int) -> Ints:
    """Run the rounds. Returns how often each node occurs as a piece, 0 where it is none. [N]."""
    begins = np.ones(len(words.characters), np.bool_)
    counts = _flow(words, trie, begins, threshold)
    for _ in range(ROUNDS - 1):
        begins = _cut(words, trie, counts > 0)
        counts = _flow(words, trie, begins, threshold)
    return counts


def _flow(words: Words, trie: Trie, begins: Bools, threshold: int) -> Ints:
    """Let the occurrences of what begins at these positions flow up to the longest frequent substrings."""
    counts = np.bincount(trie.leaf[begins], words.weights[begins], len(trie.parent)).astype(np.int64)
    levels = trie.levels
    for level, above in zip(levels[:0:-1], levels[-2::-1], strict=True):
        rare = counts[level] < threshold
        parents = trie.parent[level][rare] - above.start
        counts[above] += np.bincount(parents, counts[level][rare], above.stop - above.start).astype(np.int64)
        counts[level][rare] = 0
    counts[levels[0]] = 0
    return counts


def _cut(words: Words, trie: Trie, is_piece: Bools) -> Bools:
    """Cut every word by the longest piece first, from left to right; single characters are always pieces.

    Returns: whether a piece begins at a position. [C].
    """
    longest = np.where(is_piece, trie.depth, 0)
    for level in trie.levels[1:]:
        longest[level] = np.maximum(longest[level], longest[trie.parent[level]])
    step = np.maximum(longest[trie.leaf], 1)
    begins = np.zeros(len(words.characters), np.bool_)
    here = words.starts
    while len(here):
        begins[here] = True
        after = here + step[here]
        here = after[after < words.ends[here]]
    return begins


def learn_pieces(words: Words, alphabet: Sequence[int], number: int, bar: Bar) -> list[str]:
    """Learn the pieces beside the alphabet, by a binary search for the threshold that gives `number` of them.

    Args:
        words: what to learn from; those of several characters are made of the alphabet.
        alphabet: code points that are pieces in any case, alone and with ##, and not counted here.
        number: pieces wanted.
        bar: told of every threshold tried.

    Returns:
        Pieces, the most frequent first; fewer than `number` where the text has no more that occur twice.
    """
    # A substring that occurs less often than the threshold is no piece: few nodes serve, where they are
    # enough.
    minimum = max(LEAST_COUNT, int(words.weights[words.starts].sum()) // 1_000_000)
    while True:
        trie = build_trie(words, minimum)
        countable = ~((trie.depth == 1) & np.isin(words.characters[trie.final], alphabet))
        counts = np.where(countable, count_pieces(words, trie, minimum), 0)
        if np.count_nonzero(counts) >= number or minimum == LEAST_COUNT:
            break
        minimum = max(LEAST_COUNT, minimum // 4)
    enough, too_high = minimum, int(words.weights.sum()) + 1
    while too_high - enough > 1 and np.count_nonzero(counts) != number:
        # Counts follow Zipf's law, so the middle is the geometric one.
        threshold = min(max(int((enough * too_high) ** 0.5), enough + 1), too_high - 1)
        tried = np.where(countable, count_pieces(words, trie, threshold), 0)
        if np.count_nonzero(tried) >= number:
            enough, counts = threshold, tried
        else:
            too_high = threshold
        bar.advance(1)
    nodes = np.flatnonzero(counts)
    ranked = sorted((-int(counts[node]), _spell(words, trie, node)) for node in nodes)
    return [piece for _, piece in ranked[:number]]


def _spell(words: Words, trie: Trie, node: np.intp) -> str:
    end = int(trie.final[node]) + 1
    start = end - int(trie.depth[node])
    within = start > 0 and words.ends[start - 1] == words.ends[start]
    return (CONTINUATION if within else "") + "".join(map(chr, words.characters[start:end]))
