"""Answer in int8: by graphs of the encoder and of the head, which are traced once and kept in the cache."""

from functools import cached_property
from pathlib import Path

from torch import Tensor

from cloze.artifacts import IntegrityError
from cloze.errors import InputError
from cloze.inference.graph_runner import GraphRunner
from cloze.inference.torch_runner import TorchRunner
from cloze.models.engine import Engine, Output, VectorOutput
from cloze.models.graph import GRAPH_PACKAGES, MODEL_ITSELF
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
        try:
            return self._graph(of_encoder=isinstance(output, VectorOutput)).start(output)
        except InputError as error:
            error.remedy = MODEL_ITSELF
            if error.where != "layers":  # but a file in the cache
                error.where = str(self.directory)
            raise

    def _graph(self, *, of_encoder: bool) -> GraphRunner:
        from cloze.export.onnx import int8_graph

        if of_encoder not in self._graphs:
            try:
                graph = GraphRunner(int8_graph(self.directory, of_encoder=of_encoder), "cpu", None)
            except IntegrityError:
                made_again = int8_graph(self.directory, of_encoder=of_encoder, remake=True)
                graph = GraphRunner(made_again, "cpu", None)
            self._graphs[of_encoder] = graph
        return self._graphs[of_encoder]
