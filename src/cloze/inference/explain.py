"""Which words of a text made a model say what it says: integrated gradients over the word embeddings.

Shapes: T tokens of the text, S steps, C of them at once, D hidden.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.model.bert import BertModel
from cloze.model.packed import Packed
from cloze.tasks.multi_label import MultiLabel
from cloze.tasks.sequence_classification import SequenceClassification
from cloze.tasks.text_regression import TextRegression
from cloze.tasks.texts import LabelledText
from cloze.text.pieces import CONTINUATION, MASK
from cloze.text.tokenizer import Encoding

_MAX_TOKENS = 4096
FEWEST_STEPS = 32
"""How often a model reads a text at least to say why it got its prediction."""
_MOST_STEPS = 512
_LARGEST_GAP = 0.01  # of the sum of all attributions without their signs
_ROUNDING = 1e-5  # of logits in float32


@dataclass(frozen=True, slots=True)
class Attributions:
    """What each token adds to an output of a model, from the output for a baseline to that for the text."""

    tokens: tuple[float, ...]
    """[T]."""
    output: float
    """Of the text."""
    baseline_output: float
    steps: int

    @property
    def convergence_gap(self) -> float:
        """What the attributions sum to, less what they should: 0 with infinitely many steps."""
        return sum(self.tokens) - (self.output - self.baseline_output)

    @property
    def has_converged(self) -> bool:
        """Whether the gap is small beside the attributions."""
        return abs(self.convergence_gap) <= _LARGEST_GAP * sum(map(abs, self.tokens)) + _ROUNDING


def integrated_gradients(
    model: nn.Module,
    input_ids: Sequence[int],
    token_type_ids: Sequence[int],
    *,
    baseline_ids: Sequence[int],
    output: Callable[[Tensor], Tensor],
    steps: int,
) -> Attributions:
    """Attribute an output of a model to the tokens of a text.

    The word embeddings of the text are reached from those of the baseline on a straight line; the gradient of the
    output is averaged along it and multiplied with the way, and a token's attribution is the sum over its D numbers.
    The average is an integral, by the quadrature of Gauss and Legendre.

    Args:
        model: a head on an encoder, in evaluation mode.
        input_ids: the text, [T].
        token_type_ids: its segments, [T].
        baseline_ids: a text that says nothing, [T].
        output: from what the model says of C sequences to one number for each, [C].
        steps: points on the line.

    Source:
        Sundararajan et al. 2017, 3 and 5.
    """
    encoder = model.bert
    assert isinstance(encoder, BertModel)
    table = encoder.embeddings.word_embeddings
    device = table.weight.device
    num_tokens = len(input_ids)

    def packed(count: int) -> Packed:
        return Packed.from_sequences([input_ids] * count, [token_type_ids] * count).to(device)

    with torch.no_grad():
        text_TD = table(torch.tensor(input_ids, device=device))
        baseline_TD = table(torch.tensor(baseline_ids, device=device))
        with _word_embeddings(table, torch.cat([baseline_TD, text_TD])):
            baseline_output, text_output = output(model(packed(2)).float()).tolist()

    points, weights = np.polynomial.legendre.leggauss(steps)  # on [-1, 1], where the weights sum to 2
    alphas_S = torch.from_numpy((1 + points) / 2).to(text_TD)
    weights_S = torch.from_numpy(weights / 2).to(text_TD)
    gradient_TD = torch.zeros_like(text_TD)
    at_once = max(1, _MAX_TOKENS // num_tokens)
    for alphas_C, weights_C in zip(
        torch.split(alphas_S, at_once), torch.split(weights_S, at_once), strict=True
    ):
        line_CTD = baseline_TD + alphas_C[:, None, None] * (text_TD - baseline_TD)
        line_CTD.requires_grad_()
        with _word_embeddings(table, line_CTD.flatten(0, 1)):
            outputs_C = output(model(packed(len(alphas_C))).float())
        (gradients_CTD,) = torch.autograd.grad(outputs_C.sum(), line_CTD)
        gradient_TD += (weights_C[:, None, None] * gradients_CTD).sum(0)
    attributions_T = (gradient_TD * (text_TD - baseline_TD)).sum(-1)
    return Attributions(tuple(attributions_T.tolist()), text_output, baseline_output, steps)


@contextmanager
def _word_embeddings(table: nn.Embedding, vectors: Tensor) -> Iterator[None]:
    """Have the table answer with these vectors, whatever it is asked."""
    handle = table.register_forward_hook(lambda *_: vectors)
    try:
        yield
    finally:
        handle.remove()


@dataclass(frozen=True, slots=True)
class ExplainedWord:
    """A word, as the tokenizer cuts them, and what it adds to the output."""

    word: str
    segment: str
    """A, the text, or B, the second text of a pair."""
    start: int
    """Characters into its text."""
    end: int
    attribution: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a text got its prediction: the attributions and the gap sum to `output - baseline_output`."""

    explained: str
    """Whose logit the output is: a label, or the score."""
    output: float
    baseline: str
    """The piece that stands in the place of every word of the baseline."""
    baseline_output: float
    convergence_gap: float
    """What the attributions sum to, less what they should."""
    steps: int
    words: tuple[ExplainedWord, ...]


