"""Show how pre-training masks one text: the random numbers that it draws, and what they decide.

Shapes: T tokens, P tokens to predict.
"""

from typing import Any

import numpy as np

from cloze.data.hashing import mix, uniform
from cloze.data.instances.masking import REPLACE, SELECT, MaskingConfig, hash_positions, mask_tokens
from cloze.explorer.text_window import TextWindow
from cloze.tokenization.tokenizer import Tokenizer

_DIGITS = 6


def view_masking(tokenizer: Tokenizer, window: TextWindow, *, seed: int = 0) -> dict[str, Any]:
    """Mask a text or a pair as `cloze pretrain` does.

    Returns:
        The `tokens` and the `masked` ones; of each token a number in [0, 1), `select`: the lowest are predicted; the
        `positions` of these, in ascending order; the number in [0, 1) of each, `replace`, and what that decides,
        `kinds`: mask, random or keep; and the rates.

    Source:
        Devlin et al. 2019, 3.1 (task 1) and A.1.
    """
    config, encoding = MaskingConfig(), window.encoding
    ids_T, num_tokens = np.array(encoding.input_ids), len(encoding)
    key_1 = mix([seed])
    masked_T, positions_P, _ = mask_tokens(
        ids_T,
        np.array([0, num_tokens], np.int32),
        np.array([sequence is not None for sequence in encoding.sequence_ids]),
        key_1,
        config,
        max_predictions_per_seq=None,
        is_continuation=tokenizer.is_continuation,
        mask_id=tokenizer.mask_id,
    )
    (hash_T,) = hash_positions(np.arange(num_tokens), key_1)
    replace_P = uniform(REPLACE, after=hash_T[positions_P])
    limits = (config.mask_token_prob, config.mask_token_prob + config.random_token_prob)
    return {
        "tokens": window.written_tokens(tokenizer),
        "token_type_ids": encoding.token_type_ids,
        "masked": [tokenizer.tokens[token_id] for token_id in masked_T],
        "select": uniform(SELECT, after=hash_T).round(_DIGITS).tolist(),
        "positions": positions_P.tolist(),
        "replace": replace_P.round(_DIGITS).tolist(),
        "kinds": [("mask", "random", "keep")[kind] for kind in np.digitize(replace_P, limits)],
        "masked_lm_prob": config.masked_lm_prob,
        "limits": limits,
    }
