"""Compute with a checkpoint in PyTorch, or in int8 by graphs that PyTorch traces once."""

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from torch import Tensor, nn

from cloze.artifacts import IntegrityError
from cloze.choices import InferencePrecision
from cloze.errors import InputError
from cloze.inference.graph_model import GraphModel
from cloze.inference.model import Model
from cloze.models import heads
from cloze.models.checkpoint import load_model, verify_checkpoint
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, get_encoder, get_encoder_class
from cloze.models.engine import GRAPH_PACKAGES, Engine, HeadOutput, Output, VectorOutput
from cloze.models.heads import SentenceEncoder, TokenEncoder
from cloze.models.torch_engine import TorchEngine
from cloze.models.weight_files import load_weights, read_weight_headers
from cloze.optional_dependencies import require
from cloze.tokenization.loading import load_tokenizer
from cloze.training.precision import prepare_for_inference, resolve_device

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class TorchModel(Model):
    """A checkpoint in PyTorch, whose files are verified and read once; all heads share its encoder."""

    def __init__(self, directory: Path, device: str, precision: InferencePrecision | None) -> None:
        verify_checkpoint(directory)  # first: a directory of another kind is reported as such
        super().__init__(directory, load_config(directory), load_tokenizer(directory))
        self.device, self.precision = resolve_device(device), precision
        self._encoder: Encoder | None = None
        self._class = get_encoder_class(self.config)

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        """The weights by their Hugging Face names; without values where the encoder has them."""
        return load_weights(self.directory, self._class.names)

    @cached_property
    def _headers(self) -> dict[str, Tensor]:
        return read_weight_headers(self.directory, self._class.names)[0]

    def has(self, output: HeadOutput) -> bool:
        head = getattr(heads, output.head_name or "")
        if head is heads.BertForMaskedLM and self.config.attends_to != "all":
            return False  # it predicts the next token
        external_names = self._class.names.mapping.external_names
        return all(external in self._headers for name in head.marks for external in external_names(name))

    def load(self, head: Callable[[Encoder], ModuleT]) -> ModuleT:
        """Return a module in evaluation mode, whose encoder is that of all others."""
        module = load_model(self.directory, head, verify=False, weights=self._weights)
        if self._encoder is not None:
            module.bert = self._encoder
            return module.to(self.device)
        module = module.to(self.device)
        prepare_for_inference(module, self.precision)
        self._encoder = get_encoder(module)
        return module

    def start(self, output: Output) -> Engine:
        if (
            isinstance(output, HeadOutput)
            and output.build is None
            and not self.has(output)
            and self._class.names.word_embeddings in self._headers  # else: no encoder at all
        ):
            what = f"a model without {output.description}"
            raise InputError(what, where=self.directory, remedy="Give a pre-trained model that has it")
        return self._start(output)

    def _start(self, output: Output) -> Engine:
        if isinstance(output, HeadOutput):
            return TorchEngine(self.load(output.build or getattr(heads, output.head_name or "")))
        head = TokenEncoder if output.pooling is None else SentenceEncoder
        return TorchEngine(self.load(partial(head, output=output)))


class Int8Model(TorchModel):
    """A checkpoint that ONNX Runtime computes in int8; PyTorch only traces it."""

    is_graph = True

    def __init__(self, directory: Path, device: str) -> None:
        if device not in ("auto", "cpu"):
            raise InputError(
                f"int8 runs on CPUs, not on {device}", where="precision", remedy="Say device cpu"
            )
        require(GRAPH_PACKAGES, extra="onnx", where="int8")
        super().__init__(directory, "cpu", None)
        self._graphs: dict[bool, GraphModel] = {}

    def _start(self, output: Output) -> Engine:
        from cloze.export.onnx import int8_graph

        of_encoder = isinstance(output, VectorOutput)
        if of_encoder not in self._graphs:
            graph = partial(int8_graph, self.directory, of_encoder=of_encoder)
            open_graph = partial(GraphModel, device="cpu", precision=None, model=self.directory)
            try:
                self._graphs[of_encoder] = open_graph(graph())
            except IntegrityError:
                self._graphs[of_encoder] = open_graph(graph(remake=True))
        return self._graphs[of_encoder].start(output)