def check_explainable(predictor: Predictor) -> None:
    """Refuse what has no explanation.

    Raises:
        InputError: the task has no logit for a whole text, or several models answer as one.
    """
    if not isinstance(predictor.task, SequenceClassification | MultiLabel | TextRegression):
        what = f"the answers of {predictor.task.name} are no labels or scores of whole texts"
        raise InputError(what, where="--explain", remedy="Leave it out")
    if not isinstance(getattr(predictor.model, "bert", None), BertModel):
        raise InputError("several models answer as one", where="--explain", remedy="Give one --model")


def explain(predictor: Predictor, example: LabelledText, prediction: Any) -> Explanation:
    """Say what each word adds to the logit of what was predicted.

    In the baseline every piece but [CLS] and [SEP] is [MASK]: the encoder has learned that this is a word it is not
    told. ([PAD], which others take, never goes through an encoder that was trained on packed batches.) The steps are
    doubled from 32 on, until the gap is at most 1% of the sum of the attributions without their signs, or they are 512.

    Args:
        predictor: a model of which `check_explainable` has nothing to say.
        example: what it was asked.
        prediction: what it said: a label, of several labels the likeliest, or a score.

    Raises:
        InputError: the text was read in several windows.
    """
    task, tokenizer = predictor.task, predictor.tokenizer
    if len(task.features(example, tokenizer, max_seq_length=predictor.max_seq_length)) > 1:
        what = (
            f"longer than {predictor.max_seq_length} tokens: it was read in windows, which have no one logit"
        )
        remedy = f"Say --set {task.name}.long_texts=truncate"
        raise InputError(what, where=example.where, remedy=remedy)
    encoding = tokenizer.encode(example.text, example.pair, max_length=predictor.max_seq_length)
    is_word = [start < end for start, end in encoding.offsets]
    baseline_ids = [
        tokenizer.mask_id if word else token_id
        for token_id, word in zip(encoding.input_ids, is_word, strict=True)
    ]
    name, number = _explained(task, prediction)
    steps = FEWEST_STEPS
    while True:
        found = integrated_gradients(
            predictor.model,
            encoding.input_ids,
            encoding.token_type_ids,
            baseline_ids=baseline_ids,
            output=lambda logits: logits[:, number],
            steps=steps,
        )
        if found.has_converged or steps == _MOST_STEPS:
            break
        steps *= 2
    return Explanation(
        explained=name,
        output=found.output,
        baseline=MASK,
        baseline_output=found.baseline_output,
        convergence_gap=found.convergence_gap,
        steps=steps,
        words=_words(example, encoding, found.tokens),
    )


def _explained(task: Any, prediction: Any) -> tuple[str, int]:
    """Return the name and the number of the logit that a prediction hangs on."""
    if isinstance(task, TextRegression):
        return "score", 0
    likeliest = max(prediction.probabilities, key=prediction.probabilities.__getitem__)
    return likeliest, task.class_names.index(likeliest)


def _words(
    example: LabelledText, encoding: Encoding, attributions: Sequence[float]
) -> tuple[ExplainedWord, ...]:
    """Join the pieces of each word; their attributions add up."""
    words: list[ExplainedWord] = []
    pieces = zip(encoding.tokens, encoding.token_type_ids, encoding.offsets, attributions, strict=True)
    for token, segment, (start, end), attribution in pieces:
        if start == end:
            continue
        text = example.pair if segment else example.text
        assert text is not None
        if token.startswith(CONTINUATION) and words and words[-1].segment == "AB"[segment]:
            start, attribution = words[-1].start, words.pop().attribution + attribution
        words.append(ExplainedWord(text[start:end], "AB"[segment], start, end, attribution))
    return tuple(words)
