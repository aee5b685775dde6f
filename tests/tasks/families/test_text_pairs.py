"""Text pairs: in-batch negatives, retrieval metrics, and settings from the checkpoint."""

import json

import numpy as np
import pytest
import torch

from cloze.data.batch import DataPosition
from cloze.errors import InputError
from cloze.finetuning.objective import FinetuningBatches
from cloze.inference.predictor import Predictor
from cloze.model_paths import follow_link
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model
from cloze.models.sentence_transformers import load_sentence_encoder_config
from cloze.tasks.answers.vectors import PairVectors
from cloze.tasks.texts import LabeledText
from cloze.training.distributed import DistributedContext
from helpers import task_of
from runs import finetune, prepare

PAIRS = "text\tpair\n" + "a good film\tfine\na bad book\tawful\nthe book\tthe film\nvery , very\t.\n" * 4


def pair(first, second):
    return LabeledText(first, second)


@pytest.mark.parametrize(
    ("examples", "compared"),
    [
        (
            [pair("good", "film"), pair("bad", "book"), pair("fine", "FILM"), pair("good", "a")],
            ([0, 1], [0, 1, 2, 3], [1, 2, 3], [1, 3]),
        ),
        (
            [
                LabeledText("good", "film", negatives=("book",)),
                LabeledText("bad", "awful", negatives=("FILM",)),
                pair("good", "a"),
            ],
            ([0, 1, 3], [0, 1, 2, 3, 4], [1, 2, 3]),
        ),
    ],
    ids=["second texts", "hard negatives"],
)
def test_right_texts_of_a_first_text_are_no_negatives(examples, compared, build_encoder, tokenizer):
    task = task_of("text-pairs")
    features = [task.answer.features(example, tokenizer, max_seq_length=9)[0] for example in examples]
    batch = to_device(task.answer.batch(features))
    assert batch.num_targets == len(examples)
    hidden = task.answer.head(build_encoder().eval())(batch)
    first, others = task.answer.vectors(hidden, batch)
    scores = 20 * first @ others.T
    expected = sum(
        torch.logsumexp(scores[row, columns], 0) - scores[row, row] for row, columns in enumerate(compared)
    )
    torch.testing.assert_close(task.answer.loss(hidden, batch)[0], expected)


def test_hard_negatives_are_those_of_sentence_transformers(build_encoder, tokenizer, tmp_path):
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    (tmp_path / "a.jsonl").write_text(
        '{"anchor": "good", "positive": "film", "negative": "the book"}\n'
        '{"anchor": "bad", "positive": "book", "negative": "fine"}\n'
        '{"anchor": "a film", "positive": "very", "negative": "awful"}\n'
    )
    task = task_of("text-pairs")
    examples = list(task.examples(tmp_path / "a.jsonl"))
    arrays = task.answer.batch(
        [task.answer.features(example, tokenizer, max_seq_length=9)[0] for example in examples]
    )
    batch = to_device(arrays)
    assert batch.num_targets == 3
    pooled = task.answer.head(build_encoder().eval())(batch)
    first, others = task.answer.vectors(pooled, batch)
    theirs = losses.MultipleNegativesRankingLoss(model=torch.nn.Identity())
    expected = theirs.compute_loss_from_embeddings([first, others[:3], others[3:]], None)
    torch.testing.assert_close(task.answer.loss(pooled, batch)[0] / 3, expected)
    vectors = task.answer.outputs(pooled.detach().numpy(), arrays)
    assert len(vectors) == 3
    np.testing.assert_allclose(vectors[2][1], others[2].detach().numpy(), rtol=1e-6)


def test_negatives_are_counted_and_batched(tokenizer):
    answer = task_of("text-pairs").answer
    examples = [LabeledText("good", "film", negatives=("awful", "fine")), pair("bad", "book")]
    assert list(answer.notes(examples, [], None)) == ["1 of 2 training examples have a hard negative"]
    features = [answer.features(example, tokenizer, max_seq_length=9)[0] for example in examples]
    assert answer.batch(features).targets.shape == (2, 4)


