"""How high should positions begin? Run from the repository, with PYTHONPATH=., as

    python records/2026-11-22-table5/positions.py DATASET OUT SEED KIND:HEIGHT…

Pre-trains the row `no-nsp` of table 5 with positions that begin HEIGHT times as high as its words do (the root of the
mean square is HEIGHT times `initializer_range`), and prints the masked-word loss on held-out single segments, in nats a
hidden piece: after 1,000 steps, as the run looked at it, and at its end, as the table has it. KIND is `learned`, or
`waves` that do not learn; `learned:1` is BERT, `waves:5` the row `sinusoidal`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cloze.data.instances.pairs import PairsConfig
from cloze.model_paths import resolve_checkpoint
from cloze.models.encoder import Encoder, build_encoder
from cloze.pretraining import initial_weights
from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.pretraining.run import pretrain
from experiments.ablations import AblationConfig, read_ablation
from experiments.encoders.sinusoidal_positions import sinusoidal_positions


def begun_at(kind: str, height: float) -> Callable[..., Encoder]:
    """Return what makes an encoder with such positions."""

    def make(*arguments: Any, **named: Any) -> Encoder:
        bert = build_encoder(*arguments, **named)
        if kind == "waves":
            table = bert.embeddings.position_embeddings.weight.requires_grad_(requires_grad=False)
            table.data.copy_(sinusoidal_positions(*table.shape) * 2**0.5 * bert.config.initializer_range)
        bert.embeddings.position_embeddings.weight.data.mul_(height)
        return bert

    return make


def main(data: Path, output: Path, seed: int, asked: list[str]) -> None:
    """Print a line for each."""
    study = read_ablation("table5", AblationConfig())
    settings = PretrainingEvaluationConfig(
        max_seq_length=128, max_instances=2000, pairs=PairsConfig(next_sentence=False)
    )
    for each in asked:
        kind, _, height = each.partition(":")
        initial_weights.build_encoder = begun_at(kind, float(height))  # type: ignore[assignment]
        run = output / each / f"seed-{seed}"
        if not (run / "latest").exists():
            pretrain(study.config("no-nsp", seed, data), run)
        rows = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
        early = next(
            row["masked_lm_loss"] for row in rows if row["kind"] == "validation" and row["step"] == 1000
        )
        found = evaluate_pretrained(resolve_checkpoint(run, "latest"), [data], settings).masked_lm[
            "masked_lm_loss"
        ]
        print(f"{each} seed {seed}: {early:.3f} after 1,000 steps, {found:.3f} at the end", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
