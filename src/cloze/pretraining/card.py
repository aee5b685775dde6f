"""The model card's facts about a pre-training run."""

from pathlib import Path

from cloze import config as configuration
from cloze.artifacts import LEARNED_FROM
from cloze.markdown import code_span
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.data import TARGETS_BY_ATTENTION, PretrainingData, steps_per_phase
from cloze.training.model_card import BaseModel, CardInfo, DatasetReference


def build_card_info(config: PretrainConfig, data: PretrainingData, start: Path | None) -> CardInfo:
    """Return the facts about the run that are known before its first step; `start` is its initial checkpoint."""
    causal = config.model.attends_to != "all"
    head = f"{TARGETS_BY_ATTENTION[config.model.attends_to]}-token" if causal else "masked-word"
    heads = f"{head} and next-sentence heads" if config.pairs.next_sentence else f"{head} head"
    steps = [1] * len(config.phases) if config.steps is None else steps_per_phase(config.steps, config.phases)
    longest = max(phase.max_seq_length for phase, count in zip(config.phases, steps, strict=True) if count)
    held_out = f"{len(data.train):,} documents; {data.num_held_out:,} more held out"
    references = [DatasetReference(LEARNED_FROM, config.data, held_out, str(config.data_sha256))]
    if config.old_data is not None:
        sha256 = str(config.old_data_sha256)
        references.append(
            DatasetReference("also evaluated on", config.old_data, "held-out documents", sha256)
        )
    return CardInfo(
        template="pretraining/card.md",
        facts={"config": config, "causal": causal, "heads": heads, "longest": longest},
        data=references,
        measured_on=f"documents held out of {code_span(config.data)}",
        license=config.license,
        pipeline_tag=None if causal else "fill-mask",
        settings=configuration.to_toml(config),
        base=None
        if config.init is None or start is None
        else BaseModel.read(config.init, start, commit=config.init_commit),
    )
