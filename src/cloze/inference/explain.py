"""Attribute a prediction to the words of its text: integrated gradients over the word embeddings.

Shapes: T tokens of the text, S steps, C of them in a group, D hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.results import Result
from cloze.suggestions import did_you_mean
from cloze.tasks.answers.label_set import LabelSet
from cloze.tasks.answers.number import Number
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.texts import LabeledText
from cloze.tokenization.tokenizer import Encoding

if TYPE_CHECKING:  # a graph answers without torch
    from torch import Tensor, nn

Points: TypeAlias = "tuple[Tensor, Tensor]"
"""Points on a path that pass through the model together: places, from 0 to 1, and weights in the mean, [C] each."""

_ROUNDING = 1e-5  # of logits in float32
_RAISES, _LOWERS = "125 156 201", "221 154 117"
"""Red, green and blue of words in notebooks, as on the pages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainConfig:
    """Settings of integrated gradients."""

    steps: tuple[int, ...] = (32, 64, 128, 256, 512)
    """Numbers of steps to try, until the attributions converge."""
    max_gap: float = 0.01
    """Largest convergence gap, as a share of the sum of the absolute attributions."""
    max_tokens: int = 4096
    """Tokens that pass through the model at once."""


@dataclass(frozen=True, slots=True)
class Attributions:
    """The contribution of each token to the change of an output, from the baseline to the text."""

    tokens: tuple[float, ...]
    """[T]."""
    output: float
    """For the text."""
    baseline_output: float

    @property
    def convergence_gap(self) -> float:
        """The sum of the attributions minus the change of the output; 0 with infinitely many steps."""
        return sum(self.tokens) - (self.output - self.baseline_output)

    def has_converged(self, max_gap: float) -> bool:
        """Return whether the gap is at most a share of the absolute attributions."""
        return abs(self.convergence_gap) <= max_gap * sum(map(abs, self.tokens)) + _ROUNDING


@dataclass(frozen=True, slots=True)
class ExplainedWord(Result):
    """A word, as the tokenizer splits them, and its contribution to the output."""

    word: str
    """Its text."""
    segment: str
    """A, the text, or B, the second text of a pair."""
    start: int
    """Offset in characters in its text."""
    end: int
    """The character after its last."""
    attribution: float
    """Its contribution: positive raises the output."""


@dataclass(frozen=True, slots=True)
class Explanation(Result):
    """An explained prediction; attributions and gap sum to `output - baseline_output`."""

    explained: str
    """The label whose logit is the output, or "score"."""
    output: float
    """The logit that is explained, or the score as it is predicted."""
    baseline: str
    """The token that replaces every token of the text in the baseline."""
    baseline_output: float
    """The output for the baseline."""
    convergence_gap: float
    """The sum of the attributions minus the change of the output."""
    steps: int
    """Steps of the integral."""
    truncated: bool
    """Whether the model did not read the end of a text, which has no words here."""
    words: tuple[ExplainedWord, ...]
    """The words of the text, or of both texts."""

    def _repr_html_(self) -> str:
        """Return the words for a notebook, shaded by their attributions."""
        largest = max((abs(word.attribution) for word in self.words), default=0.0) or 1.0
        lines = []
        for _, words in groupby(self.words, key=attrgetter("segment")):
            spans = []
            for word in words:
                color = _RAISES if word.attribution > 0 else _LOWERS
                style = f"background: rgb({color} / {abs(word.attribution) / largest:.0%}); padding: 0 .1em"
                span = f'<span style="{style}" title="{word.attribution:+.3f}">{escape(word.word)}</span>'
                spans.append(span)
            lines.append(f"<p>{' '.join(spans)}</p>")
        outputs = f"{self.output:.3f}, with every word {escape(self.baseline)} {self.baseline_output:.3f}"
        legend = f"blue words raise it, orange ones lower it, the darkest by {largest:.3f}"
        return f"<div><p><b>{escape(self.explained)}</b> {outputs}: {legend}</p>{''.join(lines)}</div>"


def check_explainable(predictor: Predictor) -> None:
    """Refuse a task without a logit for a whole text, and a model that is no single module of PyTorch."""
    if not isinstance(predictor.task.answer, OneLabel | LabelSet | Number):
        what = f"predictions of {predictor.task.name} are not labels or scores of whole texts"
        raise InputError(what, where="explain", remedy="Leave it out")
    _ = predictor.module


