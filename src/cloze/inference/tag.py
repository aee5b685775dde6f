"""Entities in running text, by a model that was fine-tuned to tag words."""

from collections.abc import Sequence

from cloze.inference.loading import refuse_one_text
from cloze.inference.predictor import Predictor
from cloze.tasks.tagging import FoundEntity, Tagging

__all__ = ["EntityTagger", "FoundEntity"]


class EntityTagger(Predictor):
    """Finds the entities of texts, of any length, with their place in characters."""

    family = Tagging
    unfit = "which tags no words"

    def __call__(self, texts: Sequence[str]) -> list[list[FoundEntity]]:
        """Return the entities of each text, in their order."""
        assert isinstance(self.task, Tagging)
        refuse_one_text(texts)
        examples = [self.task.example(text) for text in texts]
        predictions, _ = self.predict(examples)
        return [
            self.task.entities(example, prediction)
            for example, prediction in zip(examples, predictions, strict=True)
        ]
