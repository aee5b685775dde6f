"""Models as they are published load without a conversion: names, parts, dtypes and files of weights."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file

import cloze
from cloze.data.batch import collate
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model
from cloze.reports.describe import describe
from tiny_models import SIZES, numbered_tokens

pytestmark = pytest.mark.protected


@dataclass(frozen=True)
class Layout:
    """The files of a published model."""

    head: str
    bare: bool = False
    """Whether names lack the prefix `bert.`."""
    old_names: bool = False
    """Whether LayerNorm has gamma and beta."""
    position_ids: bool = False
    tied_copies: bool = False
    copies_alone: bool = False
    """Whether tied weights have the names of the output layer alone."""
    pooler: bool = True
    dtype: torch.dtype = torch.float32
    shards: int = 1
    tokenizer: dict[str, Any] = field(default_factory=dict)
    """tokenizer_config.json."""
    config: dict[str, Any] = field(default_factory=dict)


LAYOUTS = {
    "bert-base-uncased": Layout("BertForPreTraining", old_names=True, tied_copies=True, position_ids=True),
    "bert-base-multilingual-cased": Layout(
        "BertForPreTraining",
        old_names=True,
        tokenizer={"do_lower_case": False, "model_max_length": 512},
        config={"directionality": "bidi", "pooler_fc_size": 768, "pooler_type": "first_token_transform"},
    ),
    "bert-base-chinese": Layout("BertForPreTraining", tied_copies=True, tokenizer={"do_lower_case": False}),
    "dbmdz": Layout(
        "BertForPreTraining", position_ids=True, tokenizer={"do_lower_case": False, "max_len": 512}
    ),
    "SciBERT": Layout("BertModel", old_names=True, tokenizer={"do_lower_case": True}),
    "BioBERT": Layout("BertForPreTraining", tied_copies=True, dtype=torch.float16),
    "FinBERT": Layout("BertForSequenceClassification", config={"label2id": {"a": 0, "b": 1}}),
    "MiniLM": Layout("BertModel", bare=True, position_ids=True, config={"gradient_checkpointing": False}),
    "BGE": Layout("BertModel", bare=True, position_ids=True, dtype=torch.float16),
    "E5": Layout("BertModel", bare=True, pooler=False, dtype=torch.bfloat16),
    "copies alone": Layout("BertForPreTraining", tied_copies=True, copies_alone=True),
    "a large one": Layout("BertForMaskedLM", pooler=False, shards=3, dtype=torch.bfloat16),
}


def publish(layout: Layout, directory: Path) -> torch.nn.Module:
    """Write a random model of transformers in a layout, and return it."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**SIZES, initializer_range=0.3)
    model = getattr(transformers, layout.head)(config).eval().to(layout.dtype).float()
    directory.mkdir()
    weights = {name: weight.clone() for name, weight in model.state_dict().items() if "decoder" not in name}
    if layout.head == "BertModel" and not layout.bare:
        weights = {f"bert.{name}": weight for name, weight in weights.items()}
    if layout.tied_copies:
        weights["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"].clone()
        weights["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"].clone()
    if layout.copies_alone:
        del weights["bert.embeddings.word_embeddings.weight"], weights["cls.predictions.bias"]
    if not layout.pooler:
        weights = {name: weight for name, weight in weights.items() if "pooler" not in name}
    weights = {name: weight.to(layout.dtype) for name, weight in weights.items()}
    if layout.position_ids:
        weights[f"{'' if layout.bare else 'bert.'}embeddings.position_ids"] = torch.arange(32)[None]
    if layout.old_names:
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for new, former in old.items():
            weights = {name.replace(new, former): weight for name, weight in weights.items()}
    names = sorted(weights)
    files = {
        f"model-{i + 1:05d}-of-{layout.shards:05d}.safetensors": names[i :: layout.shards]
        for i in range(layout.shards)
    }
    if layout.shards == 1:
        files = {"model.safetensors": names}
    else:
        index = {"weight_map": {name: file for file, own in files.items() for name in own}}
        (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    for file, own in files.items():
        save_file({name: weights[name] for name in own}, directory / file, metadata={"format": "pt"})
    table = config.to_dict() | {"architectures": [layout.head]} | layout.config
    (directory / "config.json").write_text(json.dumps(table))
    (directory / "vocab.txt").write_text("\n".join(numbered_tokens(40)) + "\n")
    (directory / "tokenizer_config.json").write_text(json.dumps(layout.tokenizer))
    return model


@pytest.mark.parametrize("name", LAYOUTS)
def test_published_layout_loads_as_it_is(name, tmp_path, recwarn):
    layout = LAYOUTS[name]
    theirs = publish(layout, tmp_path / "model")
    bert = getattr(theirs, "bert", theirs)
    ids = torch.tensor([[2, 7, 9, 4, 3]])
    with torch.inference_mode():
        expected, output = bert(ids), theirs(ids)
    file = "model.safetensors" if layout.shards == 1 else "model.safetensors.index.json"
    told = f"{tmp_path}/model/{file}: no pooler: it starts with random weights"
    messages = [] if layout.pooler else [told]
    encoder = load_model(tmp_path / "model")
    assert [str(warning.message) for warning in recwarn] == messages
    with torch.inference_mode():
        ours = encoder(to_device(collate(ids.tolist())))
    torch.testing.assert_close(ours.sequence_output, expected.last_hidden_state[0], atol=1e-5, rtol=0)
    if layout.pooler and expected.pooler_output is not None:
        torch.testing.assert_close(ours.pooled_output, expected.pooler_output, atol=1e-5, rtol=0)
    written = [w for name, w in theirs.named_parameters() if layout.pooler or "pooler" not in name]
    assert describe(tmp_path / "model").facts["parameters"] == sum(weight.numel() for weight in written)
    assert cloze.Embedder.load(tmp_path / "model", device="cpu")(["w2 w4"]).shape == (1, 24)
    if layout.head in ("BertForMaskedLM", "BertForPreTraining"):
        logits = output.prediction_logits if "prediction_logits" in output else output.logits
        probabilities = cloze.FillMask.load(tmp_path / "model", device="cpu").probabilities("w2 w4 [MASK]")
        np.testing.assert_allclose(probabilities[0], logits[0, 3].softmax(-1), atol=1e-5, rtol=0)
