"""The outputs of a frozen encoder, computed once for all epochs."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cloze.data.batch import batch_by_length
from cloze.file_io import disk_errors
from cloze.models.batch import to_device
from cloze.models.encoder import Encoder
from cloze.progress import SILENT, Progress
from cloze.tasks.task import AnyTask


@torch.inference_mode()
def precompute_states(
    task: AnyTask,
    encoder: Encoder,
    features: Sequence[Sequence[Any]],
    *,
    max_tokens: int,
    progress: Progress = SILENT,
) -> list[list[Any]]:
    """Return features with the outputs of a frozen encoder, which do not change from epoch to epoch.

    They are kept in a memory-mapped temporary file.
    """
    flat = [feature for group in features for feature in group]
    places: dict[int, tuple[int, tuple[int, ...]]] = {}
    end = 0
    # The name goes with this block, the space with the last feature. It is filled by write calls: to write into
    # the map of a file on a full disk kills the process.
    with (
        disk_errors(Path(tempfile.gettempdir())),
        tempfile.TemporaryFile(prefix="cloze-") as file,
        progress.bar("encoding", total=len(flat), unit="sequences") as bar,
    ):
        assert task.frozen_states is not None
        device = next(encoder.parameters()).device
        for indices in batch_by_length([feature.num_tokens for feature in flat], max_tokens):
            batch = task.batch([flat[i] for i in indices])
            states = task.frozen_states(encoder, to_device(batch, device)).float().cpu().numpy()
            file.write(states.tobytes())
            for index, of_feature in zip(indices.tolist(), task.outputs(states, batch), strict=True):
                places[index] = end, of_feature.shape
                end += of_feature.size
            bar.advance(len(indices))
        file.flush()
        all_states = np.memmap(file, np.float32, "r", shape=(end,))

    def with_states(index: int) -> Any:
        start, shape = places[index]
        states = all_states[start : start + math.prod(shape)].reshape(shape)
        return replace(flat[index], states=states)

    numbers = iter(range(len(flat)))
    return [[with_states(next(numbers)) for _ in group] for group in features]
