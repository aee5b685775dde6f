"""Read weights by their names in transformers: model.safetensors, several files with an index, or pytorch_model.bin."""

import json
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import TypeGuard

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import TORCH_WEIGHTS_FILE, WEIGHTS_FILE, WEIGHTS_INDEX_FILE
from cloze.model_paths import is_bundled
from cloze.models.weight_mapping import HuggingFaceNames, normalize_hugging_face_names

_STATE_DICT_KEYS = ("state_dict", "model_state_dict", "model", "module")
"""Where programs put the weights beside other state: Lightning, PyTorch's tutorial, fairseq, DeepSpeed."""
_OTHER_WEIGHTS = f"cloze reads {WEIGHTS_FILE}: save other weights in it with the program that wrote them"
_DAMAGED = "The file is damaged: copy it again or write a new one"
_WHOLE_COPY = "If this is a copy of a bundled model, write a whole one: cloze import NAME -o DIR"


def load_weights(directory: Path, names: HuggingFaceNames) -> dict[str, Tensor]:
    """Read all weights from safetensors, by today's names of transformers."""
    weights: dict[str, Tensor] = {}
    for file, indexed in weight_files(directory).items():
        of_file: dict[str, Tensor] = {}
        with _safetensors_errors(file):
            mapped = load_file(file)
            with file.open("rb") as stream:
                header_bytes = int.from_bytes(stream.read(8), "little")
                header = json.loads(stream.read(header_bytes))
                for name, weight in mapped.items():
                    # a mapped file would count as memory next to its copy, and may change while it is used
                    of_file[name] = torch.empty_like(weight)
                    stream.seek(8 + header_bytes + header[name]["data_offsets"][0])
                    stream.readinto(of_file[name].view(-1).view(torch.uint8).numpy().data)
        if indexed is not None:
            if missing := sorted(indexed - set(of_file)):
                what = f"the weight {missing[0]} is not in the file {file.name}"
                raise InputError(what, where=directory / WEIGHTS_INDEX_FILE)
            of_file = {name: of_file[name] for name in indexed}
        weights |= of_file
    return normalize_hugging_face_names(weights, names, where=directory)


def load_weights_or_pickle(directory: Path, names: HuggingFaceNames) -> dict[str, Tensor]:
    """Read all weights from safetensors or, if there are none, from pytorch_model.bin."""
    if any((directory / name).exists() for name in (WEIGHTS_FILE, WEIGHTS_INDEX_FILE)):
        return load_weights(directory, names)
    if not has_weights(directory):
        what = f"no weights here: neither {WEIGHTS_FILE} nor {TORCH_WEIGHTS_FILE}"
        raise InputError(what, where=directory, remedy=_OTHER_WEIGHTS)
    return normalize_hugging_face_names(_load_pickle(directory / TORCH_WEIGHTS_FILE), names, where=directory)


def has_weights(directory: Path) -> bool:
    """Return whether a directory has a file that `load_weights_or_pickle` reads."""
    names = (WEIGHTS_FILE, WEIGHTS_INDEX_FILE, TORCH_WEIGHTS_FILE)
    return any((directory / name).exists() for name in names)


def read_weight_headers(directory: Path, names: HuggingFaceNames) -> tuple[dict[str, Tensor], set[str]]:
    """Read the headers alone: weights on the device meta, by today's names of transformers, and the dtypes."""
    shapes: dict[str, Tensor] = {}
    dtypes: set[str] = set()
    for file, indexed in weight_files(directory).items():
        with _safetensors_errors(file), safe_open(file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 (no mapping)
                if indexed is not None and name not in indexed:
                    continue
                part = weights.get_slice(name)
                shapes[name] = torch.empty(part.get_shape(), device="meta")
                dtypes.add(part.get_dtype())
    return normalize_hugging_face_names(shapes, names, where=directory), dtypes


def weight_files(directory: Path) -> dict[Path, set[str] | None]:
    """Return the files with the weights of a model, and which weights the index takes from each; None is all.

    The index of a bundled model may name the file of another one, as in `../cloze-mini/model.safetensors`, whose
    weights both share; any other file outside of the directory is refused.
    """
    index = directory / WEIGHTS_INDEX_FILE
    if (directory / WEIGHTS_FILE).exists() or not index.exists():
        return {directory / WEIGHTS_FILE: None}
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise InputError("weight_map is not a table of file names", where=index)
    files: dict[Path, set[str] | None] = {}
    for name in sorted(set(weight_map.values())):
        path = Path(name)
        is_beside = path.name == name or (is_bundled(directory) and path.parts[:-2] == ("..",))
        if not is_beside or path.suffix != ".safetensors":
            remedy = _WHOLE_COPY if path.parts[:-2] == ("..",) else None
            what = f"names the file {name!r}, which is no .safetensors beside it"
            raise InputError(what, where=index, remedy=remedy)
        files[directory / path] = {weight for weight, file in weight_map.items() if file == name}
    return files


@contextmanager
def _safetensors_errors(file: Path) -> Iterator[None]:
    if file.exists() and not file.is_file():
        raise InputError("not a regular file", where=file)
    try:
        yield
    except FileNotFoundError:
        remedy = _OTHER_WEIGHTS
        if file.with_name(TORCH_WEIGHTS_FILE).exists():
            remedy = f"Convert {TORCH_WEIGHTS_FILE}: cloze import {file.parent} -o DIR"
        raise InputError("no such file", where=file, remedy=remedy) from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot be read: {error}", where=file, remedy=_DAMAGED) from error


def _load_pickle(file: Path) -> dict[str, Tensor]:
    """Read tensors that `torch.save` wrote; no code in the file is run."""
    if not file.is_file():
        raise InputError("not a regular file", where=file)
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                    raise InputError("compressed, which torch.save never writes", where=file)
        with warnings.catch_warnings(action="ignore"):  # about pickles that it refuses, as it raises below
            tensors = torch.load(file, map_location="cpu", weights_only=True)
    except (
        UnpicklingError,
        RuntimeError,
        ValueError,
        OSError,
        EOFError,
        KeyError,
        zipfile.BadZipFile,
    ) as error:
        what = f"cannot be read as tensors alone: {str(error).splitlines()[0]}"
        remedy = "The file is damaged, or has more than tensors: save model.state_dict() alone"
        raise InputError(what, where=file, remedy=remedy) from error
    inner = next((key for key in _STATE_DICT_KEYS if isinstance(tensors, dict) and key in tensors), None)
    if inner is not None and _is_state_dict(tensors[inner]):
        others = ", ".join(repr(key) for key in tensors if key != inner) or "nothing"
        warnings.warn(f"{file}: has the weights in {inner!r}; left out: {others}", stacklevel=2)
        tensors = tensors[inner]
    if not _is_state_dict(tensors):
        what = "contains something other than tensors by name"
        raise InputError(what, where=file, remedy="Save model.state_dict() alone")
    for name, tensor in tensors.items():
        # a small file can hold a huge tensor that repeats one number
        is_whole = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not is_whole or tensor.untyped_storage().nbytes() < tensor.nbytes:
            raise InputError(f"{name} is a tensor without all of its numbers", where=file)
    return tensors


def _is_state_dict(value: object) -> TypeGuard[dict[str, Tensor]]:
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in value.items()
    )
