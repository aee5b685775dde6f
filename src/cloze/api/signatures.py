"""Functions that take the arguments of another, such as those that only plan or check what it would do."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from cloze.suggestions import check_keywords

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def takes_arguments_of(
    function: Callable[Arguments, Any],
) -> Callable[[Callable[[dict[str, Any]], Result]], Callable[Arguments, Result]]:
    """Give a function that takes a dict of arguments the signature of another function, with all of them optional."""
    signature = inspect.signature(function)
    setting_names = getattr(function, "setting_names", tuple)
    parameters = [
        parameter.replace(default=None) if parameter.default is parameter.empty else parameter
        for parameter in signature.parameters.values()
    ]

    def wrap(inner: Callable[[dict[str, Any]], Result]) -> Callable[Arguments, Result]:
        @functools.wraps(inner)
        def outer(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            check_keywords(inner.__name__, kwargs, signature.parameters, setting_names)
            return inner(signature.bind_partial(*args, **kwargs).arguments)

        outer.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        outer.__annotations__ = {**function.__annotations__, "return": inner.__annotations__["return"]}
        return outer

    return wrap
