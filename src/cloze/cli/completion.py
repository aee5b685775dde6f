"""`cloze completion`: print a script that completes verbs, flags and tasks in a shell."""

from typing import Literal

import cyclopts

from cloze.cli import VERBS, load_verb, options
from cloze.cli.parser import Command


def run(shell: Literal["bash", "zsh", "fish"], /, *, flags: options.Flags) -> None:
    """Print a script that completes verbs, flags and names of tasks.

    For bash or zsh: source <(cloze completion bash). For fish: cloze completion fish | source.

    Args:
        shell: The shell that reads the script.
    """
    from cloze.tasks.registry import tasks

    apps = {"": cyclopts.App(name="cloze", version_flags=["--version"])}
    names = Literal[tuple(sorted(tasks()))]  # type: ignore[valid-type]
    words = Literal[tuple(verb for verb in VERBS if " " not in verb)]  # type: ignore[valid-type]
    for verb, summary in VERBS.items():
        command = Command(load_verb(verb), verb, choices={"task": names, "topic": words})
        apps[verb] = command.app
        apps[verb].help = summary
        apps[verb.rpartition(" ")[0]].command(apps[verb])
    script = apps[""].generate_completion(shell=shell)
    flags.print({"shell": shell, "script": script}, script)
