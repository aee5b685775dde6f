"""The choices of settings that the public functions share, in a module that imports nothing: `--help` reads them."""

from typing import Literal, TypeAlias

LongTexts: TypeAlias = Literal["truncate", "windows"]
MissingLabels: TypeAlias = Literal["refuse", "drop"]
AnnotationFormat: TypeAlias = Literal["argilla", "doccano", "label-studio", "prodigy"]
"""Annotation tools whose exports `format` may name."""
TaggingFormat: TypeAlias = Literal[AnnotationFormat, "columns", "conllu", "json", "table", "text"]
Precision: TypeAlias = Literal["auto", "float32", "bfloat16"]
"""Number format of training."""
InferencePrecision: TypeAlias = Literal["auto", "float32", "bfloat16", "int8"]
GraphPrecision: TypeAlias = Literal["float32", "float16", "int8"]
AttendsTo: TypeAlias = Literal["all", "left", "right"]
"""The tokens that each token attends to: all of its sequence, or itself and those on one side."""
Combine: TypeAlias = Literal["sum", "concat"]
"""How several layers are combined, token by token."""
Pooling: TypeAlias = Literal["cls", "mean", "max", "mean_sqrt_len"]
"""[CLS]; or of all tokens with [CLS] and [SEP] the mean, the maximum, or the sum over the square root of the length."""
Head: TypeAlias = Literal["dense", "logistic"]
"""How a classifier learns: its dense layer and the encoder by steps, or the layer alone as a logistic regression."""
GeluForm: TypeAlias = Literal["gelu", "gelu_tanh"]
Clean: TypeAlias = Literal["pdf"]
"""Kinds of text that have marks to remove."""
Step: TypeAlias = Literal[
    "control", "unicode", "short_documents", "duplicate_documents", "duplicate_paragraphs"
]
"""Steps of cleaning."""
