"""`cloze finetune TASK`: fine-tune a model on labeled data."""

from collections.abc import Mapping
from typing import Any

from cloze.api.finetuning import (
    FinetuneResult,
    finetune,
    finetuning_settings,
    plan_finetuning,
    validate_data,
)
from cloze.cli.output import format_calibration, format_scores, format_trials, show_plan, show_settings
from cloze.cli.parser import Verb, verb


def show_data(summary: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the sizes of the data and the settings of the task."""
    texts = {name: _as_text(value) for name, value in summary.items()}
    lines = ["the data are valid", *(f"  {name:<16} {text}" for name, text in texts.items() if text)]
    return summary, "\n".join(lines)


@verb(
    finetune,
    {
        "validate": Verb(validate_data, show_data),
        "print_config": Verb(finetuning_settings, show_settings),
        "dry_run": Verb(plan_finetuning, show_plan),
    },
    is_distributed=True,
)
def show(result: FinetuneResult) -> tuple[dict[str, Any], str]:
    """Return the scores of a run, or of several."""
    from cloze.finetuning.finetune import extract_scores

    report = result.report
    if "settings" in report:
        lines = format_trials(report)
    else:
        lines = format_scores(extract_scores(report), examples=report["examples"], data=report["data"])
        lines[-1:-1] = format_calibration(report)
        if "collapse" in report:
            lines.append(f"  the model learned nothing: {report['collapse']}")
    return {"run": str(result.path), **report}, "\n".join([f"wrote {result.path}", *lines])


def _as_text(value: object) -> str:
    """Return a value for people; of a table the entries that are set.

    >>> _as_text({"text_column": "note", "labels": ["no", "yes"], "balanced": False})
    'text_column note, labels [no, yes]'
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_as_text(entry)}" for key, entry in value.items() if entry)
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
