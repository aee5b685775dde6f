# ruff: noqa
"""Recall and nDCG on SQuAD of cloze search with and without a ranker; study.py has the data and the metrics."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import study

import cloze

ranker_path, model = sys.argv[1:]
folder, ids, texts, questions = study.squad()
ranker = cloze.TextRanker.load(ranker_path, device="cpu")
embedder = cloze.Embedder.load(model, device="cpu")
index = cloze.PassageIndex.open(embedder, folder)
number = {(file, line, text): ids[file, line] for file, line, text in index.passages}
vectors = embedder.embed([q for q, _ in questions]).vectors
plain, ranked, cpu, wall = [], [], 0.0, 0.0
for i, ((question, _), vector) in enumerate(zip(questions, vectors), 1):
    hits = index.nearest(vector, 50)
    start = time.process_time(), time.time()
    order = [hits[passage.index] for passage in ranker(question, [hit.text for hit in hits])]
    cpu, wall = cpu + time.process_time() - start[0], wall + time.time() - start[1]
    for rows, its in ((plain, hits), (ranked, order)):
        rows.append(list(dict.fromkeys(number[hit.file, hit.line, hit.text] for hit in its)))
    if i % 25 == 0:
        done = questions[:i]
        out = {"set": "squad", "questions": i, "model": Path(model).name, "passages": len(index.passages)}
        for name, rows in (("plain", plain), ("reranked", ranked)):
            out[name] = study.metrics([row[:10] for row in rows], done)
        right = [[int(row[0] in gold) for row, (_, gold) in zip(rows, done)] for rows in (plain, ranked)]
        out["won, lost at 1"] = [sum(b > a for a, b in zip(*right)), sum(b < a for a, b in zip(*right))]
        out["recall@50"] = float(np.mean([bool(gold.keys() & {*row}) for row, (_, gold) in zip(plain, done)]))
        print(json.dumps(out | {"cpu_s": round(cpu / i, 2), "wall_s": round(wall / i, 2)}), flush=True)
