"""Going on from a checkpoint: with the heads that it has, and a vocabulary that may have grown since."""

from collections.abc import Sequence
from pathlib import Path

import torch

from cloze.errors import InputError
from cloze.model.bert import initialize_weights
from cloze.model.checkpoint import load_model
from cloze.model.heads import BertForMaskedLM, BertForPreTraining
from cloze.model.layouts import MissingWeightsError
from cloze.text.pieces import CONTINUATION, UNUSED
from cloze.text.tokenizer import Tokenizer


def load_for_pretraining(checkpoint: Path, *, next_sentence: bool, seed: int) -> BertForPreTraining:
    """Read a model with both heads of pre-training; one of masked words alone gets a new pooler and pair head.

    Args:
        checkpoint: a directory.
        next_sentence: whether pairs are asked for, which that would know nothing of.
        seed: of what is new.

    Raises:
        InputError: a head is missing, or the checkpoint is damaged.
    """
    try:
        return load_model(checkpoint, BertForPreTraining)
    except MissingWeightsError as error:
        masked = load_model(checkpoint, BertForMaskedLM)
        if next_sentence:
            remedy = "Say --set pairs.next_sentence=false: masked words alone"
            raise InputError(error.what, where=error.where, remedy=remedy) from error
    generator = torch.Generator().manual_seed(seed)
    model = BertForPreTraining(masked.bert, generator=generator)
    model.masked_lm = masked.masked_lm
    initialize_weights(model.bert.pooler, model.config.initializer_range, generator)
    return model.eval()


def old_pieces_of_new(old: Tokenizer, new: Tokenizer, *, where: object) -> dict[int, Sequence[int]]:
    """Return, for every piece that was added to a vocabulary, its id and the ids of what the old one cut it into.

    A piece is added in the place of an [unused] one or at the end, as `cloze vocab extend` does; a word that the old
    vocabulary could not spell was [UNK].

    Args:
        old: of the model.
        new: of the data set.
        where: the data set, for the message.

    Raises:
        InputError: the new vocabulary is something else than the old one with pieces added.
    """
    if _way(old) != _way(new):
        raise _unrelated(
            "cuts text in another way than the model: case, accents or Chinese characters", where
        )
    if new.vocab_size < old.vocab_size:
        raise _unrelated(f"{new.vocab_size:,} pieces, the model has {old.vocab_size:,}", where)
    for number, (before, now) in enumerate(zip(old.pieces, new.pieces, strict=False)):
        if now != before and not UNUSED.fullmatch(before):
            raise _unrelated(f"piece {number} is {now!r}, {before!r} of the model", where)
    added = [i for i, piece in enumerate(new.pieces) if i >= old.vocab_size or piece != old.pieces[i]]
    return {
        i: old.encode(new.pieces[i].removeprefix(CONTINUATION)).input_ids[1:-1] or [old.unk_id] for i in added
    }


def _way(tokenizer: Tokenizer) -> tuple[bool, bool, bool]:
    strips = tokenizer.lowercase if tokenizer.strip_accents is None else tokenizer.strip_accents
    return tokenizer.lowercase, strips, tokenizer.tokenize_chinese_chars


def _unrelated(difference: str, where: object) -> InputError:
    what = f"its vocabulary is neither the model's nor that with words added: {difference}"
    remedy = (
        "Build the data set with cloze corpus --vocab MODEL, or with what cloze vocab extend made of MODEL"
    )
    return InputError(what, where=where, remedy=remedy)
