"""Time of one text in another thread than the one that loaded the model: python in_process.py MODEL PRECISION [one]

With `one`, the main thread has one thread of OpenMP before the model is loaded.
"""

import sys
import threading
import time

import torch

from benchmarks.serve import text_of_length
from cloze.inference.embedder import Embedder
from cloze.process import configure_memory

model, precision, *one = sys.argv[1:]
configure_memory("inference")
if one:
    torch.set_num_threads(1)
embedder = Embedder.load(model, precision=precision, device="cpu")
text = text_of_length(model, 32)


def measure():
    torch.set_num_threads(2)
    for _ in range(5):
        embedder([text])
    start = time.perf_counter()
    for _ in range(320):
        embedder([text])
    print(f"{precision}: {1000 * (time.perf_counter() - start) / 320:.1f} ms a text")


thread = threading.Thread(target=measure)
thread.start()
thread.join()
