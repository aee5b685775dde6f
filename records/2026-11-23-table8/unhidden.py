"""Does an encoder hold the pieces that nobody hides? python unhidden.py CONLL-2003/eng.testa RUN...

Prints for each run, over the sentences of the file with nothing hidden, the share of pieces that its head of masked
words names as they stand there, and the share that linear discriminant analysis finds in the vectors of the last layer:
one piece of the 500 most frequent ones, learned from the first half of the file and scored on the second.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import cloze
from cloze.data.batch import collate
from cloze.model_paths import resolve_checkpoint
from cloze.models.batch import to_device

PIECES = 500


def sentences(path: Path) -> list[str]:
    """Return the sentences of a file in CoNLL's columns."""
    blocks = path.read_text("utf-8").split("\n\n")
    texts = [" ".join(line.split(" ")[0] for line in block.splitlines() if line) for block in blocks]
    return [text for text in texts if text and text != "-DOCSTART-"]


@torch.inference_mode()
def measure(run: Path, texts: list[str]) -> tuple[float, float]:
    """Return what the head names and what the vectors hold, as shares of pieces that are not hidden."""
    fill = cloze.FillMask.load(resolve_checkpoint(run, "latest"))
    vectors, pieces, named = [], [], []
    for text in texts:
        encoding = fill.tokenizer.encode(text)
        batch = to_device(collate([encoding.input_ids], [encoding.token_type_ids]))
        hidden = fill.model.bert(batch).sequence_output[1:-1]
        logits = fill.model.masked_lm(hidden, fill.model.bert.embeddings.word_embeddings.weight)
        ids = torch.tensor(encoding.input_ids[1:-1])
        vectors.append(hidden.numpy())
        pieces.append(ids.numpy())
        named.append((logits.argmax(-1) == ids).numpy())
    frequent = [piece for piece, _ in Counter(np.concatenate(pieces).tolist()).most_common(PIECES)]
    half = sum(map(len, pieces[: len(pieces) // 2]))
    x, y = np.concatenate(vectors), np.concatenate(pieces)
    known = np.isin(y, frequent)
    first = np.arange(len(y)) < half
    probe = LinearDiscriminantAnalysis().fit(x[first & known], y[first & known])
    return float(np.concatenate(named).mean()), float(probe.score(x[~first & known], y[~first & known]))


if __name__ == "__main__":
    texts = sentences(Path(sys.argv[1]))
    for run in sys.argv[2:]:
        named, held = measure(Path(run), texts)
        print(f"{run} head {named:.1%} vectors {held:.1%}", flush=True)
