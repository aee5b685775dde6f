"""Going on with a vocabulary that has grown: new rows, tied heads, both domains measured, others refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cloze.corpus.build import BuildConfig, build_dataset
from cloze.corpus.extension import extend_vocabulary
from cloze.corpus.sources import ReadingConfig
from cloze.corpus.vocabulary import train_vocabulary
from cloze.errors import InputError
from cloze.inference.fill import FillMask
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import load_model
from cloze.model.heads import BertForPreTraining
from cloze.model.new_rows import set_new_rows
from cloze.pretraining.config import PhaseConfig, PretrainConfig
from cloze.pretraining.continuing import old_pieces_of_new
from cloze.pretraining.run import pretrain
from cloze.text.tokenizer import Tokenizer
from cloze.training.metrics_log import read_metrics

SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
OLD = Tokenizer.from_pieces([*SPECIAL, "hot", "fer", "##ret"])


def test_added_pieces_are_found_in_free_places_and_at_the_end() -> None:
    new = Tokenizer.from_pieces([*SPECIAL[:1], "ferret", *SPECIAL[2:], "hot", "fer", "##ret", "purr"])
    assert old_pieces_of_new(OLD, new, where="data") == {1: [7, 8], 9: [2]}
    assert old_pieces_of_new(OLD, OLD, where="data") == {}
    longer = replace(OLD, model_max_length=64)
    assert old_pieces_of_new(OLD, longer, where="data") == {}


@pytest.mark.parametrize(
    ("new", "difference"),
    [
        (Tokenizer.from_pieces([*SPECIAL, "fer", "hot", "##ret"]), "piece 6 is 'fer', 'hot' of the model"),
        (Tokenizer.from_pieces([*SPECIAL, "hot"]), "7 pieces, the model has 9"),
        (replace(OLD, lowercase=False), "cuts text in another way"),
    ],
)
def test_vocabularies_that_are_not_related_are_refused(new: Tokenizer, difference: str) -> None:
    with pytest.raises(InputError, match=rf"some/data: .*{difference}.*cloze vocab extend made of MODEL"):
        old_pieces_of_new(OLD, new, where="some/data")


def test_new_rows_are_the_mean_of_their_old_pieces_and_the_head_stays_tied() -> None:
    config = BertConfig(
        vocab_size=9,
        hidden_size=6,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=7,
        max_position_embeddings=8,
    )
    model = BertForPreTraining(BertModel(config, generator=torch.Generator().manual_seed(1)))
    with torch.no_grad():
        model.masked_lm.bias.copy_(torch.arange(9.0))
    table = model.bert.embeddings.word_embeddings.weight.detach().clone()
    set_new_rows(model, {1: [7, 8], 10: [2]})
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


def test_a_run_goes_on_with_more_words_and_measures_both_texts(
    nano: PretrainConfig, dataset: Path, novel: Path, tmp_path: Path
) -> None:
    pretrain(replace(nano, steps=20), tmp_path / "first")
    vocabulary = tmp_path / "vocab"
    (tmp_path / "words").write_text("baskerville\nholmes\nquux\n")
    extended = extend_vocabulary(resolve_checkpoint(tmp_path / "first"), vocabulary, words=tmp_path / "words")
    assert extended.appended
    config = BuildConfig(reading=ReadingConfig(text_format="paragraphs"), validation_fraction=0.1)
    (tmp_path / "half").write_text("\n\n".join(novel.read_text().split("\n\n")[::2]))
    for name, text in {"new": novel, "old": tmp_path / "half"}.items():
        build_dataset([text], vocabulary, tmp_path / name, config)
    going_on = replace(nano, data=str(tmp_path / "new"), init=str(tmp_path / "first"), steps=4)
    measured = pretrain(replace(going_on, old_data=str(tmp_path / "old")), tmp_path / "second")
    assert abs(measured["old_masked_lm_loss"] - measured["masked_lm_loss"]) > 1e-4
    assert "old_next_sentence_accuracy" in measured
    rows = [row for row in read_metrics(tmp_path / "second") if row["kind"] == "validation"]
    assert all("old_masked_lm_loss" in row for row in rows)
    checkpoint = resolve_checkpoint(tmp_path / "second")
    assert load_model(checkpoint).config.vocab_size == extended.pieces
    (candidates,) = FillMask.load(tmp_path / "second")("Mr. [MASK] said.", top_k=3)
    assert len(candidates) == 3
    with pytest.raises(InputError, match=r"has another vocabulary than .*new"):
        pretrain(replace(going_on, old_data=str(dataset)), tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_a_data_set_with_an_unrelated_vocabulary_is_refused_before_anything_is_written(
    nano: PretrainConfig, novel: Path, tmp_path: Path
) -> None:
    pretrain(replace(nano, steps=3), tmp_path / "first")
    train_vocabulary([novel], tmp_path / "vocab", size=650)
    build_dataset([novel], tmp_path / "vocab", tmp_path / "data")
    other = replace(nano, data=str(tmp_path / "data"), init=str(tmp_path / "first"), steps=3)
    with pytest.raises(InputError, match=r"data: its vocabulary is neither the model's nor"):
        pretrain(other, tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_sequences_longer_than_the_checkpoint_takes_are_refused_before_anything_is_written(
    nano: PretrainConfig, tmp_path: Path
) -> None:
    pretrain(replace(nano, steps=3), tmp_path / "first")
    positions = load_model(resolve_checkpoint(tmp_path / "first")).config.max_position_embeddings
    model = replace(nano.model, max_position_embeddings=2 * positions)
    phases = (PhaseConfig(max_seq_length=2 * positions, fraction=1.0, batch_size=2),)
    longer = replace(
        nano, init=str(tmp_path / "first"), model=model, phases=phases, micro_batch_tokens=4 * positions
    )
    with pytest.raises(InputError, match=f"phases: max_seq_length {2 * positions}, .* takes {positions}"):
        pretrain(longer, tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_going_on_takes_the_dropout_of_the_run_and_the_rest_of_the_checkpoint(
    nano: PretrainConfig, tmp_path: Path
) -> None:
    pretrain(replace(nano, steps=3), tmp_path / "first")
    first = load_model(resolve_checkpoint(tmp_path / "first"))
    model = replace(
        nano.model, num_hidden_layers=3, hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.0
    )
    pretrain(replace(nano, init=str(tmp_path / "first"), model=model, steps=1), tmp_path / "second")
    second = load_model(resolve_checkpoint(tmp_path / "second"))
    dropout = {"hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.0}
    assert first.config != second.config == replace(first.config, **dropout)
