"""`cloze help`: show the help of a verb or describe a task."""

from cloze.cli import VERBS, main, split_verb
from cloze.cli.options import CommonOptions
from cloze.cli.parser import verb
from cloze.errors import InputError
from cloze.suggestions import nearest


def find_topic(topic: tuple[str, ...] = (), /) -> list[str]:
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


@verb(find_topic)
def show(words: list[str], *, flags: CommonOptions) -> None:
    """Run the command that shows the topic."""
    main([*words, *(["--json"] if flags.json else [])])
