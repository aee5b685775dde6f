"""`cloze tasks`: what can be fine-tuned, evaluated, predicted and scored."""

from cloze.cli.common import Flags


def run(*, flags: Flags) -> None:
    """List the tasks: their data, the score that says which model is best, and where both come from.

    Args:
        flags: flags of every verb.
    """
    from cloze.tasks.registry import tasks

    found = [
        {"task": name, "metric": task.main_metric, "data": task.data_format, "source": task.source}
        for name, task in sorted(tasks().items())
    ]
    widths = {key: max(len(row[key]) for row in found) for key in ("task", "metric")}
    lines = [
        f"{row['task']:<{widths['task']}}  {row['metric']:<{widths['metric']}}  {row['data']} [{row['source']}]"
        for row in found
    ]
    flags.print(found, "\n".join(lines))
