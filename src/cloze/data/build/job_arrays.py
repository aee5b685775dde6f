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

    @classmethod
    def parse(cls, text: str) -> "ArrayTask":
        """Parse a task such as "3/8"."""
        numbers = _TASK.fullmatch(text)
        task = cls(int(numbers[1]), int(numbers[2])) if numbers else cls(0, 0)
        if not 1 <= task.number <= task.count <= _MAX_TASKS:
            remedy = "Write 3/8 for the third of eight"
            raise InputError(f"{text[:40]!r} is not a task", where="task", remedy=remedy)
        return task


SINGLE_TASK = ArrayTask(1, 1)
