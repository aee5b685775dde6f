"""The features of examples, and the answers of a model for them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cloze.arguments import check_integer
from cloze.data.batch import Indices
from cloze.errors import InputError
from cloze.models.engine import Batches, Engine, run_batches
from cloze.progress import SILENT, Progress
from cloze.tasks.answers.kind import AnswerKind
from cloze.tasks.task_batch import Array, TaskBatch
from cloze.tokenization.tokenizer import Tokenizer


def featurize(
    answer: AnswerKind[Any, Any],
    examples: Sequence[Any],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    progress: Progress = SILENT,
) -> list[list[Any]]:
    """Return the features of each example."""
    features = []
    with progress.bar("tokenizing", total=len(examples), unit="examples") as bar:
        for example in examples:
            features.append(answer.features(example, tokenizer, max_seq_length=max_seq_length))
            bar.advance(1)
    return features


def predict(
    answer: AnswerKind[Any, Any],
    engine: Engine,
    examples: Sequence[Any],
    features: Sequence[Sequence[Any]],
    *,
    max_tokens: int | None = None,
    progress: Progress = SILENT,
) -> list[Any]:
    """Return a prediction for each example, in their order."""
    flat = [feature for group in features for feature in group]
    outputs = compute_outputs(answer, engine, flat, max_tokens=max_tokens, progress=progress)
    return decode(answer, examples, features, outputs)


def compute_outputs(
    answer: AnswerKind[Any, Any],
    engine: Engine,
    features: Sequence[Any],
    *,
    max_tokens: int | None = None,
    progress: Progress = SILENT,
) -> dict[int, Array]:
    """Return the output of a model for each feature by its index, in float32."""

    def make_batch(indices: Indices) -> TaskBatch:
        return answer.batch([features[i] for i in indices])

    outputs: dict[int, Array] = {}
    batches = Batches([feature.num_tokens for feature in features], make_batch, max_tokens)
    with progress.bar("predicting", total=len(features), unit="sequences") as bar:
        for indices, batch, named in run_batches(engine, batches):
            logits, *more = named.values()  # a question's start and end are side by side
            logits = np.stack([logits, *more], axis=-1) if more else logits
            outputs.update(zip(indices.tolist(), answer.outputs(logits, batch), strict=True))
            bar.advance(len(indices))
    return outputs


def top_k_limiter(answer: AnswerKind[Any, Any], top_k: int | None) -> Callable[[Any], Any]:
    """Return a function that keeps the `top_k` most probable classes or candidates of a prediction, the best first."""
    if top_k is None:
        return lambda prediction: prediction
    count, field = check_integer(top_k, "top_k"), answer.ranked_field
    if field is None:
        raise InputError("the predictions have no classes", where="top_k", remedy="Leave it out")

    def limit(prediction: Any) -> Any:
        ranked = getattr(prediction, field)
        kept = dict(Counter(ranked).most_common(count)) if isinstance(ranked, dict) else ranked[:count]
        return replace(prediction, **{field: kept})

    return limit


def decode(
    answer: AnswerKind[Any, Any],
    examples: Sequence[Any],
    features: Sequence[Sequence[Any]],
    outputs: dict[int, Array],
) -> list[Any]:
    """Return a prediction for each example from the outputs of all features in order."""
    numbers = iter(range(len(outputs)))
    return [
        answer.decode(example, group, [outputs[next(numbers)] for _ in group])
        for example, group in zip(examples, features, strict=True)
    ]
