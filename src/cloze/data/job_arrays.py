"""Tasks of a job array, which build one output together."""

import re
from dataclasses import dataclass

from cloze.errors import InputError

_TASK = re.compile("([0-9]{1,9})/([0-9]{1,9})")
_MAX_TASKS = 100_000


@dataclass(frozen=True, slots=True)
class ArrayTask:
    """One of the tasks of a job array, which share only a directory. Numbers begin at 1."""

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count <= _MAX_TASKS:
            raise _invalid_task(f"{self.number}/{self.count}")

    @classmethod
    def parse(cls, text: str) -> "ArrayTask":
        """Parse a task such as "3/8"."""
        numbers = _TASK.fullmatch(text)
        if numbers is None:
            raise _invalid_task(text)
        return cls(int(numbers[1]), int(numbers[2]))


SINGLE_TASK = ArrayTask(1, 1)


def _invalid_task(text: str) -> InputError:
    remedy = "Write 3/8 for the third of eight"
    return InputError(f"{text[:40]!r} is not a task", where="task", remedy=remedy)
