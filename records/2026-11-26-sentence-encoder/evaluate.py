"""Score vectors without training on the task: python evaluate.py DATA MODEL...

DATA has STS-B (glue/STS-B/dev.tsv, test.tsv), QQP-sample/dev.tsv with GLUE's columns, and squad/dev-v1.1.json.
"""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score

import cloze

DATA = Path(sys.argv[1])


def columns(file: str, *names: str) -> list[list[str]]:
    """Return columns of a table without quoting."""
    with (DATA / file).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [[row[name] for row in rows] for name in names]


sts = {name: columns(f"glue/STS-B/{name}.tsv", "sentence1", "sentence2", "score") for name in ("dev", "test")}
questions = [column[:5000] for column in columns("QQP-sample/dev.tsv", "question1", "question2", "is_duplicate")]
articles = json.loads((DATA / "squad/dev-v1.1.json").read_text("utf-8"))["data"]
paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
contexts = [paragraph["context"] for paragraph in paragraphs]
asked = [(q["question"], i) for i, paragraph in enumerate(paragraphs) for q in paragraph["qas"]]
asked = [asked[i] for i in np.random.default_rng(0).choice(len(asked), 1000, replace=False)]


def scores(embed: Callable) -> dict[str, float]:
    """Return percents; `embed` takes two lists of texts and returns two matrices with rows of length 1."""
    found = {}
    for name, (one, other, score) in sts.items():
        found[f"STS-B {name}, Spearman"] = spearmanr(cosines(*embed(one, other)), list(map(float, score))).statistic
    one, other, is_duplicate = questions
    found["QQP, area under ROC"] = roc_auc_score(list(map(int, is_duplicate)), cosines(*embed(one, other)))
    of_questions, of_contexts = embed([text for text, _ in asked], contexts)
    similar = of_questions @ of_contexts.T
    similar = similar if isinstance(similar, np.ndarray) else similar.toarray()
    right = similar[np.arange(len(asked)), [i for _, i in asked]]
    rank = (similar > right[:, None]).sum(1)
    found |= {"SQuAD paragraph first": (rank == 0).mean(), "SQuAD paragraph among ten": (rank < 10).mean()}
    return {name: round(100 * float(value), 1) for name, value in found.items()}


def cosines(one, other):
    """Return the products of rows."""
    product = one * other if isinstance(one, np.ndarray) else one.multiply(other)
    return np.asarray(product.sum(1)).ravel()


def tfidf(one: list[str], other: list[str]) -> tuple:
    """Return TF-IDF vectors whose frequencies are those of the texts that are compared."""
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit([*one, *other])
    return vectorizer.transform(one), vectorizer.transform(other)


results = {"TF-IDF": scores(tfidf)}
for model in sys.argv[2:]:
    embedder = cloze.Embedder.load(model, normalize=True, device="cpu")
    results[Path(model).name] = scores(lambda one, other, embed=embedder: (embed(one), embed(other)))
print(json.dumps(results, indent=1))
