"""How other programs name and lay out the same weights: reversible tables.

A line of a table pairs one weight of ours with the weights it is made of elsewhere; where there are several
(query, key, value) ours is their concatenation along the first axis. `{i}` stands for the number of a layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from cloze.errors import InputError


class MissingWeightsError(InputError):
    """A file has not all the weights of the model that it is read for."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A way to name and lay out the weights of BERT."""

    name: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    transposed_suffix: str | None = None
    """Weights whose foreign name ends so are [in, out] there and [out, in] here."""

    def foreign_names(self, name: str) -> tuple[str, ...]:
        """Return what a weight of ours is made of.

        Raises:
            KeyError: the table has no such weight.
        """
        number = next((part for part in name.split(".") if part.isdigit()), None)
        pattern = name if number is None else name.replace(f".{number}.", ".{i}.", 1)
        foreign = dict(self.lines)[pattern]
        return tuple(their.replace("{i}", number or "") for their in foreign)

    def to_foreign(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Rename, split and transpose weights of ours into theirs."""
        foreign: dict[str, Tensor] = {}
        for name, weight in weights.items():
            their_names = self.foreign_names(name)
            for their, part in zip(their_names, weight.chunk(len(their_names)), strict=True):
                foreign[their] = (part.T if self._is_transposed(their) else part).contiguous()
        return foreign

    def foreign_shapes(self, names: Mapping[str, torch.Size]) -> dict[str, torch.Size]:
        """Return the weights that ours are made of, each with its shape.

        Args:
            names: the shape of each of our weights.
        """
        shapes = {}
        for name, shape in names.items():
            parts = self.foreign_names(name)
            for their in parts:
                expected = torch.Size((shape[0] // len(parts), *shape[1:]))
                shapes[their] = torch.Size(reversed(expected)) if self._is_transposed(their) else expected
        return shapes

    def from_foreign(
        self, foreign: Mapping[str, Tensor], names: Mapping[str, torch.Size]
    ) -> dict[str, Tensor]:
        """Build the weights that a model wants out of theirs; weights it does not want are left alone.

        Args:
            foreign: their weights.
            names: the shape of each of our weights.

        Raises:
            InputError: weights are missing, of another shape, or no floating-point numbers.
        """
        shapes = self.foreign_shapes(names)
        if missing := [their for their in shapes if their not in foreign]:
            raise MissingWeightsError(f"no weight {_listed(missing)}")
        for their, shape in shapes.items():  # all of them before memory is taken
            check_weight(their, foreign[their], shape)
        weights: dict[str, Tensor] = {}
        for name in names:
            parts = [
                foreign[their].T if self._is_transposed(their) else foreign[their]
                for their in self.foreign_names(name)
            ]
            # a copy, also of a single part: files that are memory-mapped may go
            weights[name] = torch.cat(parts)
        return weights

    def _is_transposed(self, their: str) -> bool:
        return self.transposed_suffix is not None and their.endswith(self.transposed_suffix)


def _dense(ours: str, theirs: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(f"{ours}.{part}", (f"{theirs}.{part}",)) for part in ("weight", "bias")]


def _hugging_face_lines() -> tuple[tuple[str, tuple[str, ...]], ...]:
    embeddings, layer, attention = (
        "bert.embeddings",
        "bert.encoder.layer.{i}",
        "bert.encoder.layer.{i}.attention",
    )
    qkv = [f"{attention}.self.{part}" for part in ("query", "key", "value")]
    encoder = (
        *(
            (f"{embeddings}.{table}_embeddings.weight", (f"{embeddings}.{table}_embeddings.weight",))
            for table in ("word", "token_type", "position")
        ),
        *_dense(f"{embeddings}.layer_norm", f"{embeddings}.LayerNorm"),
        *(
            (f"bert.layers.{{i}}.query_key_value.{part}", tuple(f"{name}.{part}" for name in qkv))
            for part in ("weight", "bias")
        ),
        *_dense("bert.layers.{i}.attention_output", f"{attention}.output.dense"),
        *_dense("bert.layers.{i}.attention_layer_norm", f"{attention}.output.LayerNorm"),
        *_dense("bert.layers.{i}.intermediate", f"{layer}.intermediate.dense"),
        *_dense("bert.layers.{i}.output", f"{layer}.output.dense"),
        *_dense("bert.layers.{i}.output_layer_norm", f"{layer}.output.LayerNorm"),
        *_dense("bert.pooler", "bert.pooler.dense"),
    )
    return (
        *encoder,
        *(
            (_on_side(ours, side), tuple(_on_side(their, side) for their in theirs))
            for side in ("left", "right")
            for ours, theirs in encoder
        ),
        *((f"bert.{name}", (f"bert.{name}",)) for name in _lstm_names()),
        *_dense("masked_lm.dense", "cls.predictions.transform.dense"),
        *_dense("masked_lm.layer_norm", "cls.predictions.transform.LayerNorm"),
        ("masked_lm.bias", ("cls.predictions.bias",)),
        *_dense("next_sentence", "cls.seq_relationship"),
        *_dense("classifier", "classifier"),
        *_dense("qa_outputs", "qa_outputs"),
        *_dense("logistic_regression", "logistic_regression"),
        *((name, (name,)) for name in (*_lstm_names(), "layer_weights", "layer_scale")),
    )


def _on_side(name: str, side: str) -> str:
    """Return what a weight is called in one of the two encoders of a `TwoWayBert`."""
    return name.replace("bert.", f"bert.{side}.", 1)


def _lstm_names() -> list[str]:
    """Return the names of what no other program has: they are torch's."""
    return [
        f"lstm.{kind}_{half}_l{layer}{direction}"
        for kind in ("weight", "bias")
        for half in ("ih", "hh")
        for layer in (0, 1)
        for direction in ("", "_reverse")
    ]


def _google_name(name: str) -> str:
    """Turn a Hugging Face name into Google's: the two differ by spelling alone."""
    special = {
        "cls.predictions.bias": "cls/predictions/output_bias",
        "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
        "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
        "classifier.weight": "output_weights",
        "classifier.bias": "output_bias",
        "qa_outputs.weight": "cls/squad/output_weights",
        "qa_outputs.bias": "cls/squad/output_bias",
    }
    if name in special:
        return special[name]
    path = name.replace(".layer.{i}.", ".layer_{i}.").replace(".", "/")
    if "LayerNorm/" in path:
        return path.replace("LayerNorm/weight", "LayerNorm/gamma").replace("LayerNorm/bias", "LayerNorm/beta")
    return path.replace("_embeddings/weight", "_embeddings").replace("/weight", "/kernel")


HUGGING_FACE = Layout("Hugging Face", _hugging_face_lines())
"""What transformers, sentence-transformers and TEI read: model.safetensors."""

GOOGLE = Layout(
    "Google",
    tuple((ours, tuple(map(_google_name, theirs))) for ours, theirs in HUGGING_FACE.lines),
    transposed_suffix="/kernel",
)
"""What google-research/bert's TensorFlow checkpoints hold, optimizer slots and `global_step` aside."""


def check_weight(name: str, weight: Tensor, shape: torch.Size) -> None:
    """Refuse a weight that is none.

    Raises:
        InputError: it has another shape, or holds something else than floating-point numbers.
    """
    if weight.shape != shape:
        raise InputError(f"{name} has shape {list(weight.shape)}, the config says {list(shape)}")
    if not weight.is_floating_point():
        kind = str(weight.dtype).removeprefix("torch.")
        raise InputError(f"{name} holds numbers of type {kind}, weights are floating-point numbers")


def modern_hugging_face_names(foreign: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Bring older spellings of Hugging Face names to today's.

    LayerNorm's `gamma` and `beta` become `weight` and `bias`, a bare encoder gets its `bert.` prefix; what
    repeats another weight (the tied output matrix and its bias) or is no weight (position ids) is left out.

    Raises:
        InputError: the output matrix is not that of the word embeddings, as in no BERT.
    """
    bare = any(name.startswith("embeddings.") for name in foreign)
    modern = {}
    output = foreign.get("cls.predictions.decoder.weight")
    embeddings = foreign.get("bert.embeddings.word_embeddings.weight")
    if output is not None and embeddings is not None and not _is_same(output, embeddings):
        raise InputError(
            "cls.predictions.decoder.weight differs from the word embeddings, to which BERT ties it"
        )
    for name, weight in foreign.items():
        if name in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias"):
            continue
        if name.endswith("embeddings.position_ids"):
            continue
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if bare and name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = f"bert.{name}"
        modern[name] = weight
    return modern


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Compare values where there are any: tensors on the device `meta` have a shape only."""
    same_form = one.dtype == other.dtype and one.shape == other.shape
    return same_form and (one.is_meta or torch.equal(one, other))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
