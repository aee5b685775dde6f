"""Entities in running text, by a model that was fine-tuned to tag words."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from cloze.errors import InputError
from cloze.inference.loading import refuse_one_text
from cloze.inference.predictor import Predictor
from cloze.tasks.tagging import FoundEntity, Tagging

__all__ = ["EntityTagger", "FoundEntity"]


class EntityTagger(Predictor):
    """Finds the entities of texts, of any length, with their place in characters."""

    @classmethod
    def load(cls, directory: Path | str, task: str | None = None, *, device: str = "auto") -> Self:
        """Read a fine-tuned checkpoint, or the best one of a run; also one that transformers wrote.

        Args:
            directory: the checkpoint or run.
            task: what it was fine-tuned for: of a checkpoint that transformers wrote, tagging.
            device: cpu, cuda, mps or auto.

        Raises:
            InputError: it does not tag words, or is damaged.
        """
        tagger = super().load(directory, task, device=device)
        if not isinstance(tagger.task, Tagging):
            what = f"a model for the task {tagger.task.name!r}, which tags no words"
            raise InputError(what, where=directory)
        return tagger

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
