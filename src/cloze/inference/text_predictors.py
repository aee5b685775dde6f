"""Predict from texts with fine-tuned models: a class for each kind of answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from cloze.arguments import check_integer, check_one_or_many, check_pairs, check_sentences, check_text_lists
from cloze.data.reading.tagged_text import sentence_of_words
from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.results import Result
from cloze.signatures import checks_arguments
from cloze.tasks.answers.choice import Choice, ChoicePrediction
from cloze.tasks.answers.label_set import LabelSet, LabelSetPrediction
from cloze.tasks.answers.number import Number
from cloze.tasks.answers.one_label import ClassPrediction, OneLabel
from cloze.tasks.answers.relevance import Relevance
from cloze.tasks.answers.span import Span, SpanPrediction
from cloze.tasks.answers.tags import PredictedEntity, Tags
from cloze.tasks.questions import Paragraph, SpanQuestion
from cloze.tasks.tagged_reader import TaggedReader
from cloze.tasks.texts import ChoiceQuestion, LabeledText

PredictionT = TypeVar("PredictionT")


class _TextPredictor(Predictor, Generic[PredictionT]):
    """A model of single texts or of pairs."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, texts: str | tuple[str, str], pairs: str | None = None, *, top_k: int | None = None
    ) -> PredictionT: ...
    @overload
    def __call__(
        self,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        pairs: Sequence[str] | None = None,
        *,
        top_k: int | None = None,
    ) -> list[PredictionT]: ...
    @checks_arguments()
    def __call__(self, texts: Any, pairs: Any = None, *, top_k: int | None = None) -> Any:
        """Return the prediction for one text, or that of each in a list; warn if any were truncated.

        Args:
            texts: one text, or a list of any number; of a model that was fine-tuned on pairs, tuples of two texts.
            pairs: the second text of each, if `texts` has no tuples.
            top_k: number of probabilities to return, the highest first; by default those of all labels, in their order.
        """
        inputs, is_one = check_pairs(texts, pairs)
        examples = [LabeledText(text, pair) for text, pair in inputs]
        predictions = self._predict_all(examples, "texts", top_k=top_k)
        return predictions[0] if is_one else predictions


class TextClassifier(_TextPredictor[ClassPrediction]):
    """Predicts the label of a text, and the probability of each label.

    >>> import cloze, tempfile
    >>> notes = [("a fine film", "good"), ("a dull film", "bad")] * 8
    >>> run = cloze.finetune(
    ...     "classification", train=notes, dev=notes, model="cloze-mini", learning_rate=3e-4, epochs=5,
    ...     batch_size=4, output=f"{tempfile.mkdtemp()}/run"
    ... )
    >>> classifier = cloze.TextClassifier.load(run.path)
    >>> classifier("a fine film").label
    'good'
    >>> [answer.label for answer in classifier(["a fine film", "a dull film"])]
    ['good', 'bad']
    """

    answers = OneLabel


class MultiLabelClassifier(_TextPredictor[LabelSetPrediction]):
    """Predicts any number of labels for a text, and the probability of each label."""

    answers = LabelSet
    default_task = "multi-label"


@dataclass(frozen=True, slots=True, repr=False)
class ScorePrediction(Result):
    """A score of a text or a pair."""

    score: float


class TextRegressor(_TextPredictor[ScorePrediction]):
    """Predicts a number for a text or a pair."""

    answers = Number
    default_task = "regression"

    def _predict_all(self, examples: Sequence[Any], name: str, *, top_k: int | None = None) -> list[Any]:
        return list(map(ScorePrediction, super()._predict_all(examples, name, top_k=top_k)))


@dataclass(frozen=True, slots=True, repr=False)
class RankedPassage(Result):
    """A passage, and its relevance to the query: a probability, or the logit of some cross-encoders."""

    index: int
    """Its place in the list that was ranked, from 0."""
    text: str
    score: float


class TextRanker(Predictor):
    """Orders passages by their relevance to a query."""

    answers = Relevance
    default_task = "ranking"

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, queries: str, passages: Sequence[str], *, top_k: int | None = None
    ) -> list[RankedPassage]: ...
    @overload
    def __call__(
        self, queries: Sequence[str], passages: Sequence[Sequence[str]], *, top_k: int | None = None
    ) -> list[list[RankedPassage]]: ...
    @checks_arguments()
    def __call__(self, queries: Any, passages: Any, *, top_k: int | None = None) -> Any:
        """Return the passages of one query, the most relevant first, or those of each query in a list.

        Args:
            queries: one query, or any number.
            passages: the passages to rank for it, or a list of them for each query.
            top_k: number of passages to return; by default all.
        """
        texts, of_query, is_one = check_text_lists(queries, passages, ("queries", "passages"))
        count = None if top_k is None else check_integer(top_k, "top_k")
        examples = [
            LabeledText(text, passage) for text, its in zip(texts, of_query, strict=True) for passage in its
        ]
        scores = iter(self._predict_all(examples, "passages"))
        ranked = []
        for its in of_query:
            candidates = [RankedPassage(index, text, next(scores)) for index, text in enumerate(its)]
            ranked.append(sorted(candidates, key=lambda passage: -passage.score)[:count])
        return ranked[0] if is_one else ranked


