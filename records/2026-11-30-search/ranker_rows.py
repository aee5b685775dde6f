# ruff: noqa
"""Rows for a ranker: questions of SQuAD's train set, with their paragraph, one of BM25's best and one of an encoder's."""

import json
import lzma
import os
import random
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import cloze

rng = random.Random(1)
data = Path(os.environ["CLOZE_SHARED"], "data/squad/train-v1.1.json.xz")
articles = json.loads(lzma.open(data).read())["data"]
rng.shuffle(articles)
texts, questions = [], []
for article in articles[:50]:
    for paragraph in article["paragraphs"]:
        questions += [(q["question"].strip(), len(texts)) for q in paragraph["qas"]]
        texts.append(re.sub(r"\s+", " ", paragraph["context"]).strip())
rng.shuffle(questions)
questions = questions[:1500]

counts = [Counter(re.findall(r"\w+", text.lower())) for text in texts]
frequency = Counter(word for count in counts for word in count)
lengths = np.array([count.total() for count in counts])
scale = 1.5 * (0.25 + 0.75 * lengths / lengths.mean())
columns = {}
for i, count in enumerate(counts):
    for word, n in count.items():
        columns.setdefault(word, []).append((i, n))


def bm25(question):
    scores = np.zeros(len(texts))
    for word in re.findall(r"\w+", question.lower()):
        weight = np.log(1 + (len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
        for i, n in columns.get(word, []):
            scores[i] += weight * n * 2.5 / (n + scale[i])
    return np.argsort(-scores, kind="stable")[:20].tolist()


embedder = cloze.Embedder.load("cloze-mini-sentences", device="cpu", normalize=True)
vectors, asked = embedder.embed(texts).vectors, embedder.embed([q for q, _ in questions]).vectors
choice, groups = random.Random(2), []
for (question, gold), vector in zip(questions, asked):
    chosen = []
    for ranked in (bm25(question), np.argsort(-(vectors @ vector))[:20].tolist()):
        chosen += rng.sample([i for i in ranked if i != gold and i not in chosen], 2)
    groups.append((question, gold, chosen))
with open(sys.argv[1], "w") as file:
    for question, gold, chosen in groups:
        negatives = [chosen[choice.randrange(2)], chosen[2 + choice.randrange(2)]]
        for i in (gold, *negatives):
            row = {"query": question, "passage": texts[i], "label": int(i == gold)}
            file.write(json.dumps(row) + "\n")
