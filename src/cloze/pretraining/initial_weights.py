"""The initial weights of a run: random, or those of a checkpoint with a vocabulary that may have grown."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.hub import name_of_snapshot
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.encoder import build_encoder, set_dropout
from cloze.models.heads import BertForMaskedLM, BertForPreTraining
from cloze.models.weight_mapping import MissingWeightsError
from cloze.pretraining.config import PretrainConfig
from cloze.progress import Progress
from cloze.tokenization.loading import load_wordpiece
from cloze.tokenization.special_tokens import CONTINUATION, UNUSED
from cloze.tokenization.wordpiece import WordPieceTokenizer


def with_initial_architecture(config: PretrainConfig, checkpoint: Path | None) -> PretrainConfig:
    """Return settings with architecture and commit of the checkpoint to start from, as `run.toml` keeps them."""
    if checkpoint is not None:
        model = config.model.with_architecture(load_config(checkpoint))
        name = name_of_snapshot(checkpoint)
        return replace(config, init_commit=None if name is None else name.revision, model=model)
    if config.model.size is None:  # TOML has no None
        return replace(config, model=config.model.with_architecture(config.model.encoder(vocab_size=1)))
    return config


def initial_model(
    config: PretrainConfig, checkpoint: Path | None, tokenizer: WordPieceTokenizer, progress: Progress
) -> BertForPreTraining:
    """Return a model with random weights, or the initial checkpoint's model with rows for added tokens."""
    if config.init is None:
        generator = torch.Generator().manual_seed(config.seed)
        encoder_config = config.model.encoder(vocab_size=tokenizer.vocab_size).with_padding(tokenizer.pad_id)
        return BertForPreTraining(build_encoder(encoder_config, generator=generator), generator=generator)
    assert checkpoint is not None
    model = load_for_pretraining(checkpoint, next_sentence=config.pairs.next_sentence, seed=config.seed)
    if model.config.attends_to != config.model.attends_to:
        what = f"attends to {model.config.attends_to}, the settings to {config.model.attends_to}"
        remedy = f"Say `model.attends_to={model.config.attends_to}`"
        raise InputError(what, where=config.init, remedy=remedy)
    longest, batch_size = max((phase.max_seq_length, phase.batch_size) for phase in config.phases)
    if longest > (positions := model.config.max_position_embeddings):
        what = f"max_seq_length {longest}, but {config.init} has {positions} positions"
        phases = f"[{{max_seq_length={positions}, fraction=1.0, batch_size={batch_size}}}]"
        raise InputError(what, where="phases", remedy=f"Say `phases={phases}`")
    hidden, attention = config.model.hidden_dropout_prob, config.model.attention_probs_dropout_prob
    set_dropout(model.bert, hidden=hidden, attention=attention)
    rows = map_added_tokens(load_wordpiece(checkpoint), tokenizer, where=config.data)
    if rows:
        resize_token_embeddings(model, rows)
        progress.note(
            f"{len(rows):,} tokens are new to {config.init}: each starts as the mean of its old tokens"
        )
    return model


def load_for_pretraining(
    checkpoint: Path, *, next_sentence: bool, seed: int, verify: bool = True
) -> BertForPreTraining:
    """Load a model with both heads of pre-training; without pairs, a missing pooler and next-sentence head are new."""
    try:
        return load_model(checkpoint, BertForPreTraining, verify=verify)
    except MissingWeightsError as error:
        masked = load_model(checkpoint, BertForMaskedLM, verify=verify)
        if next_sentence:
            remedy = "Say `pairs.next_sentence=false`: masked words alone"
            raise InputError(error.what, where=error.where, remedy=remedy) from error
    generator = torch.Generator().manual_seed(seed)
    model = BertForPreTraining(masked.bert, generator=generator)
    model.masked_lm = masked.masked_lm
    return model.eval()


def map_added_tokens(
    old: WordPieceTokenizer, new: WordPieceTokenizer, *, where: object
) -> dict[int, Sequence[int]]:
    """Return the id of each token added to a vocabulary, with the ids that the old tokenizer has for it.

    A token is added in the place of an [unused] one or at the end, as by `cloze vocab extend`. A word that the old
    vocabulary cannot spell was [UNK].
    """
    strips = [t.lowercase if t.strip_accents is None else t.strip_accents for t in (old, new)]
    changed = [
        f"token {number} is {now!r}, in the model {before!r}"
        for number, (before, now) in enumerate(zip(old.tokens, new.tokens, strict=False))
        if now != before and not UNUSED.fullmatch(before)
    ]
    if new.vocab_size < old.vocab_size:
        changed = [f"it has {new.vocab_size:,} tokens, the model {old.vocab_size:,}"]
    unchanged = (old.lowercase, strips[0], old.tokenize_chinese_chars)
    if (new.lowercase, strips[1], new.tokenize_chinese_chars) != unchanged:
        changed = ["it treats case, accents or Chinese characters differently"]
    if changed:
        what = f"its vocabulary is neither the model's nor an extension of it: {changed[0]}"
        remedy = (
            "Build the data set with cloze corpus --vocabulary MODEL, or a vocabulary of cloze vocab extend"
        )
        raise InputError(what, where=where, remedy=remedy)
    added = [i for i, token in enumerate(new.tokens) if i >= old.vocab_size or token != old.tokens[i]]
    return {
        i: old.encode(new.tokens[i].removeprefix(CONTINUATION)).input_ids[1:-1] or [old.unk_id] for i in added
    }


@torch.no_grad()
def resize_token_embeddings(model: BertForPreTraining, rows: Mapping[int, Sequence[int]]) -> None:
    """Set the embedding and output bias of each new token to the mean over its old tokens.

    The word embeddings are also the output matrix, so that the head grows with them where an id is beyond their end.
    """
    vocab_size = max([model.config.vocab_size, *(new_id + 1 for new_id in rows)])
    table = model.bert.embeddings.word_embeddings
    table.weight = nn.Parameter(_with_new_rows(table.weight, rows, vocab_size))
    table.num_embeddings = vocab_size
    model.masked_lm.bias = nn.Parameter(_with_new_rows(model.masked_lm.bias, rows, vocab_size))
    model.bert.config = replace(model.config, vocab_size=vocab_size)


def _with_new_rows(values: Tensor, rows: Mapping[int, Sequence[int]], vocab_size: int) -> Tensor:
    grown = values.new_zeros(vocab_size, *values.shape[1:])
    grown[: len(values)] = values
    for new_id, old_ids in rows.items():
        grown[new_id] = values[list(old_ids)].mean(0)
    return grown
