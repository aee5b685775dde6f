"""Train the last three layers of cloze-mini to give the teacher's cosines: python distil.py MINUTES OUT.

Minutes are those of one thread of a processor. Reads what texts.py wrote.
"""

import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from cloze.data.batch import collate
from cloze.inference.embedder import Embedder
from cloze.models.batch import to_device
from cloze.models.pooling import pool

SECONDS, OUT = 60 * float(sys.argv[1]), Path(sys.argv[2])
TRAINED_LAYERS, RATE, WARMUP_STEPS, DECAY = 3, 7e-4, 30, 0.6
PIVOTS, NEAR, SAMPLE, HELD_OUT = 8, 32, 120_000, 4096
TEMPERATURE, SQUARES = 0.05, 20

torch.set_num_threads(1)
texts = Path("texts.txt").read_text("utf-8").split("\n")[:-1]
teacher = torch.from_numpy(nn.functional.normalize(torch.from_numpy(np.load("teacher.npy")).float(), dim=-1).numpy())
embedder = Embedder.load("cloze-mini", normalize=True, device="cpu")
model, tokenizer = embedder.model, embedder.tokenizer
ids = embedder.token_ids(texts)
sequences = [np.concatenate([[tokenizer.cls_id], x[:62], [tokenizer.sep_id]]).astype(np.uint32) for x in ids]
num_training = len(texts) - HELD_OUT
random = np.random.default_rng(1)

model.requires_grad_(False)
for layer in list(model.layers)[-TRAINED_LAYERS:]:
    layer.requires_grad_(True)
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.01, betas=(0.9, 0.98))


def embed(numbers):
    """Return the numbers by length, and the normalized means of the last layer."""
    numbers = sorted(numbers, key=lambda i: len(sequences[i]))
    batch = to_device(collate([sequences[i] for i in numbers]), torch.device("cpu"))
    return numbers, nn.functional.normalize(pool(model(batch).sequence_output, batch, "mean"), dim=-1)


def draw():
    """Return texts around pivots: those that the teacher finds nearest among a part of all."""
    pivots = random.integers(0, num_training, PIVOTS)
    sample = random.choice(num_training, SAMPLE, replace=False)
    near = torch.topk(teacher[pivots] @ teacher[sample].T, NEAR - 1)[1].numpy()
    return list(dict.fromkeys([*pivots.tolist(), *sample[near].ravel().tolist()]))


def loss_of(numbers, vectors):
    """Return the divergence of the softmax over each text's cosines, and the squared differences of all cosines."""
    own, expected = vectors @ vectors.T, teacher[numbers] @ teacher[numbers].T
    itself = torch.eye(len(own), dtype=torch.bool)
    p = (expected / TEMPERATURE).masked_fill(itself, -1e9).softmax(-1)
    q = (own / TEMPERATURE).masked_fill(itself, -1e9).log_softmax(-1)
    return nn.functional.kl_div(q, p, reduction="batchmean") + SQUARES * ((own - expected) ** 2).mean()


def held_out_nearest():
    """Return for how many held-out texts the nearest of the others is the teacher's nearest."""
    start = num_training
    own = torch.empty(HELD_OUT, 256)
    with torch.inference_mode():
        for first in range(start, len(texts), 512):
            numbers, vectors = embed(range(first, first + 512))
            own[np.array(numbers) - start] = vectors
    nearest = [(v @ v.T).fill_diagonal_(-1).argmax(1) for v in (own, teacher[start:])]
    return (nearest[0] == nearest[1]).float().mean().item()


began, step, losses, told = time.process_time(), 0, [], 0.0
print(f"held-out nearest {held_out_nearest():.1%}", flush=True)
while (used := time.process_time() - began) < SECONDS:
    rate = RATE * min(1, (step + 1) / WARMUP_STEPS) * min(1, (SECONDS - used) / (DECAY * SECONDS))
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = loss_of(*embed(draw()))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    step += 1
    losses.append(loss.item())
    if used - told > 120:
        told = used
        mean = sum(losses) / len(losses)
        print(f"{used:5.0f} s  step {step}  loss {mean:.4f}  held-out nearest {held_out_nearest():.1%}", flush=True)
        losses = []
print(f"end: step {step}, held-out nearest {held_out_nearest():.1%}")
torch.save(model.state_dict(), OUT)
