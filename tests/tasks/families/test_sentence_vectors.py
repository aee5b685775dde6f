"""Sentence vectors: pooling, the files of sentence-transformers, and a run."""

import json
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch

import cloze
from cloze.choices import Pooling
from cloze.data.batch import collate
from cloze.inference.predictor import Predictor
from cloze.model_paths import follow_link
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model
from cloze.models.pooling import pool
from cloze.models.sentence_transformers import SentenceEncoderConfig, load_sentence_encoder_config
from cloze.tasks.config import with_settings
from cloze.tasks.texts import LabeledText
from cloze.tokenization.loading import load_tokenizer
from helpers import task_of
from runs import finetune

POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
PAIRS = "text\tpair\tscore\n" + "the film was good\tfine\t4\na bad book\tfine , good\t1\n" * 8


def test_pooling_is_over_the_tokens_of_each_text():
    packed = to_device(collate([[1, 2], [3, 4], [5, 6, 7, 8]]))
    hidden = torch.tensor([[1.0], [3], [2], [-4], [0], [4], [8], [-4]])
    expected = {
        "cls": [1, 2, 0],
        "mean": [2, -1, 2],
        "max": [3, 2, 8],
        "mean_sqrt_len": [8**0.5, -(2**0.5), 4],
    }
    for pooling in POOLINGS:
        torch.testing.assert_close(
            pool(hidden, packed, pooling)[:, 0], torch.tensor(expected[pooling]).float()
        )


@pytest.mark.parametrize(("pooling", "normalize"), [*((p, False) for p in POOLINGS), ("mean", True)])
def test_sentence_transformers_gives_the_same_vectors(pooling, normalize, configure, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    (tmp_path / "a.tsv").write_text(PAIRS)
    prompt = "good " if pooling == "cls" else ""
    settings = f"""max_seq_length=16 epochs=6 optimizer.learning_rate=1e-2 scored-pairs.pooling={pooling}
    scored-pairs.normalize={str(normalize).lower()}"""
    task, config = configure("scored-pairs", tmp_path / "a.tsv", settings, dev=tmp_path / "a.tsv")
    scores = finetune(task.with_settings(dict(prompt=prompt)), config, tmp_path / "run")
    assert scores["spearman"] > 0.99
    best = follow_link(tmp_path / "run", "best")
    prompts = {"prompts": {"default": prompt}, "default_prompt_name": "default"} if prompt else {}
    config = SentenceEncoderConfig(pooling=pooling, normalize=normalize, max_seq_length=16, **prompts)
    assert load_sentence_encoder_config(best) == config
    texts = ["the film was very good .", "awful", "very " * 30]
    tokenizer = load_tokenizer(best)
    packed = to_device(collate([tokenizer.encode(prompt + text, max_length=16).input_ids for text in texts]))
    with torch.no_grad():
        ours = pool(load_model(best)(packed).sequence_output, packed, pooling)
    if normalize:
        ours = torch.nn.functional.normalize(ours, dim=-1)
    for path in (tmp_path / "run", tmp_path / "run/best"):
        theirs = library.SentenceTransformer(str(path), device="cpu")
        torch.testing.assert_close(torch.tensor(theirs.encode(texts)), ours, atol=1e-5, rtol=0)
        assert transformers.AutoModel.from_pretrained(path).config.hidden_size == 20
    predictor = Predictor.load(
        best, task="stsb-vectors", device="cpu"
    )  # a task with other data, the same head
    assert predictor.task.answer.pooling == pooling
    (cosine,), _ = predictor.predict([LabeledText(texts[0], texts[1])])
    assert cosine == pytest.approx(torch.cosine_similarity(ours[0], ours[1], dim=0).item(), abs=1e-5)


def test_any_encoder_predicts_with_its_own_pooling(minilm, nano_checkpoint):
    predictor = Predictor.load(minilm, task="stsb-vectors", device="cpu")
    assert (predictor.task.answer.pooling, predictor.task.answer.normalize) == ("mean", True)
    (near, far), _ = predictor.predict(
        [LabeledText("A dog runs.", "A puppy is running."), LabeledText("A dog runs.", "Stocks fell.")]
    )
    assert near > 0.6 > 0.3 > far
    other = with_settings(predictor.task, {"stsb-vectors.pooling": "cls"})
    assert other.answer.pooling == "cls"
    assert Predictor.load(nano_checkpoint, task="stsb-vectors", device="cpu").task.answer.pooling == "mean"


def test_truncated_vectors_have_length_one_in_torch_and_numpy():
    answer, pooled = task_of("scored-pairs", truncate_dim=2).answer, torch.tensor([[3.0, 4, 5], [0, 1, 9]])
    of_torch = torch.cat(answer.vectors(pooled, SimpleNamespace(num_targets=1)))
    of_numpy = np.concatenate(answer.vector_arrays(pooled.numpy(), SimpleNamespace(num_targets=1)))
    assert of_torch.tolist() == of_numpy.tolist() == [pytest.approx([0.6, 0.8]), [0, 1]]


UNSUPPORTED = [
    ("modules.json", [{"type": "a.Dense", "path": "2_Dense"}], "modules.json: the modules Dense"),
    ("modules.json", [{"type": "a.Transformer", "path": ""}], "modules.json: the modules Transformer"),
    ("modules.json", {}, "modules.json: not a JSON list"),
    ("modules.json", [{"path": ""}], "not a list of modules with type and path"),
    ("1_Pooling/config.json", {"pooling_mode": ["cls", "max"]}, "pooling by cls and max"),
    ("1_Pooling/config.json", {"pooling_mode_weightedmean_tokens": True}, "pooling by pooling_mode_w"),
    ("sentence_bert_config.json", {"max_seq_length": "x"}, "max_seq_length 'x' is not a positive"),
]


@pytest.mark.parametrize(("file", "content", "message"), UNSUPPORTED)
def test_unsupported_modules_are_named(file, content, message, tmp_path):
    modules = [{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1_Pooling"}]
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean_sqrt_len_tokens"}')
    assert load_sentence_encoder_config(tmp_path) == SentenceEncoderConfig(
        pooling="mean_sqrt_len", normalize=False, max_seq_length=None
    )
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(cloze.InputError, match=message):
        load_sentence_encoder_config(tmp_path)


@pytest.mark.parametrize(("pooling", "dim"), [("mean", 20), ("max", 20), ("cls", 20), ("mean", 3)])
def test_pooling_and_dimensions_that_a_prediction_asks_for_are_used(pooling, dim, nano_checkpoint, tmp_path):
    pairs = [("a good film", "a bad book"), ("the film was fine .", "awful")]
    (tmp_path / "pairs.tsv").write_text("text\tpair\n" + "".join(f"{a}\t{b}\n" for a, b in pairs))
    settings = {"scored-pairs.pooling": pooling, "scored-pairs.truncate_dim": dim}
    asked = {"model": nano_checkpoint, "settings": settings, "device": "cpu"}
    rows = cloze.predict_file("scored-pairs", tmp_path / "pairs.tsv", **asked)
    embedder = cloze.Embedder.load(nano_checkpoint, pooling=pooling, device="cpu")
    vectors = [torch.tensor(embedder(list(pair))[:, :dim]) for pair in pairs]
    cosines = [torch.cosine_similarity(one, other, dim=0).item() for one, other in vectors]
    assert [row["cosine"] for row in rows] == pytest.approx(cosines, abs=1e-5)
