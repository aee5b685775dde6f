"""Vectors of texts and words: those of sentence-transformers, whatever the batch; layers, poolings, prompts."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import cloze
from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.inference.embedder import Embedder
from cloze.inference.predictor import Predictor
from cloze.models.batch import to_device
from cloze.tasks.texts import LabeledText

TEXTS = [
    "He sat down on the bank of the river and watched the boats.",
    "A dog runs.",
    "",
    "The bank lent him money.",
    "Unbelievable tokenizations [MASK] half \ud83d of a pair, 日本",
    "word " * 300,
]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def embedder(minilm: Path) -> Embedder:
    return Embedder.load(minilm, device="cpu")


def load(minilm: Path, **settings: object) -> Embedder:
    return Embedder.load(minilm, device="cpu", **settings)


def with_prompts(minilm: Path, directory: Path, **pooling: object) -> Path:
    """The same model, by links, with prompts beside it."""
    directory.mkdir()
    for file in minilm.iterdir():
        (directory / file.name).symlink_to(file)
    (directory / "config_sentence_transformers.json").unlink()
    prompts = {"query": "query: ", "passage": "", "long": "What follows is text: "}
    table = {"prompts": prompts, "default_prompt_name": "query"}
    (directory / "config_sentence_transformers.json").write_text(json.dumps(table))
    (directory / "1_Pooling").unlink()
    shutil.copytree(minilm / "1_Pooling", directory / "1_Pooling")
    file = directory / "1_Pooling" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | pooling))
    return directory


@pytest.mark.protected
@pytest.mark.slow
def test_sentence_transformers_gives_the_same_vectors(embedder, minilm, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    texts = [text.replace("\ud83d", "") for text in TEXTS]
    theirs = library.SentenceTransformer(str(minilm), device="cpu")
    np.testing.assert_allclose(embedder(texts), theirs.encode(texts), atol=1e-6)
    directory = with_prompts(minilm, tmp_path / "prompted")
    theirs = library.SentenceTransformer(str(directory), device="cpu")
    for name in (None, "passage", "long"):
        ours = load(directory, prompt=name)
        expected = theirs.encode(texts[:2]) if name is None else theirs.encode(texts[:2], prompt_name=name)
        np.testing.assert_allclose(ours(texts[:2]), expected, atol=1e-6)


@pytest.mark.exhaustive
def test_max_seq_length_of_sentence_transformers_6_is_the_tokenizers(minilm, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(minilm), device="cpu")
    theirs.max_seq_length = 8
    theirs.save(str(tmp_path / "theirs"))
    cloze.import_model(tmp_path / "theirs", output=tmp_path / "ours")
    text = "It was the best of times, it was the worst of times, it was the age of wisdom."
    for directory in (tmp_path / "theirs", tmp_path / "ours"):
        vectors = load(directory).embed([text])
        assert vectors.num_truncated == 1
        np.testing.assert_allclose(vectors.vectors, theirs.encode([text]), atol=1e-6)
    again = library.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    assert again.max_seq_length == 8


@pytest.mark.parametrize("settings", [{}, {"layers": (-2, 1), "combine": "concat"}], ids=str)
@pytest.mark.slow
def test_vectors_do_not_depend_on_the_batch(settings, minilm):
    embedder = load(minilm, **settings)
    together = embedder(TEXTS)
    assert together.dtype == np.float32
    assert together.shape == (len(TEXTS), embedder.width)
    alone = np.concatenate([embedder([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(embedder(TEXTS[::-1])[::-1], together, atol=1e-5)
    assert embedder([]).shape == (0, embedder.width)


@pytest.mark.protected
@pytest.mark.slow
def test_layers_are_those_of_transformers(minilm):
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModel.from_pretrained(minilm).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        hidden = model(**inputs, output_hidden_states=True).hidden_states
    rows = model.embeddings.word_embeddings.weight[inputs["input_ids"][0]].detach()
    expected = {
        ((-1,), "sum"): hidden[6][0].mean(0),
        ((-2,), "sum"): hidden[5][0].mean(0),
        ((3, 4, 5, 6), "sum"): sum(hidden[3:7])[0].mean(0),
        ((-4, -3, -2, -1), "concat"): torch.cat(hidden[3:7], -1)[0].mean(0),
        ((0,), "sum"): rows.mean(0),
        ((0, 1), "concat"): torch.cat([rows, hidden[1][0]], -1).mean(0),
    }
    for (layers, combine), vector in expected.items():
        ours = load(minilm, layers=layers, combine=combine, normalize=False)
        np.testing.assert_allclose(ours([TEXTS[0]])[0], vector.numpy(), atol=1e-5)


def test_words_are_the_means_of_their_tokens(minilm, embedder):
    pieces = load(minilm, normalize=False)
    text = "Unbelievable tokenizations, 日本!"
    (found,) = pieces.words([text])
    assert [word.text for word in found.words] == ["Unbelievable", "tokenizations", ",", "日", "本", "!"]
    assert all(text[word.start : word.end] == word.text for word in found.words)
    encoding = embedder.tokenizer.encode(text)
    assert len(encoding) - 2 > len(found.words)
    hidden = pieces.encoder(to_device(collate([encoding.input_ids]))).sequence_output
    second = [i for i, (start, end) in enumerate(encoding.offsets) if 13 <= start < end <= 26]
    assert len(second) > 1
    np.testing.assert_allclose(found.vectors[1], hidden[second].mean(0).detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(found.vectors[-1], hidden[-2].detach().numpy(), atol=1e-5)
    lengths = np.linalg.norm(embedder.words([text])[0].vectors, axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


def test_words_of_long_empty_and_prompted_texts(minilm, tmp_path):
    empty, long = load(minilm, max_seq_length=10).words(["", "word " * 30])
    assert (len(empty.words), empty.vectors.shape, empty.is_truncated) == (0, (0, 384), False)
    assert (len(long.words), long.is_truncated) == (8, True)
    prompted = load(with_prompts(minilm, tmp_path / "prompted"))
    assert [word.text for word in prompted.words(["A dog"])[0].words] == ["A", "dog"]


def test_bfloat16_is_close_to_float32(minilm, embedder):
    near = load(minilm, precision="bfloat16")(TEXTS[:4])
    assert (near * embedder(TEXTS[:4])).sum(1).min() > 0.999


@pytest.mark.protected
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"layers": (7,)}, "layers: no layer 7: there are 1 to 6, and -1 to -6"),
        ({"layers": (-7,)}, "layers: no layer -7"),
        ({"layers": (6, -1)}, "layers: a layer is repeated"),
        ({"layers": ()}, "layers: no layer is given"),
        ({"max_seq_length": 513}, "max_seq_length: 513 is not in 3..512"),
        ({"max_seq_length": 2}, "max_seq_length: 2 is not in"),
        ({"prompt": "query"}, "no prompt 'query'. The directory has none"),
    ],
    ids=str,
)
def test_invalid_settings_are_refused(settings, says, minilm):
    with pytest.raises(InputError, match=says):
        load(minilm, **settings)


@pytest.mark.slow
def test_vector_tasks_prepend_the_prompt(minilm, tmp_path):
    directory = with_prompts(minilm, tmp_path / "prompted")
    texts = ["A dog runs.", "Stocks fell."]
    for given in (directory, minilm):
        predictor = Predictor.load(given, task="stsb-vectors", device="cpu")
        [cosine], _ = predictor.predict([LabeledText(*texts)])
        first, second = load(given)(texts)
        assert cosine == pytest.approx(first @ second, abs=1e-5)


def test_prompts_excluded_from_pooling_are_refused(minilm, tmp_path):
    directory = with_prompts(minilm, tmp_path / "prompted", include_prompt=False)
    with pytest.raises(InputError, match="include_prompt is false"):
        Predictor.load(directory, task="stsb-vectors", device="cpu")
    with pytest.raises(InputError, match="include_prompt is false"):
        load(directory)
    assert load(directory, prompt="passage").prompt == ""
    (directory / "config_sentence_transformers.json").write_text('{"prompts": {"a": 3}}')
    with pytest.raises(InputError, match="prompts is not a table of texts"):
        load(directory)
    (directory / "config_sentence_transformers.json").write_text('{"default_prompt_name": "b"}')
    with pytest.raises(InputError, match="default_prompt_name 'b' is not one of the prompts"):
        load(directory)
