"""Pairs alone: what is a negative, what the scores count, and what a run takes over from where it starts."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.locate import follow
from cloze.model.bert import BertModel
from cloze.model.checkpoint import load_model
from cloze.model.sentence_transformers import read_sentence_transformer
from cloze.progress import SILENT
from cloze.tasks.config import load_finetuning
from cloze.tasks.finetune import finetune
from cloze.tasks.run import prepare
from cloze.tasks.text_pairs import PairVectors, TextPairs
from cloze.tasks.texts import LabelledText
from cloze.tasks.work import FinetuningWork
from cloze.text.tokenizer import Tokenizer
from cloze.training.checkpoints import Position
from cloze.training.distribution import World

PAIRS = "text\tpair\n" + "a good film\tfine\na bad book\tawful\nthe book\tthe film\nvery , very\t.\n" * 4


def pair(first: str, second: str) -> LabelledText:
    return LabelledText(first, second)


def test_negatives_are_the_second_texts_that_are_right_in_no_row_for_the_first(
    build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    task = TextPairs()
    examples = [pair("good", "film"), pair("bad", "book"), pair("fine", "FILM"), pair("good", "a")]
    batch = task.batch([task.features(each, tokenizer, max_seq_length=9)[0] for each in examples])
    assert batch.num_targets == 4
    hidden = task.head(build_encoder().eval())(batch.packed)
    first, second = task.vectors(hidden, batch)
    scores = 20 * first @ second.T
    expected = sum(
        torch.logsumexp(scores[row, columns], 0) - scores[row, row]
        for row, columns in enumerate(([0, 1], [0, 1, 2, 3], [1, 2, 3], [1, 3]))
    )
    torch.testing.assert_close(task.loss(hidden, batch)[0], expected)


def test_scores_count_what_stands_before_the_right_text_and_ties_are_lost() -> None:
    axes = np.eye(3, dtype=np.float32)
    examples = [pair("a", "x"), pair("b", "y"), pair("c", "x"), pair("d", "z")]
    predictions = [
        PairVectors(axes[0], axes[0]),  # first of three
        PairVectors(np.array([0.8, 0.6, 0], np.float32), axes[1]),  # second
        PairVectors(axes[0], axes[0]),  # the same second text stands once among the candidates
        PairVectors(np.full(3, 3**-0.5, np.float32), axes[2]),  # as near as all others: third
    ]
    scores = TextPairs().score(examples, predictions)
    assert scores == {
        "mrr": pytest.approx((1 + 1 / 2 + 1 + 1 / 3) / 4),
        "accuracy@1": 0.5,
        "candidates": 3,
    }
    again = [*examples, pair("b", "x")]
    also = [*predictions, PairVectors(np.array([0.8, 0.6, 0], np.float32), axes[0])]
    # x, which is nearest to b, is right for it, too: y then stands before all that is wrong
    assert TextPairs().score(again, also)["mrr"] == pytest.approx((1 + 1 + 1 + 1 / 3 + 1) / 5)
    alike = [PairVectors(axes[0], axes[0])] * 4
    assert TextPairs().score(examples, alike)["accuracy@1"] == 0
    assert TextPairs().collapse(examples, alike) == "one vector only"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["[[1, 0], [0, 1]]", "[[1, 0, 0], [0, 1, 0]]"], "out: vectors of 2 numbers and of 3"),
        (["[[1, 0], [0, 1]]", "[[1, 0], [0]]"], "out:2: .* not two lists of as many numbers"),
        (["[[1, 0], [0, 1]]", "[1, 0]"], "out:2: .* not two lists of as many numbers"),
        (["[[1, 0], [0, 1]]", "[[1, NaN], [0, 1]]"], "out:2: .* not two lists of as many numbers"),
    ],
)
def test_vectors_that_cannot_be_compared(tmp_path: Path, lines: list[str], says: str) -> None:
    (tmp_path / "out").write_text("".join(f'{{"vectors": {line}}}\n' for line in lines))
    with pytest.raises(InputError, match=says):
        TextPairs().predictions(tmp_path / "out", [pair("a", "x"), pair("b", "y")])


def test_all_pairs_of_a_step_go_through_the_model_together(nano_checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(PAIRS)
    settings = [
        f"model={nano_checkpoint}",
        f"train={tmp_path / 'a.tsv'}",
        f"dev={tmp_path / 'a.tsv'}",
        "max_seq_length=16",
        "batch_size=12",
    ]
    task, config = load_finetuning("text-pairs", None, settings)
    world = World(torch.device("cpu"))
    prepared = prepare(task, config, nano_checkpoint, world, SILENT)
    work = FinetuningWork(task=prepared.task, data=prepared.data, config=config, world=world)
    sizes = [
        [batch.num_targets for batch in work.step_data(0, Position(0, 0, start), 16).batches]
        for start in (0, 12)
    ]
    assert sizes == [[12], [4]]


def test_a_batch_of_one_is_refused(nano_checkpoint: Path, tmp_path: Path) -> None:
    settings = [f"model={nano_checkpoint}", f"train={tmp_path}", f"dev={tmp_path}", "batch_size=1"]
    task, config = load_finetuning("text-pairs", None, settings)
    with pytest.raises(InputError, match="text-pairs: a batch of 1 holds nothing to compare"):
        prepare(task, config, nano_checkpoint, World(torch.device("cpu")), SILENT)


def test_a_run_takes_over_pooling_and_prediction_the_length(nano_checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(PAIRS)

    def run(start: Path, name: str, *more: str) -> Path:
        settings = [
            f"model={start}",
            f"train={tmp_path / 'a.tsv'}",
            f"dev={tmp_path / 'a.tsv'}",
            "batch_size=8",
            "epochs=12",
            "optimizer.learning_rate=1e-2",
            "device=cpu",
            *more,
        ]
        scores = finetune(*load_finetuning("text-pairs", None, settings), tmp_path / name)
        assert scores["mrr"] == 1
        assert scores["candidates"] == 4
        return follow(tmp_path / name, "best")

    poolings = []
    first = run(
        nano_checkpoint, "a", "text-pairs.pooling=max", "text-pairs.normalize=true", "max_seq_length=17"
    )
    for each in (
        first,
        run(first, "b", "max_seq_length=16", "epochs=1"),
        run(first, "c", "max_seq_length=16", "text-pairs.pooling=cls"),
    ):
        found = read_sentence_transformer(each)
        assert found is not None
        poolings.append((found.pooling, found.normalize))
    assert poolings == [("max", True), ("max", True), ("cls", True)]
    (first / "task.toml").unlink()  # as if sentence-transformers had written it
    (first / "manifest.json").unlink()
    assert Predictor.load(first, "stsb-vectors", device="cpu").max_seq_length == 17
    (first / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 512}))
    assert Predictor.load(first, "stsb-vectors", device="cpu").max_seq_length == 40
    assert load_model(first).config.hidden_size == 20
