"""Clients of text-embeddings-inference and OpenAI, against a server in its own process."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from server_process import ServerProcess

from cloze.inference.embedder import Embedder

pytestmark = [
    pytest.mark.protected,
    pytest.mark.slow,
    # of the clients themselves, on import
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

TEXTS = ["a b", "c, d ef?", "g h i j"]


@pytest.fixture(scope="module")
def url(served: ServerProcess) -> str:
    return served.url


@pytest.fixture(scope="module")
def vectors(directories: Mapping[str, Path]) -> Any:
    """The vectors of length 1 that every client must get."""
    vectors = Embedder.load(directories["bert"], device="cpu")(TEXTS)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("argument", ["model", "base_url"])
def test_hugging_faces_inference_client(hugging_face, url, vectors, argument):
    client = hugging_face.InferenceClient(**{argument: f"{url}/embed"}, token="none")
    close(client.feature_extraction(TEXTS[0]), vectors[:1])
    close(client.feature_extraction(TEXTS), vectors)
    found = client.feature_extraction(TEXTS, normalize=True, truncate=True, truncation_direction="left")
    close(found, vectors)
    assert client.feature_extraction(TEXTS, dimensions=4).shape == (3, 4)
    similarity = hugging_face.InferenceClient(f"{url}/similarity", token="none")
    close(similarity.sentence_similarity(TEXTS[0], other_sentences=TEXTS[1:]), vectors[1:] @ vectors[0])


def test_hugging_faces_text_classification(hugging_face, address):
    client = hugging_face.InferenceClient(f"{address}/predict", token="none")
    labels = client.text_classification("a b")
    assert sorted(element.label for element in labels) == ["bad", "good", "so-so"]
    assert sum(element.score for element in labels) == pytest.approx(1)
    (best,) = client.text_classification("a b", top_k=1)
    assert best == labels[0]
    sigmoids = client.text_classification("a b", function_to_apply="sigmoid")
    assert sum(element.score for element in sigmoids) != pytest.approx(1)


def test_openais_client(url, vectors):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        for model in ("bert", "text-embeddings-inference"):
            close([row.embedding for row in client.embeddings.create(model=model, input=TEXTS).data], vectors)
        as_numbers = client.embeddings.create(model="bert", input=TEXTS, encoding_format="float")
        close([row.embedding for row in as_numbers.data], vectors)
        with pytest.raises(openai.NotFoundError) as refused:
            client.embeddings.create(model="gpt", input="a")
        assert "no model 'gpt' is served" in str(refused.value)
        assert (refused.value.type, refused.value.code) == ("invalid_request_error", "model_not_found")
        assert refused.value.request_id
        assert as_numbers._request_id != refused.value.request_id
        (model,) = client.models.list()
        assert client.models.retrieve(model.id) == model
        with pytest.raises(openai.NotFoundError, match="no model 'gpt' is served"):
            client.models.retrieve("gpt")


def langchain_openai(_: Any, url: str) -> Any:
    openai = pytest.importorskip("langchain_openai")
    # otherwise it sends ids of tiktoken's vocabulary, which are not those of the model
    own: dict[str, Any] = {"check_embedding_ctx_length": False}
    return openai.OpenAIEmbeddings(model="bert", base_url=f"{url}/v1", api_key="none", **own)


def langchain_endpoint(hub: Any, url: str) -> Any:
    hugging_face = pytest.importorskip("langchain_huggingface")
    embeddings = hugging_face.HuggingFaceEndpointEmbeddings(model="bert", huggingfacehub_api_token="none")
    # since 1.0 `model` must not be an address
    embeddings.client = hub.InferenceClient(f"{url}/embed", token="none")
    return embeddings


def llama_index_tei(_: Any, url: str) -> Any:
    llama_index = pytest.importorskip("llama_index.embeddings.text_embeddings_inference")
    return llama_index.TextEmbeddingsInference(model_name="bert", base_url=url)


def llama_index_openai(_: Any, url: str) -> Any:
    llama_index = pytest.importorskip("llama_index.embeddings.openai")
    return llama_index.OpenAIEmbedding(model_name="bert", api_base=f"{url}/v1", api_key="none")


LANGCHAIN, LLAMA_INDEX = (
    ("embed_documents", "embed_query"),
    ("get_text_embedding_batch", "get_query_embedding"),
)


@pytest.mark.parametrize(
    ("client", "methods"),
    [
        (langchain_openai, LANGCHAIN),
        (langchain_endpoint, LANGCHAIN),
        (llama_index_tei, LLAMA_INDEX),
        (llama_index_openai, LLAMA_INDEX),
    ],
)
def test_clients_of_libraries(hugging_face, url, vectors, client, methods):
    of_many, of_one = (getattr(client(hugging_face, url), method) for method in methods)
    close(of_many(TEXTS), vectors)
    close(of_one(TEXTS[0]), vectors[0])


def test_coheres_embed(url, vectors):
    cohere = pytest.importorskip("cohere")
    with cohere.ClientV2("key", base_url=url) as client:
        embed = partial(client.embed, model="bert", input_type="search_query", embedding_types=["float"])
        found = embed(texts=TEXTS)
        close(found.embeddings.float_, vectors)
        assert found.meta.billed_units.input_tokens == 18  # 4, 8 and 6 with [CLS] and [SEP]
        assert len(embed(texts=["a"], output_dimension=4).embeddings.float_[0]) == 4
