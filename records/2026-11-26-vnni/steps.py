"""Seconds of a step of training in each number format, by the number of kernels that oneDNN keeps: python steps.py MODEL KERNELS

Thirty batches of 32 texts of random tokens, 20 to 110 long (53 in the mean), forward and backward without an optimizer.
"""

import os
import resource
import statistics
import sys
import time
from pathlib import Path

model, kernels = sys.argv[1:]
os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = kernels

import numpy as np  # noqa: E402 (oneDNN reads the limit once)
import torch  # noqa: E402

from cloze.data.batch import collate  # noqa: E402
from cloze.models.batch import to_device  # noqa: E402
from cloze.models.checkpoint import load_model  # noqa: E402
from cloze.process import configure_memory  # noqa: E402

configure_memory()
encoder = load_model(Path(model)).train()
random = np.random.default_rng(0)


def batch():
    lengths = sorted(random.normal(53, 15, 32).clip(20, 110).astype(int), reverse=True)
    return to_device(collate([random.integers(1000, 20_000, length) for length in lengths]))


batches = [batch() for _ in range(30)]
for dtype in (torch.float32, torch.bfloat16):
    seconds = []
    for inputs in batches:
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = encoder(inputs).pooled_output.float().sum()
        loss.backward()
        seconds.append(time.perf_counter() - started)
        encoder.zero_grad()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(kernels, dtype, f"{statistics.median(seconds[2:]):.3f} s a step, peak so far {peak:.0f} MB", flush=True)
