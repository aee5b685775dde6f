"""What the routes share: the models, the engine, and the form of an answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import orjson
from starlette.responses import Response

from cloze.serving.engine import Computation, Engine
from cloze.serving.models import ServedModel, find_model
from cloze.tasks.texts import LabelledText

Input = TypeVar("Input")
Output = TypeVar("Output")
Read: TypeAlias = Sequence[str | list[int] | None]
"""What a model reads of an input: texts, or their ids; None is nothing."""

_CHARACTERS_OF_PIECE = 4  # of English, about
_SPECIALS = 2


@dataclass(frozen=True, slots=True)
class Service:
    """Models by name, and what computes."""

    models: Mapping[str, ServedModel]
    engine: Engine

    def find(self, name: str | None, ability: str) -> ServedModel:
        """Return the model that a request names, or the first that can answer it.

        Raises:
            InputError: there is none.
        """
        return find_model(self.models, name, ability)

    async def batched(
        self,
        function: Callable[[list[Input]], Sequence[Output]],
        inputs: Sequence[Input],
        reads: Sequence[Read],
    ) -> list[Output]:
        """Compute outputs of inputs, perhaps together with other requests.

        Args:
            function: a method of a served model.
            inputs: of the request.
            reads: what the model will read of each.
        """
        return await self.engine.batched(function, inputs, tokens=_estimated_tokens(reads))

    async def in_windows(
        self, computation: Computation[Input, Output], inputs: Sequence[Input], reads: Sequence[Read]
    ) -> list[Output]:
        """Compute outputs of inputs of any length, in turns with other requests; else as `batched`."""
        return await self.engine.in_windows(computation, inputs, tokens=_estimated_tokens(reads))

    async def refuse_long(
        self, refuse: Callable[[Sequence[Input]], None], inputs: Sequence[Input], *, truncate: bool | None
    ) -> None:
        """Refuse inputs that would be cut, where the request says that they must not be.

        Raises:
            InputError: one is too long.
        """
        if truncate is False:
            await self.engine.run(lambda: refuse(inputs))


def listed(inputs: Any) -> list[Any]:
    """Return what may be one or several as several."""
    return inputs if isinstance(inputs, list) else [inputs]


def example(given: str | list[str]) -> LabelledText:
    """Return a text, or a pair of texts, as the tasks take it."""
    return LabelledText(given) if isinstance(given, str) else LabelledText(*given)


def respond(value: Any) -> Response:
    """Return an answer; NumPy's numbers are written with the digits that their type has, not with Python's."""
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


def _estimated_tokens(reads: Sequence[Read]) -> list[int]:
    """Return about how many tokens each input has: to count them is work that waits its turn."""
    return [sum(_length(text) for text in own if text is not None) for own in reads]


def _length(text: str | list[int]) -> int:
    return _SPECIALS + (len(text) // _CHARACTERS_OF_PIECE if isinstance(text, str) else len(text))
