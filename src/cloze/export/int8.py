"""Write a model with int8 weights, for cloze alone."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cloze import artifacts
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE, WEIGHTS_FILE, WEIGHTS_INDEX_FILE
from cloze.hub import model_files
from cloze.markdown import render_markdown
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import save_weights, verify_checkpoint
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, build_encoder
from cloze.models.quantization import (
    INT8_KIND,
    INT8_PREFIX,
    SCALES_SUFFIX,
    quantize_rows,
    quantized_weights,
    refuse_int8,
)
from cloze.models.weight_files import load_weights
from cloze.results import Result
from cloze.training.model_card import BaseModel


@dataclass(frozen=True, slots=True, repr=False)
class Int8Report(Result):
    """A directory of an int8 model."""

    model: str
    """Name of the head in transformers."""
    bytes: int
    """Of the weights."""
    share: float
    """Of the size of the weights in float32."""


def export_int8(source: Path | str, output: Path, *, overwrite: bool = False) -> Int8Report:
    """Write a checkpoint with int8 weights, atomically; it answers the same as `precision="int8"` of the source.

    The source is a checkpoint of cloze or transformers, or a run, whose best or else latest checkpoint is exported.
    """
    artifacts.check_output_path(Path(output), overwrite=overwrite, inputs=[source])
    checkpoint = resolve_checkpoint(source)
    config = load_config(checkpoint)
    refuse_int8(checkpoint, "exported")
    verify_checkpoint(checkpoint)
    with torch.device("meta"):  # names only
        encoder = build_encoder(config)
    weights = load_weights(checkpoint, encoder.names)
    quantized = _quantize(weights, encoder)
    table = read_json(checkpoint / CONFIG_FILE)
    table["model_type"] = f"{INT8_PREFIX}{table.get('model_type', 'bert')}"
    left_out = (".safetensors", WEIGHTS_INDEX_FILE, artifacts.MANIFEST, artifacts.CARD_FILE)
    with artifacts.write_directory(Path(output), kind=INT8_KIND, overwrite=overwrite) as directory:
        for name in model_files(checkpoint):
            if not name.endswith(left_out):
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(checkpoint / name, directory / name)
        (directory / CONFIG_FILE).write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", "utf-8")
        base = BaseModel.read(str(source), checkpoint)
        card = render_markdown("export/int8.md", base=base, model_type=table["model_type"])
        (directory / artifacts.CARD_FILE).write_text(card, "utf-8")
        save_weights(quantized, directory / WEIGHTS_FILE)
    architectures = table.get("architectures")
    num_bytes = sum(weight.nbytes for weight in quantized.values())
    return Int8Report(
        model=architectures[0] if isinstance(architectures, list) and architectures else "BertModel",
        bytes=num_bytes,
        share=num_bytes / sum(4 * weight.numel() for weight in weights.values()),
    )


def _quantize(weights: dict[str, Tensor], encoder: Encoder) -> dict[str, Tensor]:
    """Return the weights of a file with dense layers and embeddings as int8, their scales beside them."""
    mapping = encoder.names.mapping
    names = {
        external for name in quantized_weights(encoder) for external in mapping.external_names(f"bert.{name}")
    }
    quantized = {}
    for name, weight in weights.items():
        if name in names:
            quantized[name], quantized[f"{name}{SCALES_SUFFIX}"] = quantize_rows(weight.float())
        else:
            quantized[name] = weight.float()
    return quantized
