"""Divide SST-2 and CoNLL-2003 into labeled, unlabeled, choosing and test parts: python prepare.py SHARED_DATA OUT."""

import random
import sys
from pathlib import Path

LABELED = {"sst2": 6000, "conll": 4000}
UNLABELED = {"sst2": 6000, "conll": 4000}
CHOOSING = 1000

source, output = map(Path, sys.argv[1:])
output.mkdir(parents=True, exist_ok=True)

head, *rows = (source / "glue/SST-2/train.tsv").read_text().splitlines()
random.Random(0).shuffle(rows)
labeled, choosing, rest = rows[: LABELED["sst2"]], rows[-CHOOSING:], rows[LABELED["sst2"] : -CHOOSING]
for name, part in (("sst2-train", labeled), ("sst2-choose", choosing)):
    (output / f"{name}.tsv").write_text("\n".join([head, *part]) + "\n")
texts = [row.split("\t")[0] for row in rest[: UNLABELED["sst2"]]]
(output / "sst2-unlabeled.txt").write_text("\n".join(texts) + "\n")

blocks = (source / "ner/conll2003/eng.train").read_text().split("\n\n")
sentences = [block.strip("\n") for block in blocks if block.strip() and not block.startswith("-DOCSTART-")]
sentences = [sentence for sentence in sentences if "-DOCSTART-" not in sentence]
random.Random(0).shuffle(sentences)
count = LABELED["conll"]
(output / "conll-train.conll").write_text("\n\n".join(sentences[:count]) + "\n\n")
words = [" ".join(line.split()[0] for line in s.splitlines()) for s in sentences[count : count + UNLABELED["conll"]]]
(output / "conll-unlabeled.txt").write_text("\n".join(words) + "\n")
