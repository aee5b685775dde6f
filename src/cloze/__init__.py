"""cloze: BERT (Devlin et al. 2019), whole, from raw text to answers.

What the command line does is here in Python, imported when it is first used:

    import cloze

    cloze.train_vocabulary(["texts"], "vocab", size=30_522)
    cloze.build_dataset(["texts"], "vocab", "data")
    cloze.pretrain(cloze.PretrainConfig(data="data", steps=100_000), "run")
    fill_mask = cloze.FillMask.load("run")
    fill_mask("The capital of France is [MASK].")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloze.corpus.build import build_dataset as build_dataset
    from cloze.corpus.vocabulary import train_vocabulary as train_vocabulary
    from cloze.evidence.report import write_report as write_report
    from cloze.inference.answer import QuestionAnswerer as QuestionAnswerer
    from cloze.inference.classify import TextClassifier as TextClassifier
    from cloze.inference.embed import Embedder as Embedder
    from cloze.inference.embed import EmbeddingConfig as EmbeddingConfig
    from cloze.inference.fill import FillMask as FillMask
    from cloze.inference.loading import load as load
    from cloze.inference.next_sentence import NextSentence as NextSentence
    from cloze.inference.predictor import Predictor as Predictor
    from cloze.inference.tag import EntityTagger as EntityTagger
    from cloze.model.bert import BertConfig as BertConfig
    from cloze.model.bert import BertModel as Bert  # noqa: F401 (its public name)
    from cloze.pretraining.config import PretrainConfig as PretrainConfig
    from cloze.pretraining.run import pretrain as pretrain
    from cloze.pretraining.run import resume_pretraining as resume_pretraining
    from cloze.tasks.config import FinetuneConfig as FinetuneConfig
    from cloze.tasks.finetune import finetune as finetune
    from cloze.text.tokenizer import Tokenizer as Tokenizer

_HOMES = {
    "Bert": "cloze.model.bert:BertModel",
    "BertConfig": "cloze.model.bert:BertConfig",
    "Embedder": "cloze.inference.embed:Embedder",
    "EmbeddingConfig": "cloze.inference.embed:EmbeddingConfig",
    "EntityTagger": "cloze.inference.tag:EntityTagger",
    "FillMask": "cloze.inference.fill:FillMask",
    "FinetuneConfig": "cloze.tasks.config:FinetuneConfig",
    "NextSentence": "cloze.inference.next_sentence:NextSentence",
    "Predictor": "cloze.inference.predictor:Predictor",
    "PretrainConfig": "cloze.pretraining.config:PretrainConfig",
    "QuestionAnswerer": "cloze.inference.answer:QuestionAnswerer",
    "TextClassifier": "cloze.inference.classify:TextClassifier",
    "Tokenizer": "cloze.text.tokenizer:Tokenizer",
    "build_dataset": "cloze.corpus.build:build_dataset",
    "finetune": "cloze.tasks.finetune:finetune",
    "load": "cloze.inference.loading:load",
    "pretrain": "cloze.pretraining.run:pretrain",
    "resume_pretraining": "cloze.pretraining.run:resume_pretraining",
    "train_vocabulary": "cloze.corpus.vocabulary:train_vocabulary",
    "write_report": "cloze.evidence.report:write_report",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name from the room it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cloze' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """Name what there is, for completion."""
    return __all__