@dataclass(frozen=True, eq=False, slots=True)
class PendingExplanation:
    """A prediction to explain along the straight line from the word embeddings of a baseline to the text's.

    The mean gradient along it, times the difference of its ends, attributes the change of a logit to the tokens.
    In the baseline every token but [CLS] and [SEP] is [MASK], which the encoder has learned to read as an unknown word.
    ([PAD], a common choice, never passes through an encoder that was trained on packed batches.)

    Source: Sundararajan et al. 2017, 3 and 5.
    """

    predictor: Predictor
    example: LabeledText
    encoding: Encoding
    baseline_ids: list[int]
    explained: str
    logit: int
    truncated: bool

    @classmethod
    def begin(
        cls, predictor: Predictor, example: LabeledText, prediction: Any, label: str | None = None
    ) -> "PendingExplanation":
        """Prepare the explanation of a prediction by a model that passed `check_explainable`.

        By default the logit of the most probable label is explained, or the score. A text that was read in several
        windows is refused.
        """
        task, tokenizer = predictor.task, predictor.tokenizer
        features = predictor.features(example)
        if len(features) > 1:
            what = f"longer than {predictor.max_seq_length} tokens: its windows have no common logit"
            remedy = f"Say `{task.name}.long_texts=truncate`"
            raise InputError(what, where=example.where, remedy=remedy)
        encoding = tokenizer.encode(example.text, example.pair, max_length=predictor.max_seq_length)
        baseline_ids = [
            token_id if sequence is None else tokenizer.mask_id
            for token_id, sequence in zip(encoding.input_ids, encoding.sequence_ids, strict=True)
        ]
        names = task.answer.class_names
        if label is not None:
            if label not in names:
                remedy = did_you_mean(label, names, full_list="cloze info")
                raise InputError(f"the model has no label {label!r}", where="label", remedy=remedy)
            explained = label
        elif isinstance(task.answer, Number):
            explained = "score"
        else:
            explained = max(prediction.probabilities, key=prediction.probabilities.__getitem__)
        place, is_truncated = names.index(explained), features[0].is_truncated
        return cls(predictor, example, encoding, baseline_ids, explained, place, is_truncated)

    def points(self, steps: int, max_tokens: int) -> "list[Points]":
        """Return the points of a Gauss-Legendre quadrature, in groups of at most `max_tokens` tokens."""
        import torch

        points, weights = np.polynomial.legendre.leggauss(steps)  # on [-1, 1], where the weights sum to 2
        count = max(1, max_tokens // len(self.encoding))
        alphas_S, weights_S = (torch.from_numpy(values).float() for values in ((1 + points) / 2, weights / 2))
        return list(zip(torch.split(alphas_S, count), torch.split(weights_S, count), strict=True))

    def gradient(self, points: "Points") -> "Tensor":
        """Return the gradient of the output by the embeddings, [T, D]: the weighted sum over the points."""
        import torch

        baseline_TD, text_TD = self.ends()
        alphas_C11, weights_C11 = (values.to(text_TD)[:, None, None] for values in points)
        points_CTD = baseline_TD + alphas_C11 * (text_TD - baseline_TD)
        points_CTD.requires_grad_()
        outputs_C = self.outputs(points_CTD)
        (gradients_CTD,) = torch.autograd.grad(outputs_C.sum(), points_CTD)
        return (weights_C11 * gradients_CTD).sum(0)

    def attributions(self, gradients: "Sequence[Tensor]") -> Attributions:
        """Return the attribution of each token, from the gradients of all points."""
        import torch

        baseline_TD, text_TD = self.ends()
        with torch.no_grad():
            baseline_output, text_output = self.outputs(torch.stack([baseline_TD, text_TD])).tolist()
        gradient_TD = sum(gradients, torch.zeros_like(text_TD))
        attributions_T = (gradient_TD * (text_TD - baseline_TD)).sum(-1)
        return Attributions(tuple(attributions_T.tolist()), text_output, baseline_output)

    def ends(self) -> "tuple[Tensor, Tensor]":
        """Return the embeddings of baseline and text, [T, D] each."""
        import torch

        table = self._table
        ids_2T = torch.tensor([self.baseline_ids, self.encoding.input_ids], device=table.weight.device)
        baseline_TD, text_TD = table(ids_2T).detach()
        return baseline_TD, text_TD

    def outputs(self, embeddings: "Tensor") -> "Tensor":
        """Return the output for each of C sequences of word embeddings [C, T, D]."""
        from cloze.models.batch import to_device

        count = len(embeddings)
        batch = collate([self.encoding.input_ids] * count, [self.encoding.token_type_ids] * count)
        handle = self._table.register_forward_hook(lambda *_: embeddings.flatten(0, 1))
        try:
            logits: Tensor = self.predictor.module(to_device(batch, embeddings.device))
            logits_C, answer = logits.float()[:, self.logit], self.predictor.task.answer
            if not isinstance(answer, Number):
                return logits_C
            minimum, maximum = answer.scale  # a score is explained on its own
            shares_C = logits_C.sigmoid() if answer.activation == "sigmoid" else logits_C
            return minimum + (maximum - minimum) * shares_C
        finally:
            handle.remove()

    @property
    def _table(self) -> "nn.Embedding":
        table: nn.Embedding = self.predictor.encoder.embeddings.word_embeddings
        return table

    def finish(self, attributions: Attributions, steps: int) -> Explanation:
        """Return the attributions by word: those of its tokens add up."""
        words: list[ExplainedWord] = []
        encoding, tokenizer = self.encoding, self.predictor.tokenizer
        texts = (self.example.text, self.example.pair or "")
        for token_id, sequence, (start, end), attribution in zip(
            encoding.input_ids, encoding.sequence_ids, encoding.offsets, attributions.tokens, strict=True
        ):
            if sequence is None:
                continue
            text, segment = texts[sequence], "AB"[sequence]
            if tokenizer.is_continuation[token_id] and words and words[-1].segment == segment:
                start, attribution = words[-1].start, words.pop().attribution + attribution
            words.append(ExplainedWord(text[start:end], segment, start, end, attribution))
        return Explanation(
            explained=self.explained,
            output=attributions.output,
            baseline=tokenizer.special_token("mask"),
            baseline_output=attributions.baseline_output,
            convergence_gap=attributions.convergence_gap,
            steps=steps,
            truncated=self.truncated,
            words=tuple(words),
        )


def explain(
    predictor: Predictor,
    example: LabeledText,
    prediction: Any,
    config: ExplainConfig | None = None,
    *,
    label: str | None = None,
) -> Explanation:
    """Return the contribution of each word to the logit of a prediction; see `PendingExplanation.begin`."""
    config = config or ExplainConfig()
    pending = PendingExplanation.begin(predictor, example, prediction, label)
    for steps in config.steps:
        points = pending.points(steps, config.max_tokens)
        attributions = pending.attributions(list(map(pending.gradient, points)))
        if attributions.has_converged(config.max_gap):
            break
    return pending.finish(attributions, steps)
