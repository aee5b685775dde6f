"""The one family of errors that a user of cloze sees: what, where, the limit and the remedy, in one line."""


class ClozeError(Exception):
    """An error whose message is meant for a person; the command line prints it without a traceback.

    Args:
        what: what is wrong, in a few words, without a full stop.
        where: the file, `file:line` or setting it was found at.
        remedy: what to do about it, a sentence without its full stop.

    >>> print(InputError("734 tokens, the model takes 512", where="train.jsonl:118", remedy="Use --truncate"))
    train.jsonl:118: 734 tokens, the model takes 512. Use --truncate.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: object = None, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.remedy = remedy

    def __str__(self) -> str:
        message = self.what if self.where is None else f"{self.where}: {self.what}"
        line = message if self.remedy is None else f"{message}. {self.remedy}."
        # names and values of files that others wrote must not steer the terminal
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(line.split()))


class InputError(ClozeError):
    """What the user gave is wrong: a file, a setting, a command. Exit code 2."""

    exit_code = 2


class RunError(ClozeError):
    """The input was right and the work failed all the same: a full disk, a NaN loss. Exit code 1."""
