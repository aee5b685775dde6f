"""`cloze help`: show the help of a verb or describe a task."""

import difflib

from cloze.cli import VERBS, main, options, split_verb
from cloze.errors import InputError


def run(
    topic: tuple[str, ...] = (),
    /,
    *,
    flags: options.Flags,
) -> None:
    """Show the help of a verb, or describe a task.

    Args:
        topic: A verb, as in cloze help vocab extend, or a task, as in cloze help classification.
    """
    from cloze.tasks.registry import tasks

    name = " ".join(topic)
    if name in tasks() and name not in VERBS:
        main(["tasks", name, *(["--json"] if flags.json else [])])
    elif not topic or split_verb([*topic]) == (name, []):
        main([*topic, "--help"])
    else:
        near = difflib.get_close_matches(name, [*VERBS, *tasks()], n=1)
        remedy = f"Did you mean {near[0]}" if near else "cloze --help lists the verbs, cloze tasks the tasks"
        raise InputError(f"no verb or task {name!r}", remedy=remedy)
