"""/search: passages of the server's documents, as in Python."""

from typing import Any

import pytest
import torch
from clients import client_of

import cloze
from cloze.inference.embedder import Embedder
from cloze.inference.search import PassageIndex
from cloze.models.bert import BertModel
from cloze.progress import SILENT
from cloze.serving.limits import Limits
from cloze.serving.served_model import index_documents, load_models
from helpers import task_of
from tiny_models import SPECIAL, tiny_config, write_checkpoint, write_finetuned

TOKENS = (*SPECIAL, *"abcdef")


def test_search_answers_as_python_does(tmp_path):
    encoder = BertModel(tiny_config(TOKENS), generator=torch.Generator().manual_seed(2))
    paths = {
        "vectors": write_checkpoint(tmp_path / "vectors", encoder, TOKENS),
        "sentences": tmp_path / "sentences",
        "ranker": write_finetuned(tmp_path / "ranker", task_of("ranking"), TOKENS),
    }
    Embedder.load(paths["vectors"], device="cpu", pooling="cls").save(paths["sentences"])
    file = tmp_path / "documents.txt"
    file.write_text("a b c\n\nd e f\n\nc c\nb\n\nf a\n")
    models = load_models(paths, device="cpu")
    index = PassageIndex.open(Embedder.load(paths["sentences"], device="cpu"), file)
    rankers = {False: None, True: cloze.TextRanker.load(paths["ranker"], device="cpu")}
    limits = Limits(max_batch_texts=1)  # of the texts in a request, not of the passages
    with client_of(index_documents(models, file, SILENT), limits) as client:
        for rerank, ranker in rankers.items():
            hits: list[Any] = client.ask("/search", query="a b", top_k=3, rerank=rerank)
            expected = index.search("a b", top_k=3, ranker=ranker)
            assert [(hit["file"], hit["line"], hit["text"]) for hit in hits] == [
                (hit.file, hit.line, hit.text) for hit in expected
            ]
            assert [hit["score"] for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-5)
    with client_of(models) as client:
        assert "no served model answers /search. Serve documents: --search DOCS" in client.refusal(
            "/search", query="a"
        )
    with client_of(index_documents({"vectors": models["vectors"]}, file, SILENT)) as client:
        assert "no ranker is served" in client.refusal("/search", query="a", rerank=True)
