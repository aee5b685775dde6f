"""The baseline for tagging: tags that do not depend on the sentence."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from cloze.tasks.tag_predictions import TagPrediction
from cloze.tasks.tag_schemes import Scheme, convert_tags
from cloze.tasks.tagged_text import TaggedText


def most_frequent_tags(
    scheme: Scheme, train: Sequence[TaggedText], dev: Sequence[TaggedText]
) -> list[TagPrediction]:
    """Tag every word with its most frequent tag; an unseen word is O, or has the most frequent plain tag."""
    learned_scheme: Scheme = "plain" if scheme == "plain" else "IOB2"
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in train:
        for sentence in example.sentences:
            tags = convert_tags(sentence.tags or (), learned_scheme)
            for word, tag in zip(sentence.words, tags, strict=True):
                counts[word][tag] += 1
    unseen = sum(counts.values(), Counter()).most_common(1)[0][0] if scheme == "plain" else "O"
    most_frequent = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    return [
        _certain_tags(
            [
                convert_tags([most_frequent.get(word, unseen) for word in sentence.words], scheme)
                for sentence in example.sentences
            ]
        )
        for example in dev
    ]


def _certain_tags(sentences: Sequence[tuple[str, ...]]) -> TagPrediction:
    return TagPrediction(tuple(sentences), tuple((1.0,) * len(tags) for tags in sentences))
