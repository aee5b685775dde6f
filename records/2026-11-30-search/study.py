# ruff: noqa
"""Recall and nDCG of cloze search, sentence-transformers and BM25 on paragraphs of SQuAD and abstracts of Cranfield."""

import json
import math
import os
import random
import re
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

SHARED = Path(os.environ["CLOZE_SHARED"], "data")
WORK = Path("work")


def squad():
    data = json.loads((SHARED / "squad/dev-v1.1.json").read_text())["data"]
    folder = WORK / "squad"
    folder.mkdir(parents=True, exist_ok=True)
    ids = {}
    texts = []
    questions = []
    for n, article in enumerate(data):
        paras = [re.sub(r"\s+", " ", p["context"]).strip() for p in article["paragraphs"]]
        name = str(folder / f"{n:02}.txt")
        line = 1
        for p, text in zip(article["paragraphs"], paras, strict=False):
            ids[name, line] = len(texts)
            questions += [(q["question"], {len(texts): 1}) for q in p["qas"]]
            texts.append(text)
            line += 2
        Path(name).write_text("\n\n".join(paras) + "\n")
    random.Random(1).shuffle(questions)
    return folder, ids, texts, questions[:2000]


def cranfield():
    folder = WORK / "cranfield"
    folder.mkdir(parents=True, exist_ok=True)
    raw = (SHARED / "cranfield/cran.all.1400.xml").read_text()
    docs = re.findall(r"<docno>\s*(\d+)\s*</docno>.*?<title>(.*?)</title>.*?<text>(.*?)</text>", raw, re.S)
    texts = []
    ids = {}
    number = {}
    for no, title, text in docs:
        body = re.sub(r"\s+", " ", text).strip() or re.sub(r"\s+", " ", title).strip()
        if not body:
            continue
        name = str(folder / f"{int(no):04}.txt")
        Path(name).write_text(body + "\n")
        ids[name, 1] = number[int(no)] = len(texts)
        texts.append(body)
    queries = [
        re.sub(r"\s+", " ", q).strip()
        for q in re.findall(r"<title>(.*?)</title>", (SHARED / "cranfield/cran.qry.xml").read_text(), re.S)
    ]
    rel = defaultdict(dict)
    for row in (SHARED / "cranfield/cranqrel.trec.txt").read_text().split("\n"):
        if row.strip():
            q, _, d, g = row.split()
            if int(g) > 0 and int(d) in number:
                rel[int(q)][number[int(d)]] = 1
    return folder, ids, texts, [(q, rel[n]) for n, q in enumerate(queries, 1) if rel[n]]


def metrics(ranked, questions):
    r1 = r10 = nd = 0
    for order, (_, gold) in zip(ranked, questions, strict=False):
        r1 += sum(d in gold for d in order[:1]) / len(gold)
        r10 += sum(d in gold for d in order[:10]) / len(gold)
        dcg = sum(gold.get(d, 0) / math.log2(i + 2) for i, d in enumerate(order[:10]))
        nd += dcg / sum(g / math.log2(i + 2) for i, g in enumerate(sorted(gold.values(), reverse=True)[:10]))
    n = len(questions)
    return {"recall@1": round(r1 / n, 4), "recall@10": round(r10 / n, 4), "ndcg@10": round(nd / n, 4)}


SETS = {"squad": squad, "cranfield": cranfield}
if __name__ == "__main__":
    mode, sets = sys.argv[1], sys.argv[2].split(",")
    for name in sets:
        folder, ids, texts, questions = SETS[name]()
        out = {"set": name, "system": mode, "documents": len(texts), "questions": len(questions)}
        if mode == "bm25":
            from rank_bm25 import BM25Okapi

            def words(t):
                return re.findall(r"\w+", t.lower())

            bm = BM25Okapi([words(t) for t in texts])
            ranked = [np.argsort(-bm.get_scores(words(q)), kind="stable")[:10].tolist() for q, _ in questions]
            continue
        model = sys.argv[3]
        out["model"] = Path(model).name
        if mode == "cloze":
            import cloze

            e = cloze.Embedder.load(model, device="cpu")
            t = time.process_time()
            ix = cloze.PassageIndex.open(e, folder)
            out["index_cpu_s"] = round(time.process_time() - t, 1)
            out["passages"] = len(ix.texts)
            keys = sorted(ids)
            doc = []
            last = None
            for place in ix.places:  # a passage of a cut paragraph begins on the same line
                doc.append(ids[place])
            ranker = cloze.TextRanker.load(sys.argv[4], device="cpu") if len(sys.argv) > 4 else None
            t = time.process_time()
            vectors = e.embed([q for q, _ in questions]).vectors
            hits = [ix.nearest(v, 50) for v in vectors]
            where = {(p, t): d for p, t, d in zip(ix.places, ix.texts, doc, strict=False)}
            ranked = [list(dict.fromkeys(where[(h.file, h.line), h.text] for h in hs))[:10] for hs in hits]
            out["questions_cpu_s"] = round(time.process_time() - t, 1)
            json.dump(
                {
                    "texts": ix.texts,
                    "questions": [q for q, _ in questions],
                    "hits": [[[h.text, h.score] for h in hs[:10]] for hs in hits],
                },
                open(WORK / f"{name}-{Path(model).name}.json", "w"),
            )
        else:
            from sentence_transformers import SentenceTransformer, util

            st = SentenceTransformer(model, device="cpu")
            saved = json.load(open(WORK / f"{name}-{Path(model).name}.json"))
            t = time.process_time()
            pv = st.encode(saved["texts"], convert_to_tensor=True)
            out["index_cpu_s"] = round(time.process_time() - t, 1)
            qv = st.encode(saved["questions"], convert_to_tensor=True)
            found = util.semantic_search(qv, pv, top_k=10)
            same = sum(
                [saved["texts"][h["corpus_id"]] for h in row] == [t for t, _ in hits]
                for row, hits in zip(found, saved["hits"], strict=False)
            )
            gap = max(
                abs(h["score"] - s)
                for row, hits in zip(found, saved["hits"], strict=False)
                for h, (_, s) in zip(row, hits, strict=False)
            )
            out |= {
                "questions_with_the_same_ten_in_order": same,
                "of": len(found),
                "largest_difference_of_a_score": gap,
            }
