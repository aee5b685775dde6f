"""`cloze completion`: print a script that completes verbs, flags and tasks in a shell."""

from typing import Any, Literal

import cyclopts

from cloze.cli import VERBS, load_verb
from cloze.cli.parser import Command, verb


def completion_script(shell: Literal["bash", "zsh", "fish"], /) -> str:
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


@verb(completion_script)
def show(script: str, *, shell: str) -> tuple[Any, str]:
    """Return the script."""
    return {"shell": shell, "script": script}, script
