"""BERT (Devlin et al. 2019), complete: from raw text to a pre-trained encoder, fine-tuned models and answers.

Everything that the command line does is also available in Python, imported on first use:

    import cloze

    cloze.train_vocabulary("texts", output="vocab", size=30_522)
    cloze.build_dataset(["texts"], "vocab", "data")
    cloze.pretrain(data="data", output="run", steps=100_000)
    fill_mask = cloze.FillMask.load("run")
    fill_mask("The capital of France is [MASK].")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloze.api.data import train_vocabulary as train_vocabulary
    from cloze.api.finetuning import finetune as finetune
    from cloze.api.finetuning import finetuning_settings as finetuning_settings
    from cloze.api.finetuning import plan_finetuning as plan_finetuning
    from cloze.api.finetuning import validate_data as validate_data
    from cloze.api.labeled import baseline as baseline
    from cloze.api.labeled import describe_tasks as describe_tasks
    from cloze.api.labeled import evaluate as evaluate
    from cloze.api.labeled import glue_submission as glue_submission
    from cloze.api.labeled import score as score
    from cloze.api.models import attention as attention
    from cloze.api.models import explain as explain
    from cloze.api.models import export_model as export_model
    from cloze.api.models import fill as fill
    from cloze.api.models import import_model as import_model
    from cloze.api.models import next_sentence as next_sentence
    from cloze.api.predictions import predict_file as predict_file
    from cloze.api.pretraining import audit as audit
    from cloze.api.pretraining import build_dataset as build_dataset
    from cloze.api.pretraining import extend_vocabulary as extend_vocabulary
    from cloze.api.pretraining import plan_pretraining as plan_pretraining
    from cloze.api.pretraining import pretrain as pretrain
    from cloze.api.pretraining import pretraining_settings as pretraining_settings
    from cloze.api.tools import info as info
    from cloze.api.tools import push as push
    from cloze.api.tools import report as report
    from cloze.api.tools import serve as serve
    from cloze.api.vectors import embed_file as embed_file
    from cloze.api.vectors import neighbors as neighbors
    from cloze.callbacks import Callback as Callback
    from cloze.demo.run import run_demo as run_demo
    from cloze.errors import InputError as InputError
    from cloze.errors import RunError as RunError
    from cloze.inference.embedder import Embedder as Embedder
    from cloze.inference.fill_mask import FillMask as FillMask
    from cloze.inference.load import load as load
    from cloze.inference.loading import load_encoder as load_encoder
    from cloze.inference.next_sentence import NextSentence as NextSentence
    from cloze.inference.sentence_scorer import SentenceScorer as SentenceScorer
    from cloze.inference.text_predictors import ChoiceAnswerer as ChoiceAnswerer
    from cloze.inference.text_predictors import EntityTagger as EntityTagger
    from cloze.inference.text_predictors import MultiLabelClassifier as MultiLabelClassifier
    from cloze.inference.text_predictors import QuestionAnswerer as QuestionAnswerer
    from cloze.inference.text_predictors import TextClassifier as TextClassifier
    from cloze.inference.text_predictors import TextRanker as TextRanker
    from cloze.inference.text_predictors import TextRegressor as TextRegressor
    from cloze.models.bert import BertConfig as BertConfig
    from cloze.models.bert import BertModel as Bert  # noqa: F401 (its public name)
    from cloze.pretraining.config import PretrainConfig as PretrainConfig
    from cloze.tasks.config import FinetuneConfig as FinetuneConfig
    from cloze.tokenization.tokenizer import Tokenizer as Tokenizer

    __version__: str

_LOCATIONS = {
    "Bert": "cloze.models.bert:BertModel",
    "BertConfig": "cloze.models.bert:BertConfig",
    "Callback": "cloze.callbacks:Callback",
    "ChoiceAnswerer": "cloze.inference.text_predictors:ChoiceAnswerer",
    "Embedder": "cloze.inference.embedder:Embedder",
    "EntityTagger": "cloze.inference.text_predictors:EntityTagger",
    "FillMask": "cloze.inference.fill_mask:FillMask",
    "FinetuneConfig": "cloze.tasks.config:FinetuneConfig",
    "InputError": "cloze.errors:InputError",
    "MultiLabelClassifier": "cloze.inference.text_predictors:MultiLabelClassifier",
    "NextSentence": "cloze.inference.next_sentence:NextSentence",
    "PretrainConfig": "cloze.pretraining.config:PretrainConfig",
    "QuestionAnswerer": "cloze.inference.text_predictors:QuestionAnswerer",
    "RunError": "cloze.errors:RunError",
    "SentenceScorer": "cloze.inference.sentence_scorer:SentenceScorer",
    "TextClassifier": "cloze.inference.text_predictors:TextClassifier",
    "TextRanker": "cloze.inference.text_predictors:TextRanker",
    "TextRegressor": "cloze.inference.text_predictors:TextRegressor",
    "Tokenizer": "cloze.tokenization.tokenizer:Tokenizer",
    "attention": "cloze.api.models:attention",
    "audit": "cloze.api.pretraining:audit",
    "baseline": "cloze.api.labeled:baseline",
    "build_dataset": "cloze.api.pretraining:build_dataset",
    "describe_tasks": "cloze.api.labeled:describe_tasks",
    "embed_file": "cloze.api.vectors:embed_file",
    "evaluate": "cloze.api.labeled:evaluate",
    "explain": "cloze.api.models:explain",
    "export_model": "cloze.api.models:export_model",
    "extend_vocabulary": "cloze.api.pretraining:extend_vocabulary",
    "fill": "cloze.api.models:fill",
    "finetune": "cloze.api.finetuning:finetune",
    "glue_submission": "cloze.api.labeled:glue_submission",
    "import_model": "cloze.api.models:import_model",
    "neighbors": "cloze.api.vectors:neighbors",
    "next_sentence": "cloze.api.models:next_sentence",
    "plan_finetuning": "cloze.api.finetuning:plan_finetuning",
    "validate_data": "cloze.api.finetuning:validate_data",
    "finetuning_settings": "cloze.api.finetuning:finetuning_settings",
    "plan_pretraining": "cloze.api.pretraining:plan_pretraining",
    "pretraining_settings": "cloze.api.pretraining:pretraining_settings",
    "load": "cloze.inference.load:load",
    "load_encoder": "cloze.inference.loading:load_encoder",
    "predict_file": "cloze.api.predictions:predict_file",
    "pretrain": "cloze.api.pretraining:pretrain",
    "score": "cloze.api.labeled:score",
    "info": "cloze.api.tools:info",
    "push": "cloze.api.tools:push",
    "report": "cloze.api.tools:report",
    "run_demo": "cloze.demo.run:run_demo",
    "train_vocabulary": "cloze.api.data:train_vocabulary",
    "serve": "cloze.api.tools:serve",
}

__all__ = sorted(_LOCATIONS)


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name == "__version__":
        return import_module("importlib.metadata").version("cloze-bert")
    if name not in _LOCATIONS:
        raise AttributeError(f"module 'cloze' has no attribute {name!r}")
    module, _, attribute = _LOCATIONS[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
