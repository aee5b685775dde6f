"""BERT (Devlin et al. 2019), complete: from raw text to a pre-trained encoder, fine-tuned models and answers.

Everything that the command line does is also available in Python, imported on first use:

    import cloze

    cloze.train_vocabulary("texts", output="vocab", size=30_522)
    cloze.build_dataset("texts", vocabulary="vocab", output="data")
    cloze.pretrain(data="data", output="run", steps=100_000)
    fill_mask = cloze.FillMask.load("run")
    fill_mask("The capital of France is [MASK].")

A function raises `InputError` for a wrong input, before it writes anything, and `RunError` for a failure while it runs.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloze.api.datasets import audit as audit
    from cloze.api.datasets import build_dataset as build_dataset
    from cloze.api.datasets import check_inputs as check_inputs
    from cloze.api.datasets import preview_inputs as preview_inputs
    from cloze.api.evaluation import EvaluationResult as EvaluationResult
    from cloze.api.evaluation import evaluate as evaluate
    from cloze.api.evaluation import score as score
    from cloze.api.finetuning import FinetuneResult as FinetuneResult
    from cloze.api.finetuning import finetune as finetune
    from cloze.api.finetuning import finetuning_settings as finetuning_settings
    from cloze.api.finetuning import plan_finetuning as plan_finetuning
    from cloze.api.finetuning import validate_data as validate_data
    from cloze.api.labeled import BaselineResult as BaselineResult
    from cloze.api.labeled import baseline as baseline
    from cloze.api.labeled import describe_formats as describe_formats
    from cloze.api.labeled import describe_tasks as describe_tasks
    from cloze.api.labeled import glue_submission as glue_submission
    from cloze.api.models import attention as attention
    from cloze.api.models import explain as explain
    from cloze.api.models import export_model as export_model
    from cloze.api.models import fill as fill
    from cloze.api.models import import_model as import_model
    from cloze.api.models import next_sentence as next_sentence
    from cloze.api.predictions import next_labels as next_labels
    from cloze.api.predictions import predict_file as predict_file
    from cloze.api.pretraining import plan_pretraining as plan_pretraining
    from cloze.api.pretraining import pretrain as pretrain
    from cloze.api.pretraining import pretraining_settings as pretraining_settings
    from cloze.api.tools import info as info
    from cloze.api.tools import push as push
    from cloze.api.tools import report as report
    from cloze.api.tools import serve as serve
    from cloze.api.vectors import embed_file as embed_file
    from cloze.api.vectors import neighbors as neighbors
    from cloze.api.vectors import search as search
    from cloze.api.vocabularies import InspectedVocabulary as InspectedVocabulary
    from cloze.api.vocabularies import extend_vocabulary as extend_vocabulary
    from cloze.api.vocabularies import inspect_vocabulary as inspect_vocabulary
    from cloze.api.vocabularies import load_tokenizer as load_tokenizer
    from cloze.api.vocabularies import train_vocabulary as train_vocabulary
    from cloze.callbacks import Callback as Callback
    from cloze.data.audit import Audit as Audit
    from cloze.data.build.input_shards import InputPreview as InputPreview
    from cloze.data.build.input_shards import InputSummary as InputSummary
    from cloze.data.build.parts import BuildSummary as BuildSummary
    from cloze.data.build.vocabulary import Extension as Extension
    from cloze.demo.examples import write_examples as write_examples
    from cloze.demo.pipeline import run_demo as run_demo
    from cloze.errors import InputError as InputError
    from cloze.errors import RunError as RunError
    from cloze.explorer.encoder_internals import AttentionMap as AttentionMap
    from cloze.finetuning.config import FinetuneConfig as FinetuneConfig
    from cloze.inference.answerer import load_encoder as load_encoder
    from cloze.inference.embedder import Embedder as Embedder
    from cloze.inference.embedding_files import EmbeddingFileSummary as EmbeddingFileSummary
    from cloze.inference.explain import ExplainConfig as ExplainConfig
    from cloze.inference.explain import Explanation as Explanation
    from cloze.inference.load import load as load
    from cloze.inference.neighbors import Neighbor as Neighbor
    from cloze.inference.pretrained_heads import Candidate as Candidate
    from cloze.inference.pretrained_heads import FilledText as FilledText
    from cloze.inference.pretrained_heads import FillMask as FillMask
    from cloze.inference.pretrained_heads import NextSentence as NextSentence
    from cloze.inference.pretrained_heads import NextSentencePrediction as NextSentencePrediction
    from cloze.inference.pretrained_heads import SentenceScore as SentenceScore
    from cloze.inference.pretrained_heads import SentenceScorer as SentenceScorer
    from cloze.inference.pretrained_heads import TokenScore as TokenScore
    from cloze.inference.search import Hit as Hit
    from cloze.inference.search import PassageIndex as PassageIndex
    from cloze.inference.text_predictors import ChoiceAnswerer as ChoiceAnswerer
    from cloze.inference.text_predictors import EntityTagger as EntityTagger
    from cloze.inference.text_predictors import MultiLabelClassifier as MultiLabelClassifier
    from cloze.inference.text_predictors import QuestionAnswerer as QuestionAnswerer
    from cloze.inference.text_predictors import RankedPassage as RankedPassage
    from cloze.inference.text_predictors import ScorePrediction as ScorePrediction
    from cloze.inference.text_predictors import TextClassifier as TextClassifier
    from cloze.inference.text_predictors import TextRanker as TextRanker
    from cloze.inference.text_predictors import TextRegressor as TextRegressor
    from cloze.models.bert import BertConfig as BertConfig
    from cloze.models.bert import BertModel as BertModel
    from cloze.parallel_map import RayCluster as RayCluster
    from cloze.pretraining.config import PretrainConfig as PretrainConfig
    from cloze.process import configure_process as configure_process
    from cloze.progress import Progress as Progress
    from cloze.tasks.answers.choice import ChoicePrediction as ChoicePrediction
    from cloze.tasks.answers.label_set import LabelSetPrediction as LabelSetPrediction
    from cloze.tasks.answers.one_label import ClassPrediction as ClassPrediction
    from cloze.tasks.answers.span import Answer as Answer
    from cloze.tasks.answers.span import SpanPrediction as SpanPrediction
    from cloze.tasks.answers.tags import PredictedEntity as PredictedEntity
    from cloze.tasks.registry import find_task as find_task
    from cloze.tasks.registry import register_task as register_task
    from cloze.tasks.task import Task as Task
    from cloze.tokenization.tokenizer import Tokenizer as Tokenizer
    from cloze.tokenization.wordpiece import WordPieceTokenizer as WordPieceTokenizer

    __version__: str

_SOURCE = Path(__file__).read_text("utf-8")
MODULES = {
    name: module
    for module, name in re.findall(r"^    from (cloze\S+) import (\w+) as", _SOURCE, re.MULTILINE)
}
"""The module of each public name, read from the imports above, which only type checkers make."""

__all__ = sorted(MODULES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("cloze-bert")
    if name not in MODULES:
        near = import_module("cloze.suggestions").nearest(name, MODULES)
        hint = f". Did you mean cloze.{near}?" if near and not name.startswith("_") else ""
        raise AttributeError(f"module 'cloze' has no attribute {name!r}{hint}", name=name)
    return getattr(import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
