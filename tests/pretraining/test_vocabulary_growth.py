"""Continuing with an extended vocabulary: new rows, tied heads, evaluation on both texts, refusals."""

from dataclasses import replace

import pytest
import torch

import cloze
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import load_model
from cloze.models.heads import BertForPreTraining
from cloze.pretraining.initial_weights import map_added_tokens, resize_token_embeddings
from runs import pretrain

SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def of_words(*words: str) -> cloze.WordPieceTokenizer:
    return cloze.WordPieceTokenizer.from_tokens([*SPECIAL, *words])


OLD = of_words("hot", "fer", "##ret")


def test_added_tokens_are_found_in_unused_slots_and_at_the_end():
    added = [SPECIAL[0], "ferret", *SPECIAL[2:], "hot", "fer", "##ret", "purr"]
    new = cloze.WordPieceTokenizer.from_tokens(added)
    assert map_added_tokens(OLD, new, where="data") == {1: [7, 8], 9: [2]}
    assert map_added_tokens(OLD, OLD, where="data") == {}
    longer = replace(OLD, model_max_length=64)
    assert map_added_tokens(OLD, longer, where="data") == {}


@pytest.mark.parametrize(
    ("new", "difference"),
    [
        (of_words("fer", "hot", "##ret"), "token 6 is 'fer', in the model 'hot'"),
        (of_words("hot", "fer"), "it has 8 tokens, the model 9"),
        (replace(OLD, lowercase=False), "it treats case, accents"),
    ],
)
def test_unrelated_vocabularies_are_refused(new, difference):
    with pytest.raises(cloze.InputError, match=rf"some/data: .*{difference}.*of cloze vocab extend"):
        map_added_tokens(OLD, new, where="some/data")


def test_new_rows_are_means_of_old_tokens_and_the_head_stays_tied():
    sizes = {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 7}
    config = cloze.BertConfig(vocab_size=9, max_position_embeddings=8, **sizes)
    model = BertForPreTraining(cloze.BertModel(config, generator=torch.Generator().manual_seed(1)))
    with torch.no_grad():
        model.masked_lm.bias.copy_(torch.arange(9.0))
    table = model.bert.embeddings.word_embeddings.weight.detach().clone()
    resize_token_embeddings(model, {1: [7, 8], 10: [2]})
    grown = model.bert.embeddings.word_embeddings.weight
    assert grown.shape == (11, 6)
    assert grown.requires_grad
    kept = [0, *range(2, 9)]
    assert torch.equal(grown[kept], table[kept])
    torch.testing.assert_close(grown[1], (table[7] + table[8]) / 2)
    assert torch.equal(grown[10], table[2])
    assert model.masked_lm.bias.tolist() == [0, 7.5, *range(2, 9), 0, 2]
    assert model.config.vocab_size == 11
    hidden = torch.ones(1, 6)
    logits = model.masked_lm(hidden, grown)
    torch.testing.assert_close(logits, model.masked_lm.transform(hidden) @ grown.T + model.masked_lm.bias)


@pytest.mark.slow
def test_continued_run_extends_the_vocabulary(nano, finished, novel, tmp_path):
    vocabulary = tmp_path / "vocab"
    (tmp_path / "words").write_text("baskerville\nholmes\nquux\n")
    extended = cloze.extend_vocabulary(finished, output=vocabulary, words=tmp_path / "words")
    assert extended.appended
    building = {"format": "paragraphs", "validation_fraction": 0.1}
    cloze.build_dataset(novel, vocabulary=vocabulary, output=tmp_path / "new", **building)
    settings = {"data": str(tmp_path / "new"), "init": str(finished), "steps": 4}
    pretrain(replace(nano, **settings), tmp_path / "second")
    checkpoint = resolve_checkpoint(tmp_path / "second", "latest")
    assert load_model(checkpoint).config.vocab_size == extended.tokens
    (candidates,) = cloze.FillMask.load(tmp_path / "second")("Mr. [MASK] said.", top_k=3)
    assert len(candidates) == 3
