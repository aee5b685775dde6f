"""BERT (Devlin et al. 2019), complete: from raw text to a pre-trained encoder, fine-tuned models and answers.

Everything that the command line does is also available in Python, imported on first use:

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
    from cloze.data.build import build_dataset as build_dataset
    from cloze.data.vocabulary import train_vocabulary as train_vocabulary
    from cloze.errors import InputError as InputError
    from cloze.errors import RunError as RunError
    from cloze.export.push import push as push
    from cloze.inference.embedder import Embedder as Embedder
    from cloze.inference.embedder import EmbeddingConfig as EmbeddingConfig
    from cloze.inference.fill_mask import FillMask as FillMask
    from cloze.inference.loading import load as load
    from cloze.inference.next_sentence import NextSentence as NextSentence
    from cloze.inference.predictor import EntityTagger as EntityTagger
    from cloze.inference.predictor import Predictor as Predictor
    from cloze.inference.predictor import QuestionAnswerer as QuestionAnswerer
    from cloze.inference.predictor import TextClassifier as TextClassifier
    from cloze.inference.sentence_scorer import SentenceScorer as SentenceScorer
    from cloze.models.bert import BertConfig as BertConfig
    from cloze.models.bert import BertModel as Bert  # noqa: F401 (its public name)
    from cloze.pretraining.config import PretrainConfig as PretrainConfig
    from cloze.pretraining.run import pretrain as pretrain
    from cloze.pretraining.run import resume_pretraining as resume_pretraining
    from cloze.reports.run_report import write_report as write_report
    from cloze.tasks.config import FinetuneConfig as FinetuneConfig
    from cloze.tasks.finetune import finetune as finetune
    from cloze.tokenization.tokenizer import Tokenizer as Tokenizer

_LOCATIONS = {
    "Bert": "cloze.models.bert:BertModel",
    "BertConfig": "cloze.models.bert:BertConfig",
    "Embedder": "cloze.inference.embedder:Embedder",
    "EmbeddingConfig": "cloze.inference.embedder:EmbeddingConfig",
    "EntityTagger": "cloze.inference.predictor:EntityTagger",
    "FillMask": "cloze.inference.fill_mask:FillMask",
    "FinetuneConfig": "cloze.tasks.config:FinetuneConfig",
    "InputError": "cloze.errors:InputError",
    "NextSentence": "cloze.inference.next_sentence:NextSentence",
    "Predictor": "cloze.inference.predictor:Predictor",
    "PretrainConfig": "cloze.pretraining.config:PretrainConfig",
    "QuestionAnswerer": "cloze.inference.predictor:QuestionAnswerer",
    "RunError": "cloze.errors:RunError",
    "SentenceScorer": "cloze.inference.sentence_scorer:SentenceScorer",
    "TextClassifier": "cloze.inference.predictor:TextClassifier",
    "Tokenizer": "cloze.tokenization.tokenizer:Tokenizer",
    "build_dataset": "cloze.data.build:build_dataset",
    "finetune": "cloze.tasks.finetune:finetune",
    "load": "cloze.inference.loading:load",
    "pretrain": "cloze.pretraining.run:pretrain",
    "push": "cloze.export.push:push",
    "resume_pretraining": "cloze.pretraining.run:resume_pretraining",
    "train_vocabulary": "cloze.data.vocabulary:train_vocabulary",
    "write_report": "cloze.reports.run_report:write_report",
}

__all__ = sorted(_LOCATIONS)


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _LOCATIONS:
        raise AttributeError(f"module 'cloze' has no attribute {name!r}")
    module, _, attribute = _LOCATIONS[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
