"""The names and layouts of weights in the files of other programs, as reversible tables.

A table has the weights of cloze, each with its parts in the other program; several parts (query, key, value) are
concatenated along the first axis. `{i}` is the number of a layer. Other weights have the same name in both.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from cloze.errors import InputError

Entries: TypeAlias = Mapping[str, tuple[str, ...]]


class MissingWeightsError(InputError):
    """A file lacks weights of the model that it is loaded into."""


@dataclass(frozen=True)
class WeightMapping:
    """The names and layouts of weights in the files of another program."""

    entries: Entries
    transposed_suffix: str | None = None
    """Weights whose external name ends so are [in, out] in the file and [out, in] here."""

    def external_names(self, name: str) -> tuple[str, ...]:
        """Return the names of the weights that a weight of cloze consists of: its own if the table lacks it."""
        number = next((part for part in name.split(".") if part.isdigit()), None)
        pattern = name if number is None else name.replace(f".{number}.", ".{i}.", 1)
        return tuple(external.replace("{i}", number or "") for external in self.entries.get(pattern, (name,)))

    def to_external(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Rename, split and transpose weights of cloze."""
        external: dict[str, Tensor] = {}
        for name, weight in weights.items():
            names = self.external_names(name)
            for external_name, part in zip(names, weight.chunk(len(names)), strict=True):
                part = part.T if self._is_transposed(external_name) else part
                external[external_name] = part.contiguous()
        return external

    def external_shapes(self, shapes: Mapping[str, torch.Size]) -> dict[str, torch.Size]:
        """Return the shapes of the external weights, given those of cloze."""
        external = {}
        for name, shape in shapes.items():
            parts = self.external_names(name)
            for part in parts:
                expected = torch.Size((shape[0] // len(parts), *shape[1:]))
                external[part] = torch.Size(reversed(expected)) if self._is_transposed(part) else expected
        return external

    def from_external(
        self, external: dict[str, Tensor], shapes: Mapping[str, torch.Size]
    ) -> dict[str, Tensor]:
        """Return the weights of a model with these shapes in float32; other external weights are ignored.

        Those of the encoder are left in `external` without values, on the device meta, so that memory has them once.
        """
        expected = self.external_shapes(shapes)
        if missing := [name for name in expected if name not in external]:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise MissingWeightsError(f"no weight {', '.join(missing[:3])}{more}")
        for name, shape in expected.items():  # all of them before memory is allocated
            weight = external[name]
            if weight.shape != shape:
                raise InputError(f"{name} has shape {list(weight.shape)}, the config says {list(shape)}")
            if not weight.is_floating_point():
                dtype = str(weight.dtype).removeprefix("torch.")
                raise InputError(f"{name} has dtype {dtype}, weights are floating-point numbers")
            if not _is_finite(weight):
                what = f"the weight {name} holds NaN or infinite values"
                raise InputError(what, remedy="Use an earlier checkpoint")
        weights: dict[str, Tensor] = {}
        storages: set[int] = set()
        for name in shapes:
            names = self.external_names(name)
            parts = [external[part].T if self._is_transposed(part) else external[part] for part in names]
            weight = torch.cat(parts) if len(parts) > 1 else parts[0].contiguous()
            storage = weight.untyped_storage()
            if storage.nbytes() > weight.nbytes or storage.data_ptr() in storages:
                # training must not change two weights that share memory, as tied ones may
                weight = weight.clone()
            storages.add(storage.data_ptr())
            weights[name] = weight.float()
            if name.startswith("bert."):
                external.update({part: external[part].to("meta") for part in names})
        return weights

    def _is_transposed(self, external_name: str) -> bool:
        return self.transposed_suffix is not None and external_name.endswith(self.transposed_suffix)


def _is_finite(weight: Tensor) -> bool:
    if not weight.numel() or weight.is_meta:
        return True
    # bounds need no copy of the weight; torch has none of 8-bit numbers
    bounds = (weight.float() if weight.itemsize == 1 else weight).aminmax()
    return all(bool(bound.isfinite()) for bound in bounds)


def dense(name: str, external_name: str) -> Entries:
    """Return the entries of the weight and bias of a layer."""
    return {f"{name}.{part}": (f"{external_name}.{part}",) for part in ("weight", "bias")}


def renamed(entries: Entries, parts: Mapping[str, str]) -> Entries:
    """Return entries with other parts of external names; of two that begin at one place, the first counts."""
    pattern = re.compile("|".join(map(re.escape, parts)))
    return {
        name: tuple(pattern.sub(lambda match: parts[match[0]], external) for external in names)
        for name, names in entries.items()
    }


HEADS: Entries = {
    **dense("masked_lm.dense", "cls.predictions.transform.dense"),
    **dense("masked_lm.layer_norm", "cls.predictions.transform.LayerNorm"),
    "masked_lm.bias": ("cls.predictions.bias",),
    **dense("next_sentence", "cls.seq_relationship"),
    **dense("classifier", "classifier"),
    **dense("qa_outputs", "qa_outputs"),
}
"""The weights of heads."""


@dataclass(frozen=True, kw_only=True)
class HuggingFaceNames:
    """How transformers names the classes and weights of a family of models."""

    family: str = "Bert"
    """The first part of the names of its classes, as in BertForMaskedLM."""
    encoder: Entries
    """The weights of the encoder, prefixed with `bert.` here, in files of models with a head; the first entry is that
    of the word embeddings."""
    heads: Entries = field(default_factory=lambda: HEADS)
    decoder: str = "cls.predictions.decoder"
    """The output layer of masked words, whose weight and bias are tied to those in the tables."""
    renamed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For heads, by their class here: prefixes of names in the tables, and those that files have instead."""
    special_ids: Mapping[str, str] = field(default_factory=dict)
    """Keys of config.json with the ids of special tokens, and the roles of these tokens."""
    shared_pooler: tuple[str, str] | None = None
    """The prefixes of the masked-LM head and of the pooler, where a pooler that files lack has that head's weights."""

    @cached_property
    def mapping(self) -> WeightMapping:
        """The names of all weights in model.safetensors."""
        return WeightMapping({**self.encoder, **self.heads})

    @cached_property
    def word_embeddings(self) -> str:
        return next(iter(self.encoder.values()))[0]

    @property
    def prefix(self) -> str:
        """The prefix of the encoder's weights in files of models with a head, as in `bert.`."""
        return f"{self.word_embeddings.partition('.')[0]}."

    @cached_property
    def bare(self) -> tuple[str, ...]:
        """The first parts of the encoder's names in files of the encoder alone, as in `embeddings.`."""
        names = (name for names in self.encoder.values() for name in names if name.startswith(self.prefix))
        return tuple({f"{name.split('.')[1]}." for name in names})

    @property
    def has_pooler(self) -> bool:
        """Whether transformers has the pooler in the encoder; else it is a part of the heads that read it."""
        poolers = (names[0] for name, names in self.encoder.items() if name.startswith("bert.pooler."))
        return all(name.startswith(self.prefix) for name in poolers)

    @cached_property
    def copies(self) -> Mapping[str, str]:
        """Copies of tied weights that a file may hold, and the weights to which they are tied."""
        (bias,) = self.heads["masked_lm.bias"]
        copies = {f"{self.decoder}.weight": self.word_embeddings, f"{self.decoder}.bias": bias}
        return {copy: original for copy, original in copies.items() if copy != original}

    def architecture(self, class_name: str) -> str:
        """Return the class in transformers of an encoder or head of cloze."""
        if class_name.startswith("Bert"):
            return f"{self.family}{class_name.removeprefix('Bert')}"
        return class_name

    def is_pretraining_head(self, external_name: str) -> bool:
        """Whether a weight belongs to a head of pre-training, which other models leave out."""
        heads = (n for name, n in self.heads.items() if name.startswith(("masked_lm.", "next_sentence.")))
        return external_name.startswith("cls.") or any(external_name in names for names in heads)

    def to_class(self, weights: Mapping[str, Tensor], class_name: str) -> dict[str, Tensor]:
        """Return weights by the names that a class of cloze has in files."""
        renamed = self.renamed.get(class_name, {})
        return {_replace_prefix(name, renamed): weight for name, weight in weights.items()}

    def from_class(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of a file by the names in the tables."""
        for renamed in self.renamed.values():
            prefixes = tuple(renamed.values())
            if all(any(name.startswith(prefix) for name in weights) for prefix in prefixes):
                others = {
                    name: w for name, w in weights.items() if not name.startswith((*renamed, *prefixes))
                }
                back = {new: old for old, new in renamed.items()}
                taken = {name: w for name, w in weights.items() if name.startswith(prefixes)}
                return others | {_replace_prefix(name, back): weight for name, weight in taken.items()}
        if self.shared_pooler is not None and not any(
            name.startswith(self.shared_pooler[1]) for name in weights
        ):
            head, pooler = self.shared_pooler
            copied = {name: weight for name, weight in weights.items() if name.startswith(head)}
            return {**weights, **{_replace_prefix(name, {head: pooler}): w for name, w in copied.items()}}
        return dict(weights)


def _replace_prefix(name: str, prefixes: Mapping[str, str]) -> str:
    old = next((prefix for prefix in prefixes if name.startswith(prefix)), "")
    return f"{prefixes.get(old, '')}{name.removeprefix(old)}"


_WRAPPERS = re.compile(r"\b(?:module|_orig_mod)\.")
"""The prefixes that DistributedDataParallel and torch.compile give to names."""


def normalize_hugging_face_names(
    external: Mapping[str, Tensor], names: HuggingFaceNames, *, where: Path
) -> dict[str, Tensor]:
    """Return weights by today's names of transformers.

    LayerNorm's `gamma` and `beta` become `weight` and `bias`, and the names of a bare encoder get the prefix of its
    family, such as `bert.`. The output matrix and its bias get the names of the weights to which they are tied, which
    they must equal. Position ids and the prefixes of wrappers are left out.
    """
    # PyTorch Lightning's modules usually hold the model as `model`, which is ModernBERT's own prefix
    wrapper = "" if names.prefix == "model." else "model."
    unwrapped = {_WRAPPERS.sub("", name).removeprefix(wrapper): weight for name, weight in external.items()}
    if len(unwrapped) == len(external):  # no two weights of one name
        external = unwrapped
    is_bare = any(name.startswith("embeddings.") for name in external)
    weights = {}
    for name, weight in external.items():
        if name.endswith("embeddings.position_ids"):
            continue
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if is_bare and name.startswith(names.bare):
            name = f"{names.prefix}{name}"
        weights[name] = weight
    for copy, original in names.copies.items():
        if copy not in weights:
            continue
        output = weights.pop(copy)
        tied = weights.get(original, output)
        is_same = output.dtype == tied.dtype and output.shape == tied.shape
        # on the device meta only shapes are known
        if copy.endswith(".weight") and not (is_same and (output.is_meta or torch.equal(output, tied))):
            what = f"{copy} differs from the word embeddings, to which the model ties it"
            raise InputError(what, where=where)
        weights[original] = output  # transformers computes with the bias of the output layer if there are two
    return names.from_class(weights)
