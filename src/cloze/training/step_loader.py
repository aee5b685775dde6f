"""The data of steps, drawn in a thread: those of the next step while the current one runs."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch

from cloze.data.batch import DataPosition
from cloze.models.batch import pin_memory
from cloze.training.objective import BatchSource, StepData


class StepLoader:
    """Draws the data of steps, always in the same thread.

    The data are a pure function of their position. So drawing them ahead changes nothing, and a checkpoint has the
    position after the last step, whatever was drawn since.

    Args:
        device: the device of the model; for a GPU the data are pinned, so that copying them does not wait.
    """

    def __init__(self, source: BatchSource, device: torch.device) -> None:
        self._source = source
        self._pins = device.type == "cuda"
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="step-data")
        self._ahead: tuple[DataPosition, int, Future[StepData[Any]]] | None = None

    def load(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> StepData[Any]:
        """Return `BatchSource.step_data`, which may have been drawn ahead; an error in it is raised here."""
        if self._ahead is None or self._ahead[:2] != (position, micro_batch_tokens):
            self.load_ahead(progress, position, micro_batch_tokens)
        assert self._ahead is not None
        *_, data = self._ahead
        self._ahead = None
        return data.result()

    def load_ahead(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> None:
        """Begin to draw the data that `load` will return for this position."""
        data = self._thread.submit(self._draw, progress, position, micro_batch_tokens)
        self._ahead = position, micro_batch_tokens, data

    def close(self) -> None:
        """Wait for the thread, and drop what it has drawn."""
        self._thread.shutdown(cancel_futures=True)

    def _draw(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> StepData[Any]:
        data = self._source.step_data(progress, position, micro_batch_tokens)
        return replace(data, batches=[pin_memory(batch) for batch in data.batches]) if self._pins else data
