"""Milliseconds of the dense layers of an encoder by tokens and library: python products.py WIDTH LAYERS

`torch`: nn.Linear, by MKL; `by columns`: the same with the weight stored by columns; `oneDNN`: that weight and oneDNN's product;
`packed`: oneDNN's product and its own copy of the weight. In turn, up to 40 rounds: the least and, in brackets, the median.
"""

import sys
import time
from statistics import median

import torch
from torch.nn.functional import linear

from cloze.models.torch_internals import onednn_linear

WIDTH, LAYERS = map(int, sys.argv[1:])
SHAPES = [(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)]
torch.manual_seed(0)
rows = [(0.02 * torch.randn(*shape), torch.randn(shape[0])) for _ in range(LAYERS) for shape in SHAPES]
columns = [(weight.t().contiguous().t(), bias) for weight, bias in rows]
packed = [(torch.ops.mkldnn._reorder_linear_weight(weight), bias) for weight, bias in rows]
contestants = {
    "torch": (linear, rows),
    "by columns": (linear, columns),
    "oneDNN": (onednn_linear, columns),
    "packed": (onednn_linear, packed),
}
print("tokens", *contestants, sep="\t")
with torch.inference_mode():
    for num_tokens in (1, 8, 16, 24, 32, 48, 64, 96, 128, 256, 1024):
        inputs = {size: torch.randn(num_tokens, size) for _, size in SHAPES}
        seconds = {name: [] for name in contestants}
        for _ in range(min(40, 2560 // num_tokens)):
            for name, (product, weights) in contestants.items():
                started = time.perf_counter()
                for weight, bias in weights:
                    product(inputs[weight.shape[1]], weight, bias)
                seconds[name].append(time.perf_counter() - started)
        print(num_tokens, *(f"{1e3 * min(of):.2f} ({1e3 * median(of):.2f})" for of in seconds.values()), sep="\t", flush=True)
