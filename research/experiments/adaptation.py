"""Adapt an encoder to domains, and measure losses on new and old text and a task of the domain.

A control encoder, which has not seen the domains, is adapted with the recipe `adapt` to samples of several sizes. The
samples of a seed contain each other. Held-out documents are stretches of every file of a domain, with a gap of unused
documents on both sides, so that no novel is in both parts.

    OUT/held-out/DOMAIN.txt                   text to measure on, the same for all runs
    OUT/control/outcome.json                  the measurements of the control encoder
    OUT/control/task-1/outcome.json           its scores on the task, with the seed 1
    OUT/runs/DOMAIN-10mb-seed-1/outcome.json  the measurements of an adaptation; task/outcome.json has its scores

A stopped study continues with the same command.
"""

import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cloze import artifacts, file_io
from cloze import config as configuration
from cloze.api.evaluation import evaluate
from cloze.api.finetuning import finetune
from cloze.api.settings import find_initial_checkpoint
from cloze.config import find_recipe
from cloze.data.build.corpus import build_dataset
from cloze.data.build.input_shards import ReadingConfig, plan_input_shards, read_documents
from cloze.data.dataset import Dataset
from cloze.data.instances.pairs import PairsConfig
from cloze.data.reading.documents import Document
from cloze.demo.novels import NOVELISTS, Novel, read_chapters, split_passages
from cloze.errors import InputError
from cloze.model_paths import resolve_checkpoint
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.pretraining.run import pretrain
from cloze.progress import Progress
from cloze.training.checkpoints import remove_checkpoints

OUTCOME = "outcome.json"
TASK_DOMAIN = "novels"
"""The domain whose encoders are fine-tuned to name the author of a passage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptationConfig:
    """The settings of the study, chosen before its first run."""

    megabytes: tuple[float, ...] = (1, 3, 10, 20)
    """Sizes of the samples, in millions of bytes of UTF-8."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of samples, masks and fine-tuning."""
    min_steps: int = 120
    """A sample is read once, and a small one again until the run has so many steps."""
    held_out_documents: int = 120
    """Of each domain."""
    gap_documents: int = 60
    """Unused documents on each side of a held-out stretch."""
    max_instances: int = 1000
    """Held-out instances of each measurement."""
    task_megabytes: tuple[float, ...] = (3, 10, 20)
    """Sizes whose encoders are fine-tuned for the task of the domain."""
    train_passages: int = 150
    """Of each author."""
    test_passages: int = 100
    passage_words: int = 60
    epochs: int = 3
    learning_rate: float = 3e-4