def test_ranks_count_equal_cosines_as_better():
    axes = np.eye(3, dtype=np.float32)
    examples = [pair("a", "x"), pair("b", "y"), pair("c", "x"), pair("d", "z")]
    predictions = [
        PairVectors(axes[0], axes[0]),  # first of three
        PairVectors(np.array([0.8, 0.6, 0], np.float32), axes[1]),  # second
        PairVectors(axes[0], axes[0]),  # an equal second text is one candidate
        PairVectors(np.full(3, 3**-0.5, np.float32), axes[2]),  # all cosines are equal: third
    ]
    scores = task_of("text-pairs").score(examples, predictions)
    assert scores == {"mrr": pytest.approx((1 + 1 / 2 + 1 + 1 / 3) / 4), "accuracy@1": 0.5, "candidates": 3}
    again = [*examples, pair("b", "x")]
    also = [*predictions, PairVectors(np.array([0.8, 0.6, 0], np.float32), axes[0])]
    # x, the nearest to b, is also right for b, so that y is before all wrong texts
    assert task_of("text-pairs").score(again, also)["mrr"] == pytest.approx((1 + 1 + 1 + 1 / 3 + 1) / 5)
    alike = [PairVectors(axes[0], axes[0])] * 4
    assert task_of("text-pairs").score(examples, alike)["accuracy@1"] == 0
    assert task_of("text-pairs").collapse(examples, alike) == "one vector only"


def test_all_pairs_of_a_step_are_one_batch(configure, tmp_path):
    (tmp_path / "a.tsv").write_text(PAIRS)
    data = tmp_path / "a.tsv"
    task, config = configure("text-pairs", data, "max_seq_length=16 batch_size=12", dev=data)
    context = DistributedContext(torch.device("cpu"))
    batches = FinetuningBatches(prepare(task, config, context))
    sizes = [
        [batch.num_targets for batch in batches.step_data(0, DataPosition(0, 0, start), 16).batches]
        for start in (0, 12)
    ]
    assert sizes == [[12], [4]]


@pytest.mark.parametrize("setting", ["batch_size=1", "grid.batch_sizes=[8,1]"])
def test_batch_of_one_is_refused(configure, tmp_path, setting):
    task, config = configure("text-pairs", tmp_path, setting, dev=tmp_path)
    with pytest.raises(InputError, match="text-pairs: a batch of 1 holds nothing to compare"):
        prepare(task, config)


@pytest.mark.slow
def test_pooling_and_length_are_read_from_the_checkpoint(configure, nano_checkpoint, tmp_path):
    data = tmp_path / "a.tsv"
    data.write_text(PAIRS)

    def run(start, name, *more):
        settings = " ".join(["batch_size=8 epochs=12 optimizer.learning_rate=1e-2", *more])
        scores = finetune(*configure("text-pairs", data, settings, dev=data, model=start), tmp_path / name)
        assert scores["mrr"] == 1
        assert scores["candidates"] == 4
        return follow_link(tmp_path / name, "best")

    poolings = []
    first = run(
        nano_checkpoint, "a", "text-pairs.pooling=max", "text-pairs.normalize=true", "max_seq_length=17"
    )
    for checkpoint in (
        first,
        run(first, "b", "max_seq_length=16", "epochs=1"),
        run(first, "c", "max_seq_length=16", "text-pairs.pooling=cls"),
    ):
        config = load_sentence_encoder_config(checkpoint)
        assert config is not None
        poolings.append((config.pooling, config.normalize))
    assert poolings == [("max", True), ("max", True), ("cls", True)]
    (first / "task.toml").unlink()  # as if sentence-transformers had written it
    (first / "manifest.json").unlink()
    assert Predictor.load(first, task="stsb-vectors", device="cpu").max_seq_length == 17
    (first / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 512}))
    assert Predictor.load(first, task="stsb-vectors", device="cpu").max_seq_length == 40
    assert load_model(first).config.hidden_size == 20
