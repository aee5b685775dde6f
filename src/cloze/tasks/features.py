"""Examples to features, all of them at once."""

from collections.abc import Sequence

from cloze.progress import SILENT, Progress
from cloze.tasks.task import BatchT, ExampleT, Feature, FeatureT, PredictionT, Task
from cloze.text.tokenizer import Tokenizer


def featurize(
    task: Task[ExampleT, FeatureT, BatchT, PredictionT],
    examples: Sequence[ExampleT],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    progress: Progress = SILENT,
) -> list[list[FeatureT]]:
    """Return the features of each example.

    Raises:
        InputError: an example is wrong; the first such is named.
    """
    features = []
    with progress.bar("tokenizing", total=len(examples), unit="examples") as bar:
        for example in examples:
            features.append(task.features(example, tokenizer, max_seq_length=max_seq_length))
            bar.advance(1)
    return features


def count_truncated(features: Sequence[Sequence[Feature]]) -> int:
    """Return how many examples lost some of their text."""
    return sum(any(feature.is_truncated for feature in own) for own in features)
