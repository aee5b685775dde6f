"""How much memory and time a pre-training run takes."""

from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from cloze.data.batch import DataPosition
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.data import PretrainingData, build_batches, steps_per_phase, verify_data
from cloze.pretraining.initial_weights import initial_model, with_initial_architecture
from cloze.pretraining.run import build_objective
from cloze.progress import SILENT, Progress
from cloze.training.distributed import DistributedContext
from cloze.training.memory import available_memory
from cloze.training.plan import PlannedPhase, RunPlan, plan_run
from cloze.training.precision import resolve_device, resolve_dtype


def plan_pretraining(
    config: PretrainConfig, start: Path | None = None, *, progress: Progress = SILENT
) -> RunPlan:
    """Measure memory and time of a run in a few micro-batches; nothing is written.

    Args:
        start: directory of the checkpoint that `config.init` names.
    """
    config = verify_data(
        replace(config, google_instances=None)
    )  # drawn ones are as long, and need not be built
    config = with_initial_architecture(config, start)
    data = PretrainingData.load(config, DistributedContext(resolve_device(config.device)))
    device = data.context.device
    available = available_memory(device)
    model = initial_model(config, start, data.tokenizer, progress)
    objective = build_objective(config, data, model)
    batches = build_batches(config, data, Path(), progress)
    ends = accumulate(phase.fraction for phase in config.phases)
    counts = (
        [None] * len(config.phases) if config.steps is None else steps_per_phase(config.steps, config.phases)
    )
    phases = [
        PlannedPhase(
            name=f"sequences up to {phase.max_seq_length} tokens",
            step=batches.step_data(end - phase.fraction / 2, DataPosition(number), config.micro_batch_tokens),
            steps=steps,
            fraction=phase.fraction,
        )
        for number, (phase, end, steps) in enumerate(zip(config.phases, ends, counts, strict=True))
    ]
    held_out = sum(len(batch.input_ids) for batch in (*data.held_out, *data.old_held_out))
    evaluations = config.evaluation.times + (config.init is not None)  # one before the first step
    return plan_run(
        objective,
        config.optimizer,
        resolve_dtype(config.precision, device),
        phases,
        budget_seconds=config.budget_seconds,
        evaluation_tokens=evaluations * held_out,
        available_memory=available,
        progress=progress,
    )
