"""Simulate choices of rounding in float32, and print the cosines of vectors with those of float32.

    python simulated.py MODEL LINES

300 sentences of STS-B's dev data were the lines.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

import cloze

KINDS = ("query_key_value", "attention_output", "intermediate", "output")


class Rounded(nn.Module):
    """A dense layer with rounded weights and activations."""

    def __init__(self, linear, scale, bits, weight_bits):
        super().__init__()
        self.bias, self.scale, self.steps = linear.bias, scale, 2**bits - 1
        steps = linear.weight.abs().amax(1, keepdim=True) / (2 ** (weight_bits - 1) - 1)
        self.weight = nn.Parameter((linear.weight / steps).round() * steps)

    def forward(self, values):
        if self.scale == "batch":  # one scale and zero point
            low, high = values.amin().clamp(max=0), values.amax().clamp(min=0)
            step = (high - low) / self.steps
            zero = (-low / step).round()
            values = ((values / step + zero).round() - zero) * step
        elif self.scale == "token":  # a scale for each token, zero in the middle
            step = values.abs().amax(1, keepdim=True) / ((self.steps - 1) // 2)
            values = (values / step).round() * step
        elif self.scale == "token, zero point":
            low = values.amin(1, keepdim=True)
            step = (values.amax(1, keepdim=True) - low) / self.steps
            values = ((values - low) / step).round() * step + low
        return nn.functional.linear(values, self.weight, self.bias)


def main(model, lines):
    texts = [line for line in Path(lines).read_text("utf-8").splitlines() if line.strip()]
    exact = cloze.Embedder.load(model, device="cpu")(texts)

    def measure(scale, bits, weight_bits, kept=()):
        embedder = cloze.Embedder.load(model, device="cpu")
        for number, layer in enumerate(embedder.model.layers):
            for kind in KINDS:
                if kind not in kept and number not in kept:
                    setattr(layer, kind, Rounded(getattr(layer, kind), scale, bits, weight_bits))
        vectors = embedder(texts)
        cosines = (vectors * exact).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(exact, axis=1)
        print(f"{scale}, {bits} bits, weights {weight_bits}, kept {kept}: {cosines.mean():.5f} {cosines.min():.5f}")

    for scale in ("none", "batch", "token", "token, zero point"):
        for bits in (8,) if scale == "none" else (8, 7):
            for weight_bits in (8, 7):
                measure(scale, bits, weight_bits)
    for kept in (*KINDS, *range(len(cloze.Embedder.load(model, device="cpu").model.layers))):
        measure("token", 7, 8, (kept,))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.inference_mode():
        main(*sys.argv[1:])
