"""Unlabeled pairs of sentences: neighbors in a paragraph, and the nearest by counted words: python pairs.py PRETRAIN OUT.tsv"""

import lzma
import random
import re
import sys
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from cloze.tokenization.sentences import split_sentences

PAIRS = {"enwiki2015": 42000, "enwikinews": 12000, "simplewiki_sample": 3000, "novels100": 9000}
WORDS = range(4, 31)
ROWS = 1000

chance = random.Random(0)


def good(sentence):
    return len(sentence.split()) in WORDS and re.search("[a-z]{3}", sentence) and "\t" not in sentence


adjacent = []
for name, count in PAIRS.items():
    paragraphs = []
    for path in sorted((Path(sys.argv[1]) / name).glob("*.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            paragraphs += [line.strip() for line in file if 80 < len(line) < 2000]
    chance.shuffle(paragraphs)
    found = []
    for paragraph in paragraphs:
        sentences = split_sentences(paragraph)
        pairs = [p for p in zip(sentences, sentences[1:]) if good(p[0]) and good(p[1])]
        if pairs:
            found.append(chance.choice(pairs))
        if len(found) == count:
            break
    print(name, len(found), flush=True)
    adjacent += found
chance.shuffle(adjacent)
half = len(adjacent) // 2
singles = list(dict.fromkeys(s for pair in adjacent[half:] for s in pair))
weights = TfidfVectorizer(min_df=2, max_df=0.02, sublinear_tf=True, dtype=np.float32).fit_transform(singles)
nearest = []
for start in range(0, len(singles), ROWS):
    product = weights[start : start + ROWS] @ weights.T
    product.setdiag(0, k=start)
    nearest += np.asarray(product.argmax(axis=1)).ravel().tolist()
like = [(singles[i], singles[j]) for i, j in enumerate(nearest) if i != j]
chance.shuffle(like)
pairs = adjacent[:half] + like[:half]
chance.shuffle(pairs)
Path(sys.argv[2]).write_text("text\tpair\n" + "".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
print(len(pairs))