class ChoiceAnswerer(Predictor):
    """Chooses the most probable continuation of a prompt."""

    answers = Choice
    default_task = "multiple-choice"

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, prompts: str, choices: Sequence[str]
    ) -> ChoicePrediction: ...
    @overload
    def __call__(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]]
    ) -> list[ChoicePrediction]: ...
    @checks_arguments()
    def __call__(self, prompts: Any, choices: Any) -> Any:
        """Return the choice for one prompt, or that for each in a list.

        Args:
            prompts: one prompt, or any number.
            choices: two or more continuations of it, or a list of them for each prompt.
        """
        texts, of_prompt, is_one = check_text_lists(prompts, choices, ("prompts", "choices"))
        for number, its in enumerate(of_prompt):
            if len(its) < 2:
                place = "choices" if is_one else f"choices[{number}]"
                raise InputError(f"{place} has {len(its)} texts", remedy="Give two or more")
        examples = [
            ChoiceQuestion(text, tuple(its), None, "prompts")
            for text, its in zip(texts, of_prompt, strict=True)
        ]
        predictions = self._predict_all(examples, "prompts")
        return predictions[0] if is_one else predictions


class EntityTagger(Predictor):
    """Finds the entities of texts of any length, with their character offsets."""

    answers = Tags
    default_task = "tagging"

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, texts: str
    ) -> list[PredictedEntity]: ...
    @overload
    def __call__(self, texts: Sequence[str]) -> list[list[PredictedEntity]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, *, words: Sequence[str]
    ) -> list[PredictedEntity]: ...
    @overload
    def __call__(self, *, words: Sequence[Sequence[str]]) -> list[list[PredictedEntity]]: ...
    @checks_arguments()
    def __call__(self, texts: Any = None, *, words: Any = None) -> Any:
        """Return the entities of one text or sentence, or those of each in a list.

        Args:
            texts: one text, or any number.
            words: instead of texts, the words of one sentence, or a list of them for each sentence. Offsets count the
                characters of the words with a space between them.
        """
        reader, answer = self.task.reader, self.task.answer
        assert isinstance(reader, TaggedReader)
        assert isinstance(answer, Tags)
        if texts is not None and words is not None:
            raise InputError("excludes `words`", where="texts", remedy="Leave out one of them")
        if words is None:
            checked, is_one = check_one_or_many(texts)
            examples = list(map(reader.split, checked))
        else:
            sentences, is_one = check_sentences(words)
            examples = list(map(sentence_of_words, sentences))
        predictions, _ = self.predict(examples)
        entities = list(map(answer.entities, examples, predictions))
        return entities[0] if is_one else entities


class QuestionAnswerer(Predictor):
    """Finds the span of a text that answers a question."""

    answers = Span
    default_task = "squad_v1"

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, questions: str, contexts: str, *, top_k: int | None = None
    ) -> SpanPrediction: ...
    @overload
    def __call__(
        self, questions: Sequence[str], contexts: Sequence[str], *, top_k: int | None = None
    ) -> list[SpanPrediction]: ...
    @overload
    def __call__(
        self, questions: Sequence[tuple[str, str]], *, top_k: int | None = None
    ) -> list[SpanPrediction]: ...
    @checks_arguments()
    def __call__(self, questions: Any, contexts: Any = None, *, top_k: int | None = None) -> Any:
        """Return the prediction for one question, or that for each in a list.

        Args:
            questions: one or any number; or tuples of a question and its text.
            contexts: the text for each question, of any length, if `questions` has no tuples.
            top_k: number of candidates to return; by default all.
        """
        inputs, is_one = check_pairs(questions, contexts, ("questions", "contexts"), required=True)
        predictions = self._predict_all(span_questions(inputs), "inputs", top_k=top_k)
        return predictions[0] if is_one else predictions


def span_questions(inputs: Sequence[tuple[str, str]]) -> list[SpanQuestion]:
    """Return questions and their texts as examples; equal texts are tokenized once."""
    paragraphs = {context: Paragraph(context) for _, context in inputs}
    return [
        SpanQuestion(str(number), question, paragraphs[context])
        for number, (question, context) in enumerate(inputs)
    ]
