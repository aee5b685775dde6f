"""Vectors of texts: pooling, what sentence-transformers writes and reads, and a run from end to end."""

import json
from pathlib import Path
from typing import get_args

import pytest
import torch

from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.locate import follow
from cloze.model.checkpoint import load_model
from cloze.model.packed import Packed
from cloze.model.pooling import Pooling, pool
from cloze.model.sentence_transformers import VectorSettings, read_sentence_transformer
from cloze.tasks.config import load_finetuning, with_settings
from cloze.tasks.finetune import finetune
from cloze.tasks.texts import LabelledText
from cloze.text.tokenizer import Tokenizer

POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
PAIRS = "text\tpair\tscore\n" + "the film was good\tfine\t4\na bad book\tfine , good\t1\n" * 8


def test_pooling_takes_the_tokens_of_each_text() -> None:
    packed = Packed.from_sequences([[1, 2], [3, 4], [5, 6, 7, 8]])
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
def test_sentence_transformers_gives_the_same_vectors(
    pooling: Pooling, normalize: bool, nano_checkpoint: Path, tmp_path: Path
) -> None:
    library = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    (tmp_path / "a.tsv").write_text(PAIRS)
    prompt = "good " if pooling == "cls" else ""
    settings = [
        f'scored-pairs.prompt="{prompt}"',
        f"model={nano_checkpoint}",
        f"train={tmp_path / 'a.tsv'}",
        f"dev={tmp_path / 'a.tsv'}",
        "max_seq_length=16",
        "epochs=6",
        "optimizer.learning_rate=1e-2",
        "device=cpu",
        f"scored-pairs.pooling={pooling}",
        f"scored-pairs.normalize={str(normalize).lower()}",
    ]
    task, config = load_finetuning("scored-pairs", None, settings)
    scores = finetune(task, config, tmp_path / "run")
    assert scores["spearman"] > 0.99
    best = follow(tmp_path / "run", "best")
    prompts = {"prompts": {"default": prompt}, "default_prompt_name": "default"} if prompt else {}
    found = VectorSettings(pooling=pooling, normalize=normalize, max_seq_length=16, **prompts)
    assert read_sentence_transformer(best) == found
    texts = ["the film was very good .", "awful", "very " * 30]
    theirs = library.SentenceTransformer(str(best), device="cpu")
    tokenizer = Tokenizer.load(best)
    packed = Packed.from_sequences(
        [tokenizer.encode(prompt + text, max_length=16).input_ids for text in texts]
    )
    with torch.no_grad():
        ours = pool(load_model(best).forward_packed(packed).sequence_output, packed, pooling)
    if normalize:
        ours = torch.nn.functional.normalize(ours, dim=-1)
    torch.testing.assert_close(torch.tensor(theirs.encode(texts)), ours, atol=1e-5, rtol=0)
    assert transformers.AutoModel.from_pretrained(best).config.hidden_size == 20
    predictor = Predictor.load(best, "stsb-vectors", device="cpu")  # a task with other data, the same head
    assert predictor.task.pooling == pooling
    (cosine,), _ = predictor.predict([LabelledText(texts[0], texts[1])])
    assert cosine == pytest.approx(torch.cosine_similarity(ours[0], ours[1], dim=0).item(), abs=1e-5)


def test_any_encoder_answers_and_says_its_own_pooling(minilm: Path, nano_checkpoint: Path) -> None:
    predictor = Predictor.load(minilm, "stsb-vectors", device="cpu")
    assert (predictor.task.pooling, predictor.task.normalize) == ("mean", True)
    (near, far), _ = predictor.predict(
        [LabelledText("A dog runs.", "A puppy is running."), LabelledText("A dog runs.", "Stocks fell.")]
    )
    assert near > 0.6 > 0.3 > far
    other = with_settings(predictor.task, ["stsb-vectors.pooling=cls"])
    assert other.pooling == "cls"
    assert Predictor.load(nano_checkpoint, "stsb-vectors", device="cpu").task.pooling == "mean"


BAD = {
    "a layer more": (
        "modules.json",
        [{"type": "a.Dense", "path": "2_Dense"}],
        "modules.json: a module 'Dense'",
    ),
    "no pooling": (
        "modules.json",
        [{"type": "a.Transformer", "path": ""}],
        "modules.json: no module Pooling",
    ),
    "no list": ("modules.json", {}, "modules.json: not a JSON list"),
    "no types": ("modules.json", [{"path": ""}], "not a list of modules with type and path"),
    "two poolings": ("1_Pooling/config.json", {"pooling_mode": ["cls", "max"]}, "pooling by cls and max"),
    "weighted": (
        "1_Pooling/config.json",
        {"pooling_mode_weightedmean_tokens": True},
        "pooling by pooling_mode_w",
    ),
    "no length": (
        "sentence_bert_config.json",
        {"max_seq_length": "x"},
        "max_seq_length 'x' is not a positive",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cloze_has_not_is_named(name: str, tmp_path: Path) -> None:
    modules = [{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1_Pooling"}]
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean_sqrt_len_tokens"}')
    found = read_sentence_transformer(tmp_path)
    assert found == VectorSettings(pooling="mean_sqrt_len", normalize=False, max_seq_length=None)
    file, content, says = BAD[name]
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(InputError, match=says):
        read_sentence_transformer(tmp_path)
