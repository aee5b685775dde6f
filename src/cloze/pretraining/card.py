"""The model card's facts about a pre-training run."""

from pathlib import Path

from cloze import config as configuration
from cloze.artifacts import LEARNED_FROM
from cloze.markdown import code_span
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.data import TARGETS_BY_ATTENTION, PretrainingData, steps_per_phase
from cloze.training.model_card import BaseModel, CardInfo, DatasetReference, describe_commit

_FINETUNE = "cloze finetune classification -m DIR -d DATA -o RUN"


def build_card_info(config: PretrainConfig, data: PretrainingData, start: Path | None) -> CardInfo:
    """Return the facts about the run that are known before its first step; `start` is its initial checkpoint."""
    initial = (
        "random weights"
        if config.init is None
        else f"the weights of {code_span(config.init)}{describe_commit(config.init_commit)}"
    )
    causal = config.model.attends_to != "all"
    head = f"{TARGETS_BY_ATTENTION[config.model.attends_to]}-token" if causal else "masked-word"
    heads = f"{head} and next-sentence heads" if config.pairs.next_sentence else f"{head} head"
    steps = [1] * len(config.phases) if config.steps is None else steps_per_phase(config.steps, config.phases)
    longest = max(phase.max_seq_length for phase, count in zip(config.phases, steps, strict=True) if count)
    references = [
        DatasetReference(
            role=LEARNED_FROM,
            name=config.data,
            extent=f"{len(data.train):,} documents; {data.num_held_out:,} more held out",
            sha256=str(config.data_sha256),
        )
    ]
    if config.old_data is not None:
        references.append(
            DatasetReference(
                role="also evaluated on",
                name=config.old_data,
                extent="held-out documents",
                sha256=str(config.old_data_sha256),
            )
        )
    return CardInfo(
        title="A BERT pre-trained with cloze",
        summary=f"An encoder with its {heads} (Devlin et al. 2019), pre-trained from {initial}.",
        use=_FINETUNE
        if causal
        else f'cloze fill -m DIR "Some text with a [MASK]."\n{_FINETUNE}\n'
        "# transformers: AutoModelForPreTraining.from_pretrained(DIR)",
        data=references,
        measured_on=f"documents held out of {code_span(config.data)}",
        intended_use="To be fine-tuned for a task on texts like those it learned from, and to study."
        if causal
        else "To be fine-tuned for a task on texts like those it learned from, to fill in masked words, and to "
        "study. It does not write texts, and the words it fills in are likely, not true.",
        limits=f"In this run it learned from sequences of at most {longest} tokens. The held-out documents are of the "
        "same source as those it learned from.",
        license=config.license,
        pipeline_tag=None if causal else "fill-mask",
        settings=configuration.to_toml(config),
        base=None
        if config.init is None or start is None
        else BaseModel.read(config.init, start, commit=config.init_commit),
    )
