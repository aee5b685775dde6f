"""README.md of an exported graph: labels, lengths, license, and a snippet that runs as it is."""

from collections.abc import Sequence
from pathlib import Path

from cloze.artifacts import LEARNED_FROM, SCORED_ON, read_card
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE
from cloze.markdown import render_markdown
from cloze.models.config_file import load_labels
from cloze.training.model_card import BaseModel

_DATA_ROWS = tuple(f"| {role} |" for role in (LEARNED_FROM, SCORED_ON))
"""The starts of the rows about data in the card of a run."""


def export_card(
    model: str, checkpoint: Path, *, head: str, outputs: Sequence[str], max_length: int, precision: str
) -> str:
    """Return the card of a graph of `model`, as the user named it; the card of `checkpoint` names license and data."""
    problem_type = read_json(checkpoint / CONFIG_FILE).get("problem_type")
    return render_markdown(
        "export/card.md",
        title=" ".join(Path(model).name.split()),
        base=BaseModel.read(model, checkpoint),
        head=head,
        outputs=outputs,
        labels=list(load_labels(checkpoint)) if "logits" in outputs else [],
        is_multi_label=problem_type == "multi_label_classification",
        max_length=max_length,
        precision=precision,
        data=[line for line in read_card(checkpoint).splitlines() if line.startswith(_DATA_ROWS)],
    )
