"""Verbs of the command line itself: completion and help."""

import os
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from typing import Literal

import cyclopts

from cloze.cli import VERBS, load_verb, main, split_verb
from cloze.cli.parameters import CommonOptions
from cloze.cli.parser import Command, Shown, verb
from cloze.errors import InputError
from cloze.process import processor, usable_processors
from cloze.suggestions import nearest


def installation() -> Iterator[str]:
    """Yield what a report of a fault needs: system, processor, and the versions of all packages that cloze uses."""
    yield f"Python {platform.python_version()} on {platform.platform()}"
    yield f"{processor()}, {usable_processors()} of {os.cpu_count()} cores"
    names = {re.split(r"[^\w-]", needed)[0] for needed in metadata.requires("cloze-bert") or ()}
    for name in sorted(names):
        with suppress(metadata.PackageNotFoundError):
            yield f"{name} {metadata.version(name)}"
    with suppress(ImportError):  # graphs answer without it
        import torch

        device = torch.accelerator.current_accelerator(check_available=True)
        yield f"torch computes on {device or 'cpu'} with {torch.get_num_threads()} threads"


def completion_script(shell: Literal["bash", "zsh", "fish"]) -> str:
    """Print a script that completes verbs, flags and names of tasks.

    For bash or zsh: source <(cloze completion bash). For fish: cloze completion fish | source.

    Args:
        shell: The shell that reads the script.
    """
    from cloze.tasks.registry import TASKS

    apps = {"": cyclopts.App(name="cloze", version_flags=["--version"])}
    names = Literal[tuple(sorted(TASKS))]  # type: ignore[valid-type]
    words = Literal[tuple(verb for verb in VERBS if " " not in verb)]  # type: ignore[valid-type]
    for name, summary in VERBS.items():
        command = Command(load_verb(name), name, choices={"task": names, "topic": words})
        apps[name] = command.app
        apps[name].help = summary
        apps[name.rpartition(" ")[0]].command(apps[name])
    return apps[""].generate_completion(shell=shell)


@verb("completion", completion_script)
def _show_completion(script: str, *, shell: str) -> Shown:
    return {"shell": shell, "script": script}, script


def find_topic(topic: tuple[str, ...] = ()) -> list[str]:
    """Show the help of a verb, or describe a task.

    Args:
        topic: A verb, as in cloze help vocab extend, or a task, as in cloze help classification.
    """
    from cloze.tasks.registry import TASKS

    name = " ".join(topic)
    if name in TASKS and name not in VERBS:
        return ["tasks", name]
    if not topic or split_verb([*topic]) == (name, []):
        return [*topic, "--help"]
    near = nearest(name, [*VERBS, *TASKS])
    remedy = f"Did you mean {near}?" if near else "cloze --help lists the verbs, cloze tasks the tasks"
    raise InputError(f"no verb or task {name!r}", remedy=remedy)


@verb("help", find_topic)
def _show_help(words: list[str], *, flags: CommonOptions) -> None:
    main([*words, *(["--json"] if flags.json else [])])
