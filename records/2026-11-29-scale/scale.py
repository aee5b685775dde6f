"""The start of pre-training on a data set of the paper's size: seconds and peak memory of each part of it.

    python scale.py make DATASET --share 0.25    a data set with the paper's numbers of documents, sentences and tokens
    python scale.py start DATASET                what a run reads and computes before its first step, part by part
    python scale.py first-step DATASET           a run, from the start of the process to the end of its first step

Texts are drawn at random; numbers and lengths are those of BooksCorpus (800 million words, 11,038 books) and
Wikipedia (2,500 million words, 5.7 million articles), with 1.3 tokens a word and 26 tokens a sentence.
"""

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cloze import artifacts
from cloze.callbacks import Callback
from cloze.config import from_dict
from cloze.data.batch import DataPosition
from cloze.data.dataset import KIND, DatasetInfo, Documents, split_documents

from cloze.data.shards import Shard, to_offsets, write_shard
from cloze.pretraining import run as pretraining
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.data import PretrainingData, build_batches, verify_data
from cloze.progress import SILENT
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.training.distributed import DistributedContext
from cloze.training.interrupts import Interrupted
from cloze.training.run import Launch
from cloze.training.step import OptimizerSteps

TOKENS_PER_WORD = 1.3
KINDS = ((2.5e9, 5.7e6), (0.8e9, 11_038))  # words and documents
VOCAB_SIZE = 30_522
MAX_SHARD_TOKENS = 250_000_000


def make(path: Path, share: float) -> None:
    random = np.random.default_rng(0)
    block = random.integers(5, VOCAB_SIZE, size=1 << 20, dtype=np.uint16)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"piece{n}" for n in range(VOCAB_SIZE - 5))]
    documents = sentences = num_tokens = shards = 0
    with artifacts.write_directory(path, kind=KIND) as directory:
        WordPieceTokenizer.from_tokens(tokens).save(directory)
        for words, number in KINDS:
            mean = words * TOKENS_PER_WORD / number / 26
            parts = max(1, round(share * words * TOKENS_PER_WORD / MAX_SHARD_TOKENS))
            for _ in range(parts):
                # half of the documents are shorter than 0.6 of the mean
                lengths_D = random.lognormal(np.log(mean) - 0.5, 1.0, size=round(share * number / parts))
                lengths_D = np.maximum(1, lengths_D).astype(np.int64)
                lengths_S = np.maximum(3, random.lognormal(3.1, 0.55, size=lengths_D.sum())).astype(np.int64)
                ids = np.resize(block, lengths_S.sum())
                digests = random.integers(2**64, size=len(lengths_D), dtype=np.uint64)
                nothing = np.zeros(0, np.int64)
                shard = Shard(
                    token_ids=ids,
                    sentence_offsets=to_offsets(lengths_S),
                    document_offsets=to_offsets(lengths_D),
                    document_digests=digests,
                    paragraph_offsets=np.zeros(len(digests) + 1, np.int64),
                    paragraph_digests=nothing.astype(np.uint64),
                    paragraph_starts=nothing,
                    paragraph_ends=nothing,
                )
                write_shard(directory / f"documents-{shards:05}.arrow", shard, vocab_size=VOCAB_SIZE)
                shards, documents = shards + 1, documents + len(lengths_D)
                sentences, num_tokens = sentences + len(lengths_S), num_tokens + len(ids)
        info = DatasetInfo(
            vocab_size=VOCAB_SIZE,
            documents=documents,
            sentences=sentences,
            tokens=num_tokens,
            unknown_tokens=0,
            held_out_below=int(0.005 * 2**64),
        )
        mapped = Documents.from_shards(sorted(directory.glob("*.arrow")))
        info.write(directory, split_documents(mapped, info, "train").token_counts(VOCAB_SIZE))
    print(json.dumps({"documents": documents, "sentences": sentences, "tokens": num_tokens, "shards": shards}))


