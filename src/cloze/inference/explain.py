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
STEPS = (32, 64, 128, 256, 512)
"""How often a model reads a text to say why it got its prediction, until the attributions converge."""
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

    @property
    def convergence_gap(self) -> float:
        """What the attributions sum to, less what they should: 0 with infinitely many steps."""
        return sum(self.tokens) - (self.output - self.baseline_output)

    @property
    def has_converged(self) -> bool:
        """Whether the gap is small beside the attributions."""
        return abs(self.convergence_gap) <= _LARGEST_GAP * sum(map(abs, self.tokens)) + _ROUNDING


@dataclass(frozen=True, slots=True)
class Stretch:
    """A few points of a line, which go through the model together."""

    alphas: Tensor
    """How far each is on its way, 0 to 1, [C]."""
    weights: Tensor
    """What it counts in the mean over the line, [C]."""
    num_tokens: int
    """C times T."""


@dataclass(frozen=True, eq=False, slots=True)
class Line:
    """The straight line from the word embeddings of a baseline to those of a text, and an output of a model on it.

    Args:
        model: a head on an encoder, in evaluation mode.
        input_ids: the text, [T].
        token_type_ids: its segments, [T].
        baseline_ids: a text that says nothing, [T].
        output: from what the model says of C sequences to one number for each, [C].
    """

    model: nn.Module
    input_ids: Sequence[int]
    token_type_ids: Sequence[int]
    baseline_ids: Sequence[int]
    output: Callable[[Tensor], Tensor]

    def stretches(self, steps: int) -> list[Stretch]:
        """Cut the line into so many points, by the quadrature of Gauss and Legendre."""
        points, weights = np.polynomial.legendre.leggauss(steps)  # on [-1, 1], where the weights sum to 2
        alphas, shares = (torch.from_numpy(each).float() for each in ((1 + points) / 2, weights / 2))
        at_once = max(1, _MAX_TOKENS // len(self.input_ids))
        return [
            Stretch(some_alphas, some_shares, len(some_alphas) * len(self.input_ids))
            for some_alphas, some_shares in zip(
                torch.split(alphas, at_once), torch.split(shares, at_once), strict=True
            )
        ]

    def gradients(self, stretch: Stretch) -> Tensor:
        """Return the gradient of the output by the embeddings, [T, D]: the weighted sum over the points."""
        baseline_TD, text_TD = self._ends()
        alphas_C, weights_C = (each.to(text_TD)[:, None, None] for each in (stretch.alphas, stretch.weights))
        line_CTD = baseline_TD + alphas_C * (text_TD - baseline_TD)
        line_CTD.requires_grad_()
        outputs_C = self._outputs(line_CTD)
        (gradients_CTD,) = torch.autograd.grad(outputs_C.sum(), line_CTD)
        return (weights_C * gradients_CTD).sum(0)

    def attributions(self, gradients: Sequence[Tensor]) -> Attributions:
        """Say what each token adds, from the gradients of all stretches."""
        baseline_TD, text_TD = self._ends()
        with torch.no_grad():
            baseline_output, text_output = self._outputs(torch.stack([baseline_TD, text_TD])).tolist()
        gradient_TD = sum(gradients, torch.zeros_like(text_TD))
        attributions_T = (gradient_TD * (text_TD - baseline_TD)).sum(-1)
        return Attributions(tuple(attributions_T.tolist()), text_output, baseline_output)

    def _ends(self) -> tuple[Tensor, Tensor]:
        table = self._table
        both = torch.tensor([list(self.baseline_ids), list(self.input_ids)], device=table.weight.device)
        baseline_TD, text_TD = table(both).detach()
        return baseline_TD, text_TD

    def _outputs(self, points: Tensor) -> Tensor:
        """Return [C] of embeddings [C, T, D]."""
        count = len(points)
        packed = Packed.from_sequences([self.input_ids] * count, [self.token_type_ids] * count)
        with _word_embeddings(self._table, points.flatten(0, 1)):
            return self.output(self.model(packed.to(points.device)).float())

    @property
    def _table(self) -> nn.Embedding:
        encoder = self.model.bert
        assert isinstance(encoder, BertModel)
        return encoder.embeddings.word_embeddings


def integrated_gradients(line: Line, steps: int) -> Attributions:
    """Attribute an output of a model to the tokens of a text.

    The word embeddings of the text are reached from those of the baseline on a straight line; the gradient of the
    output is averaged along it and multiplied with the way, and a token's attribution is the sum over its D numbers.

    Args:
        line: from the baseline to the text.
        steps: points on the line.

    Source:
        Sundararajan et al. 2017, 3 and 5.
    """
    return line.attributions([line.gradients(stretch) for stretch in line.stretches(steps)])


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


@dataclass(frozen=True, slots=True)
class Explaining:
    """A text and its prediction, of which each word's share is asked.

    In the baseline every piece but [CLS] and [SEP] is [MASK]: the encoder has learned that this is a word it is not
    told. ([PAD], which others take, never goes through an encoder that was trained on packed batches.)
    """

    example: LabelledText
    encoding: Encoding
    explained: str
    line: Line

    @classmethod
    def begin(cls, predictor: Predictor, example: LabelledText, prediction: Any) -> "Explaining":
        """Take up a prediction.

        Args:
            predictor: a model of which `check_explainable` has nothing to say.
            example: what it was asked.
            prediction: what it said: a label, of several labels the likeliest, or a score.

        Raises:
            InputError: the text was read in several windows.
        """
        task, tokenizer = predictor.task, predictor.tokenizer
        if len(task.features(example, tokenizer, max_seq_length=predictor.max_seq_length)) > 1:
            what = f"longer than {predictor.max_seq_length} tokens: it was read in windows, which have no one logit"
            remedy = f"Say --set {task.name}.long_texts=truncate"
            raise InputError(what, where=example.where, remedy=remedy)
        encoding = tokenizer.encode(example.text, example.pair, max_length=predictor.max_seq_length)
        is_word = [start < end for start, end in encoding.offsets]
        baseline_ids = [
            tokenizer.mask_id if word else token_id
            for token_id, word in zip(encoding.input_ids, is_word, strict=True)
        ]
        name, number = _explained(task, prediction)
        line = Line(
            predictor.model,
            encoding.input_ids,
            encoding.token_type_ids,
            baseline_ids,
            lambda logits: logits[:, number],
        )
        return cls(example, encoding, name, line)

    def explanation(self, found: Attributions, steps: int) -> Explanation:
        """Return the attributions by word."""
        return Explanation(
            explained=self.explained,
            output=found.output,
            baseline=MASK,
            baseline_output=found.baseline_output,
            convergence_gap=found.convergence_gap,
            steps=steps,
            words=_words(self.example, self.encoding, found.tokens),
        )


def explain(predictor: Predictor, example: LabelledText, prediction: Any) -> Explanation:
    """Say what each word adds to the logit of what was predicted, with as many `STEPS` as it takes to converge.

    Args, raises: as `Explaining.begin`.
    """
    explaining = Explaining.begin(predictor, example, prediction)
    for steps in STEPS:
        found = integrated_gradients(explaining.line, steps)
        if found.has_converged:
            break
    return explaining.explanation(found, steps)


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
