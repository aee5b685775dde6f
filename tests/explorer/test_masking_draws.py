"""The random numbers that are shown are those that masking in pre-training draws."""

from itertools import product

import numpy as np

from cloze.data.hashing import mix
from cloze.data.instances.masking import MaskingConfig, mask_tokens
from cloze.explorer.text_window import text_window, view_masking
from cloze.tokenization.wordpiece import WordPieceTokenizer
from tiny_models import SPECIAL

TOKENIZER = WordPieceTokenizer.from_tokens([*SPECIAL, "the", "river", "bank", "##s", "money", "."])
TEXT, PAIR = "the river banks. the money.", "the bank, the river. money."


def test_the_shown_numbers_explain_what_pre_training_draws() -> None:
    window = text_window(TOKENIZER, TEXT, PAIR, max_tokens=99)
    encoding = TOKENIZER.encode(TEXT, PAIR)
    kinds = []
    for seed in range(300):
        shown = view_masking(TOKENIZER, window, seed=seed)
        ids, bounds = np.array(encoding.input_ids), np.array([0, len(encoding)], np.int32)
        is_text = np.array([token not in SPECIAL or token == "[UNK]" for token in encoding.tokens])
        rest = {"max_predictions_per_seq": None, "is_continuation": TOKENIZER.is_continuation, "mask_id": 4}
        masked, positions, _ = mask_tokens(ids, bounds, is_text, mix([seed]), MaskingConfig(), **rest)
        assert shown["masked"] == [TOKENIZER.tokens[token_id] for token_id in masked]
        assert shown["positions"] == positions.tolist()
        assert len(positions) == round(0.15 * len(encoding)) == 3
        text = [place for place, is_one in enumerate(is_text) if is_one]
        assert sorted(sorted(text, key=shown["select"].__getitem__)[:3]) == shown["positions"]
        for place, draw, kind in zip(positions, shown["replace"], shown["kinds"], strict=True):
            expected = "mask" if draw < 0.8 else "random" if draw < 0.9 else "keep"
            assert kind == expected
            assert kind != "mask" or shown["masked"][place] == "[MASK]"
            assert kind != "keep" or shown["masked"][place] == encoding.tokens[place]
            kinds.append(kind)
    shares = [kinds.count(kind) / len(kinds) for kind in ("mask", "random", "keep")]
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.03)


def test_the_same_seed_draws_the_same() -> None:
    window = text_window(TOKENIZER, TEXT, max_tokens=99)
    first, again, other = (view_masking(TOKENIZER, window, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first["select"] != other["select"]
    for shown, place in product((first, other), (0, -1)):
        assert shown["masked"][place] in ("[CLS]", "[SEP]")
