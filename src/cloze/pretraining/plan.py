"""Whether a pre-training run fits in memory, and how long it will take."""

from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from cloze.corpus.store import Dataset
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.initial import initial_model
from cloze.pretraining.material import fingerprint, gather, work_of
from cloze.pretraining.objective import steps_of_phases
from cloze.progress import SILENT, Progress
from cloze.training.checkpoints import Position
from cloze.training.cost import Workload
from cloze.training.distribution import World
from cloze.training.memory import available_memory
from cloze.training.plan import MemoryPlan, Rehearsal, RunPlan, Stretch, evaluation_seconds, plan_memory
from cloze.training.precision import resolve_device, resolve_dtype


def plan_pretraining(config: PretrainConfig, *, progress: Progress = SILENT) -> RunPlan:
    """Say whether a run fits in memory and how long it will take, from a few micro-batches; nothing is written.

    Raises:
        InputError: as `pretrain`.
    """
    dataset = Dataset.open(Path(config.data))
    fingerprint(config, dataset)
    config = replace(config, google_instances=None)  # drawn ones are as long, and need not be built
    material = gather(config, dataset, World(resolve_device(config.device)))
    dtype = resolve_dtype(config.precision, material.world.device)
    available = available_memory(material.world.device)
    model = initial_model(config, material.tokenizer, progress).to(material.world.device)
    work = work_of(config, material, Path(), progress)
    steps = [
        work.step_data(end - phase.fraction / 2, Position(number), config.micro_batch_tokens)
        for number, (phase, end) in enumerate(
            zip(config.phases, accumulate(phase.fraction for phase in config.phases), strict=True)
        )
    ]
    rehearsal = Rehearsal(model, work, config.optimizer, dtype)

    def memory() -> MemoryPlan:
        plans = [
            plan_memory(
                model,
                model.config,
                [Workload.of(batch) for batch in step.batches],
                dtype,
                rehearsal.optimizer,
                available=available,
                kept_copies=int(config.averaging is not None),
            )
            for step in steps
        ]
        return max(plans, key=lambda plan: plan.activations)

    timed: list[Stretch] = []  # a step of each phase; of none where the run does not fit
    for phase, step in zip(config.phases, steps, strict=True) if memory().fits else ():
        name = f"sequences up to {phase.max_seq_length} tokens"
        progress.note(f"timing steps of {name}")
        timed.append(Stretch(name, 1, step.num_tokens, rehearsal.step_seconds(step)))
    held_out = sum(len(batch.input_ids) for batch in (*material.held_out, *material.old_held_out))
    evaluations = config.evaluation.times * evaluation_seconds(held_out, timed[-1:])

    if config.steps is not None:
        counts = steps_of_phases(config.steps, config.phases)
    else:
        assert config.budget_seconds is not None
        left = max(config.budget_seconds - evaluations, 0)  # the clock does not stop for them
        counts = [
            int(phase.fraction * left / stretch.step_seconds)
            for phase, stretch in zip(config.phases, timed, strict=False)
        ]

    return RunPlan(
        device=str(material.world.device),
        dtype=str(dtype).removeprefix("torch."),
        memory=memory(),
        stretches=tuple(replace(stretch, steps=count) for count, stretch in zip(counts, timed, strict=False)),
        evaluation_seconds=evaluations,
    )
