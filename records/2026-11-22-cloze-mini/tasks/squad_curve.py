"""Keep the last 40 articles of SQuAD's training questions apart, and draw 500 questions of them to choose an epoch by.

python squad_curve.py train-v1.1.json rest.json chosen.json
"""

import json
import random
import sys
from pathlib import Path

source, rest, chosen = map(Path, sys.argv[1:])
squad = json.loads(source.read_text())
kept, apart = squad["data"][:-40], squad["data"][-40:]
rest.write_text(json.dumps({"version": squad["version"], "data": kept}))

ids = [
    question["id"] for article in apart for passage in article["paragraphs"] for question in passage["qas"]
]
drawn = set(random.Random(0).sample(ids, 500))
for article in apart:
    for passage in article["paragraphs"]:
        passage["qas"] = [question for question in passage["qas"] if question["id"] in drawn]
    article["paragraphs"] = [passage for passage in article["paragraphs"] if passage["qas"]]
chosen.write_text(json.dumps({"version": squad["version"], "data": apart}))
