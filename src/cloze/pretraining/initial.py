"""The weights that a run begins with."""

from dataclasses import replace
from pathlib import Path

import torch

from cloze.errors import InputError
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertConfig, BertModel
from cloze.model.heads import BertForPreTraining
from cloze.model.new_rows import set_new_rows
from cloze.model.sinusoidal import fix_positions
from cloze.pretraining.config import ModelConfig, PretrainConfig
from cloze.pretraining.continuing import load_for_pretraining, old_pieces_of_new
from cloze.progress import Progress
from cloze.text.tokenizer import Tokenizer


def initial_model(config: PretrainConfig, tokenizer: Tokenizer, progress: Progress) -> BertForPreTraining:
    """Return new weights, or those of the checkpoint to go on from, with rows for what its vocabulary has gained.

    Raises:
        InputError: the checkpoint looks another way than the settings say, has fewer positions than they ask for, is no
            model to go on from, or has another vocabulary.
    """
    if config.init is None:
        generator = torch.Generator().manual_seed(config.seed)
        encoder = BertModel(config.model.encoder(vocab_size=tokenizer.vocab_size), generator=generator)
        if config.model.positions == "sinusoidal":
            fix_positions(encoder)
        return BertForPreTraining(encoder, generator=generator)
    checkpoint = resolve_checkpoint(Path(config.init))
    model = load_for_pretraining(checkpoint, next_sentence=config.pairs.next_sentence, seed=config.seed)
    if model.config.attends_to != config.model.attends_to:
        what = f"attends to {model.config.attends_to}, the settings say {config.model.attends_to}"
        remedy = f"Say --set model.attends_to={model.config.attends_to}"
        raise InputError(what, where=config.init, remedy=remedy)
    check_lengths(config, model.config)
    model = _with_dropout_of(config.model, model)
    rows = old_pieces_of_new(Tokenizer.load(checkpoint), tokenizer, where=config.data)
    if rows:
        set_new_rows(model, rows)
        progress.note(
            f"{len(rows):,} pieces are new to {config.init}: each begins as the mean of its old pieces"
        )
    return model


def check_lengths(config: PretrainConfig, encoder: BertConfig) -> None:
    """Refuse longer sequences than the checkpoint takes that the run goes on from.

    Raises:
        InputError: a phase has such.
    """
    longest = max(phase.max_seq_length for phase in config.phases)
    positions = encoder.max_position_embeddings
    if longest > positions:
        what = f"max_seq_length {longest}, {config.init} takes {positions}"
        remedy = "Give phases with shorter sequences in a TOML file; those of --config fast have 128 at most"
        raise InputError(what, where="phases", remedy=remedy)


def _with_dropout_of(settings: ModelConfig, model: BertForPreTraining) -> BertForPreTraining:
    """Return the model with the run's dropout, which is no part of what a checkpoint has learned."""
    config = replace(
        model.config,
        hidden_dropout_prob=settings.hidden_dropout_prob,
        attention_probs_dropout_prob=settings.attention_probs_dropout_prob,
    )
    with torch.device("meta"):  # shapes only
        same = BertForPreTraining(BertModel(config))
    same.load_state_dict(model.state_dict(), assign=True)
    return same
