"""Answers to questions on texts, by a model that was fine-tuned for it."""

from collections.abc import Sequence

from cloze.errors import InputError
from cloze.inference.loading import refuse_one_text
from cloze.inference.predictor import Predictor
from cloze.tasks.contexts import Paragraph
from cloze.tasks.span import SpanPrediction, SpanQuestion, SpanTask

__all__ = ["QuestionAnswerer", "SpanPrediction"]


class QuestionAnswerer(Predictor):
    """Finds the part of a text that answers a question."""

    family = SpanTask
    unfit = "which finds no answers in texts"

    def __call__(self, questions: Sequence[str], contexts: Sequence[str]) -> list[SpanPrediction]:
        """Return a prediction for each question, in their order.

        Args:
            questions: any number.
            contexts: the text of each, as long as it likes to be.

        Raises:
            InputError: there are not as many texts as questions.
        """
        refuse_one_text(questions, "questions")
        if len(questions) != len(contexts):
            raise InputError(f"{len(questions)} questions and {len(contexts)} texts", where="contexts")
        paragraphs = {context: Paragraph(context) for context in contexts}
        examples = [
            SpanQuestion(str(number), question, paragraphs[context])
            for number, (question, context) in enumerate(zip(questions, contexts, strict=True))
        ]
        predictions, _ = self.predict(examples)
        return predictions
