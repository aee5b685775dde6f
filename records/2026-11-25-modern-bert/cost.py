"""Measure time and memory of both encoders against the length of the text: `python cost.py > cost.json`.

A step is forward, backward and AdamW's update on 4,096 tokens (8,192 for the longest), 15% of them masked. Encoders
take turns; each number is the least processor time of several rounds. Memory is the growth of the peak of a fresh
process by one forward pass, or by one forward and backward pass, of a single sequence.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from cloze.data.batch import PretrainingBatch, collate
from cloze.models.batch import to_device
from cloze.models.encoder import build_encoder
from cloze.models.heads import BertForPreTraining
from cloze.pretraining.config import ModelConfig
from cloze.training.optimizer import OptimizerConfig, build_optimizer

SIZES = ("tiny", "modern-tiny")
STEP_TOKENS, ROUNDS, VOCABULARY = 4096, 5, 8000
STEP_LENGTHS = (32, 128, 512, 2048)
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)


def build(size):
    config = ModelConfig(
        size=size,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=8192,
    )
    return BertForPreTraining(build_encoder(config.encoder(vocab_size=VOCABULARY)))


def make_batch(length, count):
    generator = np.random.default_rng(0)
    batch = collate([generator.integers(5, VOCABULARY, length) for _ in range(count)])
    tokens = length * count
    places = np.sort(generator.choice(tokens, int(tokens * 0.15), replace=False))
    targets = {"masked_lm_ids": batch.input_ids[places], "next_sentence_labels": np.zeros(count, np.int64)}
    return to_device(PretrainingBatch.extend(batch, masked_lm_positions=places, **targets))


def in_turn(functions):
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start = time.process_time()
            function()
            best[name] = min(best[name], time.process_time() - start)
    return best


def training_steps():
    models = {size: build(size).train() for size in SIZES}
    optimizers = {size: build_optimizer(model, OptimizerConfig()) for size, model in models.items()}

    def step(size, batch):
        models[size].losses(batch).masked_lm_loss_sum.backward()
        optimizers[size].step()
        optimizers[size].zero_grad()

    result = {}
    for length in STEP_LENGTHS:
        batch = make_batch(length, STEP_TOKENS // length)
        seconds = in_turn({size: lambda size=size, batch=batch: step(size, batch) for size in SIZES})
        result[length] = {size: STEP_TOKENS / second for size, second in seconds.items()}
    return result


def forward_passes():
    """Return seconds of a forward pass of one sequence, by encoder and length."""
    models = {size: build(size).eval() for size in SIZES}
    result = {}
    for length in LENGTHS:
        batch = make_batch(length, 1)

        def run(size, batch=batch):
            with torch.inference_mode():
                models[size].bert(batch)

        result[length] = in_turn({size: lambda size=size, run=run: run(size) for size in SIZES})
    return result


def layers_alone():
    """Return seconds of attention in a global and in a local layer, by length."""
    from cloze.models.attention import attention
    from cloze.models.local_attention import local_attention

    result = {}
    for length in LENGTHS:
        batch = make_batch(length, 1)
        query, key, value = torch.randn(3, length, 2, 64).unbind()
        with torch.inference_mode():
            result[length] = in_turn(
                {
                    "global": lambda q=query, k=key, v=value, b=batch: attention(q, k, v, b, 0.0),
                    "local": lambda q=query, k=key, v=value, b=batch: local_attention(
                        q, k, v, b, 0.0, half_window=64
                    ),
                }
            )
    return result


def peak():
    """Return the peak of this process's resident memory in MB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def memory(size, length, backward):
    """Return the growth of this process's peak, in MB, by one pass."""
    model, batch = build(size), make_batch(length, 1)
    small = make_batch(16, 1)
    model.losses(small).masked_lm_loss_sum.backward()
    Path("/proc/self/clear_refs").write_text("5")  # else the peak is that of the parent
    before = peak()
    if backward:
        model.losses(batch).masked_lm_loss_sum.backward()
    else:
        with torch.inference_mode():
            model.bert(batch)
    return peak() - before


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["memory"]:
        print(memory(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "backward"))
        sys.exit()
    table = {
        "tokens a second of a training step": training_steps(),
        "seconds of a forward pass": forward_passes(),
        "seconds of attention in one layer": layers_alone(),
        "MB": {
            kind: {
                length: {
                    size: float(
                        subprocess.run(
                            [sys.executable, __file__, "memory", size, str(length), kind],
                            capture_output=True,
                            text=True,
                            check=True,
                        ).stdout
                    )
                    for size in SIZES
                }
                for length in (512, 2048, 8192)
            }
            for kind in ("forward", "backward")
        },
    }
    print(json.dumps(table, indent=1))
