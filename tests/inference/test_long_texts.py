"""Texts with more tokens than the model reads: one setting, `long_texts`."""

from pathlib import Path

import numpy as np
import pytest
import torch

import cloze
from cloze.cli import main
from cloze.models.heads import BertForMaskedLM
from tiny_models import SPECIAL, tiny_config, write_checkpoint

WORDS = tuple(f"w{number}" for number in range(40))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 10 positions: 8 words, [CLS] and [SEP]."""
    tokens = [*SPECIAL, *WORDS]
    config = tiny_config(tokens, max_position_embeddings=10, num_hidden_layers=2)
    generator = torch.Generator().manual_seed(2)
    model = BertForMaskedLM(cloze.BertModel(config, generator=generator), generator=generator)
    return write_checkpoint(tmp_path_factory.mktemp("long") / "model", model, tokens)


def load(directory: Path, **settings: object) -> cloze.Embedder:
    return cloze.Embedder.load(directory, device="cpu", **settings)


TEXT = " ".join(WORDS[:18])  # windows of words 0 to 7, 4 to 11, 8 to 15, 12 to 17
WINDOWS = [" ".join(WORDS[start : min(start + 8, 18)]) for start in (0, 4, 8, 12)]


def test_vector_is_the_mean_of_those_of_the_windows(directory):
    embedder = load(directory, long_texts="windows")
    result = embedder.embed(["w1 w2", TEXT, "w3"])
    assert result.num_truncated == 0
    np.testing.assert_allclose(result.vectors[1], load(directory)(WINDOWS).mean(0), atol=1e-5)
    np.testing.assert_allclose(result.vectors[[0, 2]], load(directory)(["w1 w2", "w3"]), atol=1e-6)
    assert load(directory).embed(["w1", TEXT]).num_truncated == 1

    normalized = load(directory, long_texts="windows", normalize=True)(TEXT)
    mean = load(directory, normalize=True)(WINDOWS).mean(0)
    np.testing.assert_allclose(normalized, mean / np.linalg.norm(mean), atol=1e-5)


def test_each_window_is_read_after_the_prompt(directory):
    embedder = load(directory, long_texts="windows")
    object.__setattr__(embedder, "prompt", "w30 w31 ")
    windows = [f"w30 w31 {' '.join(WORDS[start : min(start + 6, 18)])}" for start in (0, 3, 6, 9, 12)]
    np.testing.assert_allclose(embedder(TEXT), load(directory)(windows).mean(0), atol=1e-5)


def test_a_word_has_the_vector_of_the_window_with_the_most_context(directory):
    [found] = load(directory, long_texts="windows").words([TEXT])
    assert [word.text for word in found.words] == list(WORDS[:18])
    assert not found.is_truncated
    of_window = [words.vectors for words in load(directory).words(WINDOWS)]
    np.testing.assert_allclose(found.vectors[0], of_window[0][0], atol=1e-5)
    np.testing.assert_allclose(found.vectors[7], of_window[1][3], atol=1e-5)
    np.testing.assert_allclose(found.vectors[17], of_window[3][5], atol=1e-5)
    cut, windows = load(directory), load(directory, long_texts="windows")
    [tokens] = windows.embed_tokens([TEXT])
    of_window = cut.embed_tokens(WINDOWS)
    np.testing.assert_allclose(tokens[[0, -1]], [of_window[0][0], of_window[-1][-1]], atol=1e-5)


def test_a_mask_is_filled_from_the_window_around_it(directory):
    fill_mask = cloze.FillMask.load(directory, device="cpu")
    words = [*WORDS[:18]]
    words[1] = words[9] = "[MASK]"
    with pytest.raises(cloze.InputError, match=r"20 tokens, the model takes 10.*`long_texts=windows`"):
        fill_mask(" ".join(words))
    found = fill_mask.probabilities(" ".join(words), long_texts="windows")
    first, second = " ".join(words[:8]), " ".join(words[4:12])
    np.testing.assert_allclose(found[:1], fill_mask.probabilities(first), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1:], fill_mask.probabilities(second), rtol=1e-4, atol=1e-5)
    short = "w1 [MASK] w2"
    filled = fill_mask([" ".join(words), short], top_k=1, long_texts="windows")
    best = np.concatenate([found, fill_mask.probabilities(short)]).argmax(1)
    assert [len(masks) for masks in filled] == [2, 1]
    tokens = [candidates[0].token for masks in filled for candidates in masks]
    assert tokens == [fill_mask.tokenizer.text_of(token_id) for token_id in best.tolist()]
    assert np.array_equal(
        fill_mask.probabilities(short, long_texts="windows"), fill_mask.probabilities(short)
    )


def test_the_flag_is_the_same_in_verbs(directory, tmp_path):
    (tmp_path / "texts.txt").write_text(f"{TEXT}\nw1\n")
    windows = ["--long-texts", "windows"]
    vectors = tmp_path / "v.npy"
    assert (
        main(["embed", str(tmp_path / "texts.txt"), "-m", str(directory), "-o", str(vectors), *windows]) == 0
    )
    np.testing.assert_allclose(np.load(vectors)[0], load(directory, long_texts="windows")(TEXT), atol=1e-5)
    assert main(["fill", f"{TEXT} [MASK]", "-m", str(directory), *windows, "--json"]) == 0
