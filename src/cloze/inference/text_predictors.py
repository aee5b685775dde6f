"""Predict from texts with fine-tuned models: a class for each family of tasks."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, overload

from cloze.arguments import check_text, check_texts, iterate
from cloze.choices import InferencePrecision
from cloze.inference.loading import Checkpoint
from cloze.inference.predictor import Predictor, is_empty
from cloze.tasks.paragraphs import Paragraph
from cloze.tasks.predict import top_k_limiter
from cloze.tasks.sequence_classification import ClassPrediction, SequenceClassification
from cloze.tasks.span import SpanPrediction, SpanQuestion, SpanTask
from cloze.tasks.tag_predictions import PredictedEntity
from cloze.tasks.tagging import Tagging
from cloze.tasks.texts import LabeledText


class TextClassifier(Predictor):
    """Predicts the label of a text, and the probability of each label."""

    family = SequenceClassification

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, texts: str, pairs: str | None = None, *, top_k: int | None = None
    ) -> ClassPrediction: ...
    @overload
    def __call__(
        self,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        pairs: Sequence[str] | None = None,
        *,
        top_k: int | None = None,
    ) -> list[ClassPrediction]: ...
    def __call__(
        self, texts: Any, pairs: Any = None, *, top_k: int | None = None
    ) -> ClassPrediction | list[ClassPrediction]:
        """Return the prediction for one text, or that of each in a list; warn if any were truncated.

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

        Args:
            texts: one text, or a list of any number; of a model that was fine-tuned on pairs, tuples of two texts.
            pairs: the second text of each, if `texts` are no tuples.
            top_k: number of probabilities to return, the highest first; by default those of all labels, in their order.

        Raises:
            InputError: a text is of another kind, or single where the model reads pairs; `pairs` has another length;
                `top_k` is not positive.
        """
        if isinstance(texts, str) or _is_pair(texts):
            is_pair = not isinstance(texts, str)
            first, second = texts if is_pair else (texts, pairs)
            seconds: list[Any] | None = (
                None if second is None else [check_text(second, "texts[1]" if is_pair else "pairs")]
            )
            return self([check_text(first)], seconds, top_k=top_k)[0]
        limit = top_k_limiter(self.task, top_k)
        items = list(iterate(texts, "texts", "text"))
        if pairs is None and items and all(map(_is_pair, items)):
            items, pairs = map(list, zip(*items, strict=True))
        texts = check_texts(items)
        of_texts: list[Any] = (
            [None] * len(texts) if pairs is None else check_texts(pairs, "pairs", paired_with=texts)
        )
        return list(map(limit, self._predict_all(list(map(LabeledText, texts, of_texts)), "texts")))


class EntityTagger(Predictor):
    """Finds the entities of texts of any length, with their character offsets."""

    family = Tagging
    default_task = "tagging"

    @overload  # type: ignore[override]  # no top_k: entities have no candidates
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, texts: str
    ) -> list[PredictedEntity]: ...
    @overload
    def __call__(self, texts: Sequence[str]) -> list[list[PredictedEntity]]: ...
    def __call__(self, texts: Any) -> list[PredictedEntity] | list[list[PredictedEntity]]:
        """Return the entities of one text, or those of each in a list.

        Raises:
            InputError: a text is of another kind.
        """
        if isinstance(texts, str):
            return self([texts])[0]
        task = self.task
        assert isinstance(task, Tagging)
        examples = [task.example(text) for text in check_texts(texts)]
        predictions, _ = self.predict(examples)
        return list(map(task.entities, examples, predictions))


class QuestionAnswerer(Predictor):
    """Finds the span of a text that answers a question."""

    family = SpanTask
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
    def __call__(
        self, questions: Any, contexts: Any = None, *, top_k: int | None = None
    ) -> SpanPrediction | list[SpanPrediction]:
        """Return the prediction for one question, or that for each in a list.

        Args:
            questions: one or any number; or tuples of a question and its text.
            contexts: the text for each question, of any length, if `questions` are no tuples.
            top_k: number of candidates to return; by default all.

        Raises:
            InputError: a question or text is of another kind, or the lengths differ.
        """
        if isinstance(questions, str) or (contexts is None and _is_pair(questions)):
            question, context = (questions, contexts) if isinstance(questions, str) else questions
            return self([check_text(question, "questions")], [check_text(context, "contexts")], top_k=top_k)[
                0
            ]
        if contexts is None:
            if is_empty(questions):
                return []
            items = list(iterate(questions, "questions", "question"))
            if items and all(map(_is_pair, items)):
                questions, contexts = map(list, zip(*items, strict=True))
            else:
                questions = items
        questions = check_texts(questions, "questions")
        contexts = check_texts(contexts, "contexts", paired_with=questions)
        paragraphs = {context: Paragraph(context) for context in contexts}
        examples = [
            SpanQuestion(str(number), question, paragraphs[context])
            for number, (question, context) in enumerate(zip(questions, contexts, strict=True))
        ]
        predictions = self._predict_all(examples, "inputs")
        return list(map(top_k_limiter(self.task, top_k), predictions))


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def load_predictor(
    directory: Path | str | Checkpoint,
    *,
    device: str = "auto",
    precision: InferencePrecision | None = None,
) -> Predictor:
    """Load a fine-tuned model as the class of its task's family, which takes texts; else as `Predictor`.

    Raises:
        InputError: as for `Predictor.load`.
    """
    predictor = Predictor.load(directory, device=device, precision=precision)
    for kind in (TextClassifier, EntityTagger, QuestionAnswerer):
        if isinstance(predictor.task, kind.family):
            values = {field.name: getattr(predictor, field.name) for field in fields(predictor)}
            return kind(**values)
    return predictor
