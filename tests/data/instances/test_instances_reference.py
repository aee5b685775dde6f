"""Batches drawn at once are those that a plain loop draws one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloze.data.hashing import mix, uniform
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import MaskingConfig
from cloze.data.instances.pairs import PairsConfig
from corpora import Instance, instances_of

pytestmark = pytest.mark.protected

sentences = st.lists(st.integers(5, 104), min_size=1, max_size=12)
texts = st.lists(st.lists(sentences, min_size=2, max_size=6), min_size=2, max_size=6)
shapes = st.fixed_dictionaries(
    {
        "max_seq_length": st.integers(8, 40),
        "max_predictions_per_seq": st.none() | st.integers(1, 6),
        "pairs": st.builds(
            PairsConfig, next_sentence=st.booleans(), short_seq_prob=st.sampled_from([0, 0.5])
        ),
        "masking": st.builds(
            MaskingConfig, masked_lm_prob=st.sampled_from([0.15, 0.5, 0.9]), whole_word=st.booleans()
        ),
        "seed": st.integers(0, 3),
        "phase": st.integers(0, 1),
    }
)


def cut(start: int, length: int, kept: int, key: int) -> range:
    """Leave out the surplus, a share drawn from the key at the front."""
    front = int(uniform(key) * (length - kept + 1))
    return range(start + front, start + front + kept)


def words_of(ids: list[int], text: list[bool], source: DynamicInstances) -> list[list[int]]:
    """Return the places that may be masked, those of a word together."""
    words: list[list[int]] = []
    for place, token in enumerate(ids):
        if not text[place]:
            continue
        is_continuation = (
            source.masking.whole_word and source.tokenizer.is_continuation[token] and text[place - 1]
        )
        if is_continuation:
            words[-1].append(place)
        else:
            words.append([place])
    return words


def draw(source: DynamicInstances, epoch: int, position: int) -> Instance:
    """Draw one instance, token by token."""
    plan, tokenizer = source.plan(epoch), source.tokenizer
    starts = [int(plan.a_start[position]), int(plan.b_start[position])]
    lengths = [int(plan.a_end[position]) - starts[0], int(plan.b_end[position]) - starts[1]]
    segments = 2 if source.pairs.next_sentence else 1
    kept = lengths[:segments]
    while sum(kept) > source.max_seq_length - segments - 1:
        kept[0 if len(kept) == 1 or kept[0] > kept[1] else 1] -= 1
    key = mix(source.seed, source.phase, epoch, position)
    ids, types, text = [tokenizer.cls_id], [0], [False]
    for segment in range(segments):
        places = cut(starts[segment], lengths[segment], kept[segment], mix(11 + segment, after=key))
        ids += [*source.documents.read(places.start, places.stop).tolist(), tokenizer.sep_id]
        types += [segment] * (len(places) + 1)
        text += [True] * len(places) + [False]

    key = mix(13, after=key)
    most = source.max_predictions_per_seq or len(ids)
    left = min(most, max(1, round(source.masking.masked_lm_prob * len(ids))))
    chosen: list[int] = []
    for word in sorted(words_of(ids, text, source), key=lambda word: int(mix(key, word[0], 1))):
        if len(word) <= left:
            chosen += word
            left -= len(word)
    chosen.sort()
    read = list(ids)
    for place in chosen:
        drawn = uniform(key, place, 2)
        if drawn < source.masking.mask_token_prob:
            read[place] = tokenizer.mask_id
        elif drawn < source.masking.mask_token_prob + source.masking.random_token_prob:
            read[place] = int(uniform(key, place, 3) * tokenizer.vocab_size)
    label = int(plan.next_sentence_labels[position])
    return tuple(ids), tuple(read), tuple(types), tuple(chosen), label


@given(text=texts, shape=shapes, epoch=st.integers(0, 2), shuffle=st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
@pytest.mark.slow
def test_a_batch_equals_the_reference_loop(make_documents, tokenizer, text, shape, epoch, shuffle):
    source = DynamicInstances(make_documents(text), tokenizer, **shape)
    positions = list(range(source.num_instances(epoch)))
    shuffle.shuffle(positions)
    expected = [draw(source, epoch, position) for position in positions]
    expected.sort(key=lambda instance: -len(instance[0]))
    assert instances_of(source.batch(epoch, np.array(positions))) == expected


@pytest.mark.parametrize("next_sentence", [False, True])
@pytest.mark.parametrize(
    ("whole_word", "most", "share"), [(False, 3, 0.15), (True, None, 0.15), (False, None, 0.98)]
)
def test_a_batch_of_many_documents_equals_the_loop(
    documents, tokenizer, next_sentence, whole_word, most, share
):
    pairs = PairsConfig(next_sentence=next_sentence)
    masking = MaskingConfig(masked_lm_prob=share, whole_word=whole_word)
    source = DynamicInstances(documents, tokenizer, 64, most, pairs=pairs, masking=masking, seed=2, phase=1)
    positions = np.arange(5, source.num_instances(1), 9)
    expected = [draw(source, 1, position) for position in positions.tolist()]
    expected.sort(key=lambda instance: -len(instance[0]))
    assert instances_of(source.batch(1, positions)) == expected
