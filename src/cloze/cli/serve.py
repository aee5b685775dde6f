"""`cloze serve`: a server for all that models answer, and a page to see them think."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from cloze.cli.common import Device, Flags, OptionalPath, default_workers, required
from cloze.errors import InputError


def run(
    *,
    model: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(aliases=["-m"], metavar="[NAME=]DIR", help_behavior_hint="(required)"),
    ],
    watch: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(metavar="[NAME=]RUN", help_behavior_hint=""),
    ] = (),
    host: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = "127.0.0.1",
    port: int = 8080,
    api_key_file: OptionalPath = None,
    device: Device = "auto",
    flags: Flags,
) -> None:
    """Serve models over HTTP, with a page at / to try them and look into them, until Ctrl-C or SIGTERM.

    Args:
        model: cloze-mini, a checkpoint or a run, and what requests call it; may be given several times, and the first
            is the default.
        watch: a run whose curves the page shows while it trains, and what the page calls it; those among the models
            are shown anyway.
        host: the address to listen on; 0.0.0.0 is open to all of your network.
        port: 0 takes one that is free.
        api_key_file: a file whose first line is what requests have to know, as Authorization: Bearer KEY.
        device: cpu, cuda, mps or auto.
        flags: flags of every verb.
    """
    from cloze.extras import require

    require(["fastapi", "uvicorn", "prometheus_client", "orjson"], extra="serve", where="the server")
    from cloze.serving.limits import Limits
    from cloze.serving.run import read_api_key, serve

    directories = _named(required(model, "--model", verb="serve"), flag="--model")
    serve(
        directories,
        _named(watch, flag="--watch"),
        Limits(),
        host=host,
        port=port,
        threads=default_workers(),
        api_key=None if api_key_file is None else read_api_key(api_key_file),
        device=device,
        tell=lambda address: print(
            f"serving {', '.join(directories)} at {address}", file=sys.stderr, flush=True
        ),
    )


def _named(given: tuple[str, ...], *, flag: str) -> dict[str, Path]:
    """Return directories by the names that requests give them: their own where nothing is said."""
    directories: dict[str, Path] = {}
    for each in given:
        name, equals, path = ("", "", "") if Path(each).exists() else each.partition("=")
        directory = Path(path if equals else each)
        name = name if equals else directory.resolve().name
        if name in directories:
            raise InputError(f"two are called {name!r}", where=flag, remedy="Say NAME=DIR")
        directories[name] = directory
    return directories
