"""BERT (Devlin et al. 2019), complete: from raw text to a pre-trained encoder, fine-tuned models and answers.

Everything that the command line does is also available in Python, imported on first use:

    import cloze

    cloze.train_vocabulary("texts", output="vocab", size=30_522)
    cloze.build_dataset("texts", vocabulary="vocab", output="data")
    cloze.pretrain(data="data", output="run", steps=100_000)
    fill_mask = cloze.FillMask.load("run")
    fill_mask("The capital of France is [MASK].")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloze.api.datasets import audit as audit
    from cloze.api.datasets import build_dataset as build_dataset
    from cloze.api.datasets import check_inputs as check_inputs
    from cloze.api.datasets import merge_datasets as merge_datasets
    from cloze.api.datasets import preview_inputs as preview_inputs
    from cloze.api.finetuning import FinetuneResult as FinetuneResult
    from cloze.api.finetuning import finetune as finetune
    from cloze.api.finetuning import finetuning_settings as finetuning_settings
    from cloze.api.finetuning import plan_finetuning as plan_finetuning
    from cloze.api.finetuning import validate_data as validate_data
    from cloze.api.labeled import BaselineResult as BaselineResult
    from cloze.api.labeled import EvaluationResult as EvaluationResult
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
    from cloze.api.pretraining import plan_pretraining as plan_pretraining
    from cloze.api.pretraining import pretrain as pretrain
    from cloze.api.pretraining import pretraining_settings as pretraining_settings
    from cloze.api.tools import info as info
    from cloze.api.tools import push as push
    from cloze.api.tools import report as report
    from cloze.api.tools import serve as serve
    from cloze.api.vectors import embed_file as embed_file
    from cloze.api.vectors import neighbors as neighbors
    from cloze.api.vocabularies import InspectedVocabulary as InspectedVocabulary
    from cloze.api.vocabularies import extend_vocabulary as extend_vocabulary
    from cloze.api.vocabularies import inspect_vocabulary as inspect_vocabulary
    from cloze.api.vocabularies import train_vocabulary as train_vocabulary
    from cloze.callbacks import Callback as Callback
    from cloze.data.audit import Audit as Audit
    from cloze.data.build.parts import BuildSummary as BuildSummary
    from cloze.data.build.survey import InputPreview as InputPreview
    from cloze.data.build.vocabulary_extension import Extension as Extension
    from cloze.demo.run import run_demo as run_demo
    from cloze.errors import InputError as InputError
    from cloze.errors import RunError as RunError
    from cloze.explorer.encoder_internals import AttentionMap as AttentionMap
    from cloze.inference.embedder import Embedder as Embedder
    from cloze.inference.embedding_files import EmbeddingFileSummary as EmbeddingFileSummary
    from cloze.inference.explain import ExplainConfig as ExplainConfig
    from cloze.inference.explain import Explanation as Explanation
    from cloze.inference.fill_mask import Candidate as Candidate
    from cloze.inference.fill_mask import FilledText as FilledText
    from cloze.inference.fill_mask import FillMask as FillMask
    from cloze.inference.load import load as load
    from cloze.inference.loading import load_encoder as load_encoder
    from cloze.inference.neighbors import Neighbor as Neighbor
    from cloze.inference.next_sentence import NextSentence as NextSentence
    from cloze.inference.next_sentence import NextSentencePrediction as NextSentencePrediction
    from cloze.inference.sentence_scorer import SentenceScore as SentenceScore
    from cloze.inference.sentence_scorer import SentenceScorer as SentenceScorer
    from cloze.inference.sentence_scorer import TokenScore as TokenScore
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
    from cloze.pretraining.config import PretrainConfig as PretrainConfig
    from cloze.progress import Progress as Progress
    from cloze.ray_cluster import RayCluster as RayCluster
    from cloze.tasks.config import FinetuneConfig as FinetuneConfig
    from cloze.tasks.custom import Classification as Classification
    from cloze.tasks.custom import CustomMultipleChoice as CustomMultipleChoice
    from cloze.tasks.custom import CustomTagging as CustomTagging
    from cloze.tasks.custom import Ranking as Ranking
    from cloze.tasks.custom import Regression as Regression
    from cloze.tasks.custom import ScoredPairs as ScoredPairs
    from cloze.tasks.families.multi_label import LabelSetPrediction as LabelSetPrediction
    from cloze.tasks.families.multi_label import MultiLabel as MultiLabel
    from cloze.tasks.families.multiple_choice import ChoicePrediction as ChoicePrediction
    from cloze.tasks.families.sequence_classification import ClassPrediction as ClassPrediction
    from cloze.tasks.families.text_pairs import TextPairs as TextPairs
    from cloze.tasks.span_decoding import Answer as Answer
    from cloze.tasks.span_decoding import SpanPrediction as SpanPrediction
    from cloze.tasks.squad import SquadV1 as SquadV1
    from cloze.tasks.squad import SquadV2 as SquadV2
    from cloze.tasks.tag_predictions import PredictedEntity as PredictedEntity
    from cloze.tokenization.loading import load_tokenizer as load_tokenizer
    from cloze.tokenization.tokenizer import Tokenizer as Tokenizer
    from cloze.tokenization.wordpiece import WordPieceTokenizer as WordPieceTokenizer

    __version__: str

_NAMES = {
    "cloze.api.datasets": "audit build_dataset check_inputs merge_datasets preview_inputs",
    "cloze.api.finetuning": "FinetuneResult finetune finetuning_settings plan_finetuning validate_data",
    "cloze.api.labeled": "BaselineResult EvaluationResult baseline describe_tasks evaluate glue_submission score",
    "cloze.api.models": "attention explain export_model fill import_model next_sentence",
    "cloze.api.predictions": "predict_file",
    "cloze.api.pretraining": "plan_pretraining pretrain pretraining_settings",
    "cloze.api.tools": "info push report serve",
    "cloze.api.vectors": "embed_file neighbors",
    "cloze.api.vocabularies": "InspectedVocabulary extend_vocabulary inspect_vocabulary train_vocabulary",
    "cloze.callbacks": "Callback",
    "cloze.data.audit": "Audit",
    "cloze.data.build.parts": "BuildSummary",
    "cloze.data.build.survey": "InputPreview",
    "cloze.data.build.vocabulary_extension": "Extension",
    "cloze.demo.run": "run_demo",
    "cloze.errors": "InputError RunError",
    "cloze.inference.embedder": "Embedder",
    "cloze.inference.embedding_files": "EmbeddingFileSummary",
    "cloze.explorer.encoder_internals": "AttentionMap",
    "cloze.inference.explain": "ExplainConfig Explanation",
    "cloze.inference.fill_mask": "Candidate FillMask FilledText",
    "cloze.inference.load": "load",
    "cloze.inference.loading": "load_encoder",
    "cloze.inference.neighbors": "Neighbor",
    "cloze.inference.next_sentence": "NextSentence NextSentencePrediction",
    "cloze.inference.sentence_scorer": "SentenceScore SentenceScorer TokenScore",
    "cloze.inference.text_predictors": "ChoiceAnswerer EntityTagger MultiLabelClassifier QuestionAnswerer "
    "RankedPassage ScorePrediction TextClassifier TextRanker TextRegressor",
    "cloze.models.bert": "BertConfig BertModel",
    "cloze.pretraining.config": "PretrainConfig",
    "cloze.progress": "Progress",
    "cloze.ray_cluster": "RayCluster",
    "cloze.tasks.config": "FinetuneConfig",
    "cloze.tasks.custom": "Classification CustomMultipleChoice CustomTagging Ranking Regression ScoredPairs",
    "cloze.tasks.families.multi_label": "LabelSetPrediction MultiLabel",
    "cloze.tasks.families.multiple_choice": "ChoicePrediction",
    "cloze.tasks.families.sequence_classification": "ClassPrediction",
    "cloze.tasks.span_decoding": "Answer SpanPrediction",
    "cloze.tasks.squad": "SquadV1 SquadV2",
    "cloze.tasks.tag_predictions": "PredictedEntity",
    "cloze.tasks.families.text_pairs": "TextPairs",
    "cloze.tokenization.loading": "load_tokenizer",
    "cloze.tokenization.tokenizer": "Tokenizer",
    "cloze.tokenization.wordpiece": "WordPieceTokenizer",
}
"""The public names of each module."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name == "__version__":
        return import_module("importlib.metadata").version("cloze-bert")
    if name not in _MODULES:
        raise AttributeError(f"module 'cloze' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
