"""What the tests of the verbs share: settings of runs that take a second, and the paths of one of everything."""

from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
NANO = tuple(
    f"--set={setting}"
    for setting in (
        "precision=float32",
        "device=cpu",
        "micro_batch_tokens=256",
        "model.num_hidden_layers=1",
        "model.hidden_size=16",
        "model.num_attention_heads=2",
        "model.intermediate_size=24",
        "model.max_position_embeddings=32",
        "phases=[{max_seq_length=32, fraction=1, batch_size=8}]",
        "optimizer.learning_rate=1e-3",
        "evaluation.times=2",
        "evaluation.max_instances=16",
    )
)
"""Settings of a pre-training run that takes a second."""
NANO_TASK = tuple(
    f"--set={setting}"
    for setting in ("precision=float32", "device=cpu", "max_seq_length=32", "micro_batch_tokens=256")
)


@dataclass(frozen=True)
class Shop:
    """Paths of what is there."""

    text: Path
    vocab: Path
    data: Path
    run: Path
    table: Path
    classifier: Path

    @property
    def checkpoint(self) -> Path:
        return sorted((self.run / "checkpoints").iterdir())[-1]