@dataclass(frozen=True, slots=True)
class AdaptationRun:
    """An adaptation to one sample."""

    domain: str
    megabytes: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.domain}-{self.megabytes:g}mb-seed-{self.seed}"


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A study: its control encoder, texts and output.

    Args:
        control: a checkpoint or run.
        old: data set of the control encoder's text, whose held-out documents are the old text.
        domains: by name, a file or folder of text.
    """

    control: Path
    old: Path
    domains: Mapping[str, Path]
    output: Path
    config: AdaptationConfig
    progress: Progress

    def run(self, seeds: Sequence[int] = ()) -> None:
        """Make the unfinished runs and their tasks, all seeds of a size before the next size.

        Raises:
            InputError: a text or the control encoder is wrong.
        """
        held_out = {domain: self.write_held_out(domain) for domain in self.domains}
        self.measure_control(held_out)
        for megabytes in self.config.megabytes:
            runs = [
                AdaptationRun(domain, megabytes, seed)
                for seed in seeds or self.config.seeds
                for domain in self.domains
            ]
            for run in runs:
                self.adapt(run, held_out[run.domain])
            if megabytes in self.config.task_megabytes:
                for run in runs:
                    if run.domain == TASK_DOMAIN:
                        self.name_authors(
                            self.control, self.output / "control" / f"task-{run.seed}", run.seed
                        )
                        self.name_authors(self.directory(run) / "run", self.directory(run) / "task", run.seed)

    def directory(self, run: AdaptationRun) -> Path:
        """Return the directory of a run."""
        return self.output / "runs" / run.name

    def write_held_out(self, domain: str) -> Path:
        """Write the held-out documents of a domain, unless they are there; return the file."""
        file = self.output / "held-out" / f"{domain}.txt"
        if not file.exists():
            file_io.write_text(file, _as_text(self.split(domain)[0]))
        return file

    def split(self, domain: str) -> tuple[list[Document], list[Document]]:
        """Return the held-out documents of a domain, and those to sample from.

        Raises:
            InputError: it has too few documents.
        """
        files: dict[str, list[Document]] = {}
        for document in _read(self.domains[domain]):
            files.setdefault(document.where.rpartition(":")[0], []).append(document)
        held_out, pool = [], []
        share, gap = -(-self.config.held_out_documents // len(files)), self.config.gap_documents
        for documents in files.values():
            begin = (len(documents) - share) // 2
            if begin <= gap:
                what = f"a file has {len(documents):,} documents, too few to hold out {share} with a gap of {gap}"
                raise InputError(what, where=self.domains[domain], remedy="Give larger files")
            held_out += documents[begin : begin + share]
            pool += documents[: begin - gap] + documents[begin + share + gap :]
        return held_out, pool

    def measure(self, model: Path, text: Path) -> dict[str, float]:
        """Return the metrics of masked words on a text, or on the held-out documents of a data set."""
        settings = PretrainingEvaluationConfig(
            max_instances=self.config.max_instances, pairs=PairsConfig(next_sentence=False)
        )
        return evaluate_pretrained(resolve_checkpoint(model), [text], settings).masked_lm

    def measure_control(self, held_out: Mapping[str, Path]) -> None:
        """Measure the control encoder on all texts."""
        file = self.output / "control" / OUTCOME
        if not file.exists():
            domains = {domain: self.measure(self.control, text) for domain, text in held_out.items()}
            file_io.write_json(file, {"domains": domains, "old": self.measure(self.control, self.old)})

    def adapt(self, run: AdaptationRun, held_out: Path) -> None:
        """Adapt the control encoder to a sample, and measure the best checkpoint."""
        directory = self.directory(run)
        if (directory / OUTCOME).exists():
            return
        self.progress.note(f"adapt to {run.name}")
        shutil.rmtree(directory, ignore_errors=True)
        sample = _sample(self.split(run.domain)[1], int(run.megabytes * 1_000_000), run.seed)
        file_io.write_text(directory / "sample.txt", _as_text(sample))
        build_dataset([directory / "sample.txt"], resolve_checkpoint(self.control), directory / "data")
        tokens = Dataset.open(directory / "data").info.tokens
        config = self.settings(run, directory / "data", tokens)
        pretrain(config, directory / "run", start=find_initial_checkpoint(config), progress=self.progress)
        outcome = {
            **asdict(run),
            "documents": len(sample),
            "tokens": tokens,
            "steps": config.steps,
            "domain_metrics": self.measure(directory / "run", held_out),
            "old_metrics": self.measure(directory / "run", self.old),
        }
        artifacts.remove_directory(directory / "data")
        (directory / "sample.txt").unlink()
        file_io.write_json(directory / OUTCOME, outcome)

    def settings(self, run: AdaptationRun, data: Path, tokens: int) -> PretrainConfig:
        """Return the settings of a run: the recipe, without next sentences, which the control encoder never saw."""
        table = configuration.read_dict(find_recipe("adapt"))
        batch = table["phases"][0]
        steps = -(-tokens // (batch["batch_size"] * batch["max_seq_length"]))
        changes = {
            "data": str(data),
            "init": str(self.control),
            "steps": max(steps, self.config.min_steps),
            "seed": run.seed,
            "pairs": {"next_sentence": False},
            "evaluation": {"times": 2, "max_instances": 400},
            "checkpoints": {"keep_newest": 1},
        }
        return configuration.resolve(PretrainConfig, table, changes, where="adapt")

    def name_authors(self, model: Path, directory: Path, seed: int) -> None:
        """Fine-tune an encoder to name the author of a passage; score it on another novel of each author.

        A tenth of the training passages chooses the best epoch.
        """
        outcome = directory / OUTCOME
        if outcome.exists():
            return
        shutil.rmtree(directory, ignore_errors=True)
        config, words = self.config, self.config.passage_words
        train = [(novelist.name, novelist.train_novel) for novelist in NOVELISTS]
        _write_passages(directory / "train.jsonl", train, config.train_passages, words)
        test = [(novelist.name, novelist.test_novel) for novelist in NOVELISTS]
        _write_passages(directory / "test.jsonl", test, config.test_passages, words)
        finetune(
            "classification",
            output=directory / "run",
            train=directory / "train.jsonl",
            model=model,
            seed=seed,
            epochs=config.epochs,
            learning_rate=config.learning_rate,
            settings={"optimizer.bias_correction": True, "best_metric": "accuracy"},
            progress=self.progress,
        )
        scores = dict(evaluate(model=directory / "run", data=directory / "test.jsonl"))
        remove_checkpoints(directory / "run")
        file_io.write_json(outcome, scores)


def _read(text: Path) -> Iterator[Document]:
    for shard in plan_input_shards([str(text)], ReadingConfig(text_format="paragraphs")):
        yield from read_documents(shard)


def _as_text(documents: Sequence[Document]) -> str:
    return "\n\n".join("\n".join(document.lines) for document in documents) + "\n"


def _sample(pool: Sequence[Document], size_bytes: int, seed: int) -> list[Document]:
    """Return random documents, as many as the size has room for; of one seed, a smaller sample is part of a larger one.

    Raises:
        InputError: the pool is smaller.
    """
    order = random.Random(seed).sample(range(len(pool)), len(pool))
    sample: list[Document] = []
    size = 0
    for index in order:
        size += len("\n".join(pool[index].lines).encode())
        if size > size_bytes:
            return sample
        sample.append(pool[index])
    raise InputError(f"has {size:,} bytes, fewer than {size_bytes:,}", where="text", remedy="Give more text")


def _write_passages(file: Path, novels: Sequence[tuple[str, Novel]], count: int, min_words: int) -> None:
    """Write up to `count` passages of each novel, evenly spaced, with the author's name."""
    rows = []
    for author, novel in novels:
        passages = [
            p for chapter in read_chapters(novel) for p in split_passages(chapter, min_words=min_words)
        ]
        step = max(1, len(passages) // count)
        rows += [{"text": passage, "label": author} for passage in passages[::step][:count]]
    file_io.write_text(file, "".join(f"{json.dumps(row)}\n" for row in rows))
