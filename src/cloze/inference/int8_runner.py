"""Answer in int8: by graphs of the encoder and of the head, which are traced once and kept in the cache."""

from functools import cached_property, partial
from pathlib import Path

from torch import Tensor

from cloze.artifacts import IntegrityError
from cloze.errors import InputError
from cloze.inference.graph_runner import GraphRunner
from cloze.inference.torch_runner import TorchRunner
from cloze.models.engine import Engine, Output, VectorOutput
from cloze.models.graph import GRAPH_PACKAGES
from cloze.models.weight_files import read_weight_headers
from cloze.optional_dependencies import require


class Int8Runner(TorchRunner):
    """A checkpoint that ONNX Runtime computes in int8; PyTorch only traces it."""

    is_graph = True

    def __init__(self, directory: Path, device: str) -> None:
        if device not in ("auto", "cpu"):
            raise InputError(
                f"int8 runs on CPUs, not on {device}", where="precision", remedy="Say device cpu"
            )
        require(GRAPH_PACKAGES, extra="onnx", where="int8")
        super().__init__(directory, "cpu", None)
        self._graphs: dict[bool, GraphRunner] = {}

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        return read_weight_headers(self.directory, self._class.names)[0]

    def _start(self, output: Output) -> Engine:
        from cloze.export.onnx import int8_graph

        of_encoder = isinstance(output, VectorOutput)
        if of_encoder not in self._graphs:
            graph = partial(int8_graph, self.directory, of_encoder=of_encoder)
            open_graph = partial(GraphRunner, device="cpu", precision=None, model=self.directory)
            try:
                self._graphs[of_encoder] = open_graph(graph())
            except IntegrityError:
                self._graphs[of_encoder] = open_graph(graph(remake=True))
        return self._graphs[of_encoder].start(output)
