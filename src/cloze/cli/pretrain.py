"""`cloze pretrain`: pre-train an encoder with masked LM and next sentence prediction."""

from pathlib import Path

from cloze.api.pretraining import plan_pretraining, pretrain, pretraining_settings
from cloze.cli.output import show_plan, show_settings
from cloze.cli.parser import Verb, verb


@verb(
    pretrain,
    {"print_config": Verb(pretraining_settings, show_settings), "dry_run": Verb(plan_pretraining, show_plan)},
    is_distributed=True,
)
def show(metrics: dict[str, float], output: str | Path) -> tuple[dict[str, object], str]:
    """Return the last metrics on held-out documents."""
    width = max(24, *map(len, metrics))
    lines = [f"wrote {output}", *(f"  {name:<{width}} {value:.4f}" for name, value in metrics.items())]
    return {"run": str(output), **metrics}, "\n".join(lines)
