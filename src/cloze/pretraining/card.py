"""What the model card says of a pre-training run."""

from pathlib import Path

from cloze import config as configuration
from cloze.corpus.store import identity_of
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.material import Material
from cloze.pretraining.objective import TARGETS, steps_of_phases
from cloze.training.model_card import CardFacts, DataUsed


def card_facts(config: PretrainConfig, material: Material) -> CardFacts:
    """Return what the model card says of the run before it has begun."""
    begun = "random weights" if config.init is None else f"the weights of `{config.init}`"
    one_way = config.model.attends_to != "all"
    heads = f"{TARGETS[config.model.attends_to]}-piece head" if one_way else "masked-word head"
    if config.pairs.next_sentence:
        heads = f"{heads.removesuffix(' head')} and next-sentence heads"
    finetuning = "cloze finetune classification -m DIR -d DATA -o RUN"
    steps = [1] * len(config.phases) if config.steps is None else steps_of_phases(config.steps, config.phases)
    longest = max(phase.max_seq_length for phase, own in zip(config.phases, steps, strict=True) if own)
    assert config.data_sha256 is not None
    return CardFacts(
        title="A BERT pre-trained with cloze",
        summary=f"An encoder with its {heads} (Devlin et al. 2019), pre-trained from {begun}.",
        use=finetuning
        if one_way
        else f'cloze fill -m DIR "Some text with a [MASK]."\n{finetuning}\n'
        "# transformers: AutoModelForPreTraining.from_pretrained(DIR)",
        data=[
            DataUsed(
                role="learned from",
                name=config.data,
                extent=f"{len(material.train):,} documents; {material.num_held_out:,} more held out",
                sha256=config.data_sha256,
            ),
            *_old_data_used(config),
        ],
        measured_on=f"documents held out of `{config.data}`",
        intended_use="To be fine-tuned for a task on texts like those it learned from, and to study."
        if one_way
        else "To be fine-tuned for a task on texts like those it learned from, to fill in hidden words, and to "
        "study. It does not write texts, and what it fills in is likely, not true.",
        limits=f"In this run it learned from sequences of at most {longest} tokens. The held-out documents are of the "
        "same source as those it learned from.",
        license=config.license,
        pipeline_tag=None if one_way else "fill-mask",
        settings=configuration.to_toml(config),
    )


def _old_data_used(config: PretrainConfig) -> list[DataUsed]:
    if config.old_data is None:
        return []
    sha256 = identity_of(Path(config.old_data))
    return [
        DataUsed(role="measured on, too", name=config.old_data, extent="held-out documents", sha256=sha256)
    ]
