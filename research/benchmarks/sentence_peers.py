"""Programs that turn texts into sentence vectors, which `python -m benchmarks embed` and `latency` compare."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from benchmarks.harness import import_peer
from cloze.errors import InputError
from cloze.file_names import GRAPH_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from cloze.inference.embedder import Embedder

TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""Maximum distance from 1 of the cosine of the two vectors of a text."""
INT8_TOLERANCE = 0.05

Vectors: TypeAlias = npt.NDArray[np.float32]
Encode: TypeAlias = Callable[[Sequence[str]], Vectors]
EncodeInBatches: TypeAlias = Callable[[Sequence[str], int], Vectors]
"""A function from texts and a batch size to vectors."""


def load_transformers(directory: Path, device: torch.device) -> Encode:
    """Return a function that encodes the first text as the documentation of transformers does."""
    transformers = import_peer("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model: Any = transformers.AutoModel.from_pretrained(directory)
    model.float().to(device).eval()

    def encode(texts: Sequence[str]) -> Vectors:
        batch = tokenizer(texts[0], return_tensors="pt", truncation=True).to(device)
        with torch.inference_mode():
            vector: Vectors = model(**batch).last_hidden_state.mean(1).float().cpu().numpy()
        return vector

    return encode


def _load_sentence_transformers(
    directory: Path, device: torch.device, dtype: torch.dtype, _temporary: Path
) -> EncodeInBatches:
    library = import_peer("sentence_transformers")
    model = library.SentenceTransformer(
        str(directory), device=str(device), model_kwargs={"dtype": dtype}
    ).eval()

    return lambda texts, size: model.encode(list(texts), batch_size=size, show_progress_bar=False)


def _load_session(graph: Path, embedder: Embedder, texts: Sequence[str]) -> Encode:
    """Return a function that runs a graph in ONNX Runtime alone: the ids of the texts are made before."""
    run = _load_onnxruntime(graph / GRAPH_FILE)
    prepared = {}
    for text in texts:
        ids = np.array([embedder.tokenizer.encode(text).input_ids])
        prepared[text] = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": 0 * ids}

    def encode(batch: Sequence[str]) -> Vectors:
        output = run(prepared[batch[0]])
        return output.mean(1) if output.ndim == 3 else output

    return encode


def _load_sentence_transformers_onnx(graph: Path, _embedder: Embedder, _texts: Sequence[str]) -> Encode:
    """Return a function that encodes texts as sentence-transformers does with `backend="onnx"`."""
    library = import_peer("sentence_transformers")
    keywords = {
        "file_name": GRAPH_FILE,
        "provider": "CPUExecutionProvider",
        "session_options": _session_options(),
    }
    model = library.SentenceTransformer(str(graph), backend="onnx", model_kwargs=keywords)
    return lambda texts: model.encode(list(texts), show_progress_bar=False)


def _load_fastembed(graph: Path, embedder: Embedder, _texts: Sequence[str]) -> Encode:
    """Return a function that encodes texts as fastembed does with a custom model, which may leave it the pooling."""
    library = import_peer("fastembed")
    session = import_peer("onnxruntime").InferenceSession(graph / GRAPH_FILE, _session_options())
    pooling = "MEAN" if len(session.get_outputs()[0].shape) == 3 else "DISABLED"
    description = import_module("fastembed.common.model_description")
    library.TextEmbedding.add_custom_model(
        model=graph.name,
        pooling=description.PoolingType[pooling],
        normalization=False,
        sources=description.ModelSource(hf=graph.name),
        dim=embedder.width,
        model_file=GRAPH_FILE,
    )
    model = library.TextEmbedding(graph.name, specific_model_path=str(graph), threads=torch.get_num_threads())
    return lambda texts: np.stack(list(model.embed(list(texts))))


def _session_options() -> Any:
    options = import_peer("onnxruntime").SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return options


RunGraph: TypeAlias = Callable[[dict[str, Any]], Vectors]
"""From the inputs of a graph by their names to its vectors."""


def _load_onnxruntime(graph: Path) -> RunGraph:
    onnxruntime = import_peer("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)[0]


def _load_openvino(graph: Path) -> RunGraph:
    openvino = import_peer("openvino")
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    model = openvino.Core().compile_model(graph, "CPU", settings)
    request = model.create_infer_request()
    return lambda inputs: np.array(request.infer(inputs)[0])


def _load_graph(
    directory: Path,
    _device: torch.device,
    _dtype: torch.dtype,
    temporary: Path,
    *,
    precision: Literal["float32", "int8"],
    load: Callable[[Path], RunGraph],
) -> EncodeInBatches:
    """Export the model, and run the graph as docs/guides/export.md does, on texts sorted by length."""
    import_peer("onnx")
    import_peer("onnxruntime")
    from cloze.export.onnx import export_onnx

    graph = temporary / precision
    if not graph.exists():
        outputs = export_onnx(directory, graph, precision=precision).outputs
        if len(outputs) != 1:
            what = f"its graph returns {', '.join(outputs)}, not vectors"
            raise InputError(what, where=directory, remedy="Give a directory of sentence-transformers")
    run = load(graph / GRAPH_FILE)
    tokenizer = Tokenizer.from_file(str(graph / TOKENIZER_FILE))
    settings = json.loads((graph / TOKENIZER_CONFIG_FILE).read_text("utf-8"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(settings["model_max_length"])

    def encode(texts: Sequence[str], batch_size: int) -> Vectors:
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors: list[Any] = [None] * len(texts)
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            encodings = tokenizer.encode_batch([texts[i] for i in chosen])
            inputs = {
                "input_ids": [encoding.ids for encoding in encodings],
                "attention_mask": [encoding.attention_mask for encoding in encodings],
                "token_type_ids": [encoding.type_ids for encoding in encodings],
            }
            batch_vectors = run({name: np.array(rows) for name, rows in inputs.items()})
            for i, vector in zip(chosen, batch_vectors, strict=True):
                vectors[i] = vector
        return np.stack(vectors)

    return encode


class Peer(NamedTuple):
    """A program that encodes many texts."""

    does: str
    load: Callable[[Path, torch.device, torch.dtype, Path], EncodeInBatches]
    tolerance: float = 0.0


PEERS: Mapping[str, Peer] = {
    "sentence-transformers": Peer("encode()", _load_sentence_transformers),
    "onnxruntime": Peer(
        "the float32 graph of cloze export, texts sorted by length",
        partial(_load_graph, precision="float32", load=_load_onnxruntime),
    ),
    "onnxruntime-int8": Peer(
        "the int8 graph of cloze export, texts sorted by length",
        partial(_load_graph, precision="int8", load=_load_onnxruntime),
        tolerance=INT8_TOLERANCE,
    ),
    "openvino": Peer(
        "the float32 graph of cloze export, texts sorted by length",
        partial(_load_graph, precision="float32", load=_load_openvino),
        tolerance=TOLERANCES[torch.bfloat16],  # it computes in bfloat16 where the processor has AMX
    ),
    "openvino-int8": Peer(
        "the int8 graph of cloze export, texts sorted by length",
        partial(_load_graph, precision="int8", load=_load_openvino),
        tolerance=INT8_TOLERANCE,
    ),
}

GRAPH_PEERS: Mapping[str, tuple[str, Callable[[Path, Embedder, Sequence[str]], Encode]]] = {
    "onnxruntime": ("the session alone, on ids made before", _load_session),
    "sentence-transformers": ("encode() of one text with backend=onnx", _load_sentence_transformers_onnx),
    "fastembed": ("TextEmbedding with a custom model, one text", _load_fastembed),
}
"""By program that encodes one of some texts with an exported graph: what it does, and how it is loaded."""