def anonymous() -> int:
    """Return the resident memory without mapped files, in MiB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) >> 10


class Peak(threading.Thread):
    """Samples the memory every 20 ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest = 0

    def run(self) -> None:
        while True:
            self.highest = max(self.highest, anonymous())
            time.sleep(0.02)


def settings(path: Path) -> PretrainConfig:
    """Return the phases of the paper with a model so small that only the data take time."""
    phases = [
        {"max_seq_length": 128, "fraction": 0.9, "batch_size": 256, "max_predictions_per_seq": 20},
        {"max_seq_length": 512, "fraction": 0.1, "batch_size": 256, "max_predictions_per_seq": 77},
    ]
    return from_dict(
        PretrainConfig,
        {
            "data": str(path),
            "steps": 1_000_000,
            "evaluation": {"log_every_steps": 1},
            "seed": 1,
            "device": "cpu",
            "model": {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 64},
            "phases": phases,
        },
        where="scale",
    )


def start(path: Path) -> None:
    peak = Peak()
    peak.start()

    @contextmanager
    def part(name: str) -> Iterator[None]:
        peak.highest = 0
        began = time.perf_counter(), time.process_time()
        yield
        seconds = [round(now - before, 2) for now, before in zip((time.perf_counter(), time.process_time()), began)]
        row = {"part": name, "seconds": seconds[0], "cpu_seconds": seconds[1]}
        row |= {"peak_mib": max(peak.highest, anonymous()), "mib_after": anonymous()}
        print(json.dumps(row), flush=True)

    print(json.dumps({"part": "imports", "mib_after": anonymous()}))
    config = settings(path)
    context = DistributedContext(torch.device("cpu"))
    with part("verify the data set (rank zero)"):
        config = verify_data(config)
    with part("open the data set, draw held-out instances"):
        data = PretrainingData.load(config, context)
    batches = build_batches(config, data, Path(), SILENT)
    with part("plan of the first epoch, data of the first step"):
        step = batches.step_data(0.0, DataPosition(), 8192)
    source = batches.phases[0][1]
    instances = source.num_instances(0)
    for _ in range(3):
        with part("data of a later step"):
            step = batches.step_data(0.0, step.next_position, 8192)
    with part("plan of the next epoch, data of the step across both"):
        step = batches.step_data(0.0, DataPosition(0, 0, instances - 10), 8192)
    with part("plan of the phase of 512 tokens, data of its first step"):
        batches.step_data(0.95, DataPosition(0, 1, 5), 8192)
    print(json.dumps({"instances": instances}))


class StopAfterFirstStep(Callback):
    def on_step(self, step: int, values: Mapping[str, Any]) -> None:
        if step == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def started() -> float:
    """Return the seconds since this process was started."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def first_step(path: Path) -> None:
    """Run to the end of the first step, on as many ranks as torchrun started."""
    peak = Peak()
    peak.start()
    take = OptimizerSteps.take

    def timed(self: OptimizerSteps, *arguments: Any) -> None:
        take(self, *arguments)
        if self.state.step == 1:
            row = {"rank": self.context.rank, "ranks": self.context.world_size, "seconds": round(started(), 1)}
            row |= {"cpu_seconds": round(time.process_time(), 1), "peak_mib": max(peak.highest, anonymous())}
            print(json.dumps(row), flush=True)

    OptimizerSteps.take = timed
    launch = Launch(callbacks=[StopAfterFirstStep()])
    with tempfile.TemporaryDirectory() as directory, suppress(Interrupted, SystemExit):
        run = Path(os.environ.get("SCALE_RUN", directory)) / "run"
        pretraining.pretrain(settings(path), run, launch=launch)


VERBS = {"make": make, "start": start, "first-step": first_step}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=tuple(VERBS))
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    given = parser.parse_args()
    VERBS[given.verb](given.dataset, *([given.share] if given.verb == "make" else []))
