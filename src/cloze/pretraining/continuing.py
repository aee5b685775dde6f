"""Going on from a checkpoint whose vocabulary has grown: which rows are new, and what each of them begins as."""

from collections.abc import Sequence

from cloze.errors import InputError
from cloze.text.pieces import CONTINUATION, UNUSED
from cloze.text.tokenizer import Tokenizer


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
