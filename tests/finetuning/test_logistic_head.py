"""A logistic regression on the vectors of a frozen encoder, in the checkpoint of an ordinary classifier."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import cloze
from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.finetuning import finetune as finetuning
from cloze.finetuning.config import GridConfig
from cloze.finetuning.logistic_head import PRIOR_VARIANCE, fit_logistic_regression
from cloze.models.batch import to_device
from cloze.models.pooling import pool
from cloze.tasks.texts import LabeledText
from encoder_families import FAMILIES, make_encoder
from family_cases import REVIEWS
from helpers import task_of
from runs import finetune
from tiny_models import tiny_config


@pytest.mark.parametrize("pooling", ["mean", "mean_sqrt_len", "cls", "max"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_pooler_is_linear_in_the_vector_of_a_sentence_encoder(family, pooling):
    encoder = make_encoder(family, tiny_config(range(30), hidden_size=12, num_hidden_layers=2)).eval()
    if pooling == "max" or family == "mpnet":
        with pytest.raises(InputError, match=f"{family} has no classifier that pools {pooling}"):
            encoder.pool_linearly(pooling)
        return
    rng = np.random.default_rng(1)
    sequences = [rng.integers(5, 30, length).astype(np.uint32) for length in (3, 9, 20, 7, 7)]
    batch = to_device(collate(sequences), torch.device("cpu"))
    with torch.inference_mode():
        vectors = pool(encoder(batch).sequence_output, batch, "cls" if pooling == "cls" else "mean")
        encoder.pool_linearly(pooling)
        pooled = encoder.eval()(batch).pooled_output
    if pooling != "cls" or family == "modernbert":
        vectors, pooled = (torch.nn.functional.layer_norm(part, (12,)) for part in (vectors, pooled))
    correlations = np.corrcoef(vectors.flatten(), pooled.flatten())
    assert correlations[0, 1] > 0.995


@pytest.mark.slow  # imports scikit-learn
@pytest.mark.parametrize("num_classes", [2, 5])
def test_the_weights_are_those_of_scikit_learn(num_classes, tokenizer):
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng, labels = np.random.default_rng(2), [f"class {i}" for i in range(num_classes)]
    targets = np.arange(60) % num_classes
    vectors = 3 + rng.normal(size=(60, 20)) + rng.normal(size=(num_classes, 20))[targets]
    answer = task_of("classification", labels=tuple(labels)).answer
    examples = [LabeledText("a film", gold=labels[target]) for target in targets]
    features = [answer.features(example, tokenizer, max_seq_length=8)[0] for example in examples]
    weight, bias = fit_logistic_regression(answer, torch.tensor(vectors), answer.batch(features))
    strength = PRIOR_VARIANCE * (2 if num_classes == 2 else 1)  # two classes have one weight there
    centered = vectors - vectors.mean(0)
    scale = (centered**2).sum(1).mean() ** 0.5
    model = linear_model.LogisticRegression(C=strength, tol=1e-9, max_iter=5000)
    expected = model.fit(centered / scale, targets).predict_proba(centered / scale)
    probabilities = (torch.tensor(vectors) @ weight.T + bias).softmax(-1).numpy()
    assert np.abs(probabilities - expected).max() < 1e-4


def test_a_run_is_an_ordinary_classifier(config, tmp_path):
    result = finetune(REVIEWS, replace(config, head="logistic"), tmp_path / "run")
    assert result["accuracy"] == 1.0
    texts = ["the film was very bad .", "a good book", "awful , awful"]
    answers = cloze.TextClassifier.load(tmp_path / "run")(texts)
    assert [answer.label for answer in answers] == ["no", "yes", "no"]
    checkpoint = tmp_path / "run" / "best"
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    other = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.inference_mode():
        probabilities = other(**inputs).logits.softmax(-1)
    expected = [list(answer.probabilities.values()) for answer in answers]
    assert probabilities.tolist() == [pytest.approx(row, abs=1e-5) for row in expected]


@pytest.mark.parametrize(("head", "is_advised"), [("dense", True), ("logistic", False)])
def test_few_rows_are_advised_to_take_it(config, tmp_path, capsys, head, is_advised):
    finetune(REVIEWS, replace(config, epochs=1, head=head), tmp_path / "run", progress=cloze.Progress())
    advice = "fewer than 64 rows a class: `head=logistic` is often better"
    assert (advice in capsys.readouterr().err) == is_advised


def test_folds_and_shares_of_the_data_have_a_head_each(config, tmp_path):
    logistic = replace(config, head="logistic")
    summary = finetuning.finetune(REVIEWS, replace(logistic, folds=3), tmp_path / "folds")
    assert summary["settings"][0]["mean"]["accuracy"] > 0.95
    shares = replace(logistic, grid=GridConfig(data_fractions=(0.1, 1.0)))
    settings = finetuning.finetune(REVIEWS, shares, tmp_path / "shares")["settings"]
    assert {setting["train_examples"] for setting in settings} == {6, 56}


def test_settings_of_steps_are_refused(config, reviews, tmp_path):
    arguments = {"train": reviews, "model": config.model, "output": tmp_path / "run", "head": "logistic"}
    keywords = {"epochs": 3, "seeds": 3, "learning_rate": 1e-4, "teacher": config.model}
    settings = {"freeze_embeddings": True, "evaluations_per_epoch": 2, "grid.epochs": [1, 2]}
    cases = {name: {name: value} for name, value in keywords.items()}
    cases |= {name: {"settings": {name: value}} for name, value in settings.items()}
    for name, options in cases.items():
        with pytest.raises(InputError, match=f"^{name}: is not used by a logistic head"):
            cloze.finetune("classification", **arguments, **options)
    with pytest.raises(InputError, match=r"^grid: is not used by a logistic head"):
        cloze.finetune("classification", **arguments, grid=True)
    file = tmp_path / "head.toml"
    for name, value in {"epochs": 4, "batch_size": 8, "optimizer.warmup_fraction": 0.2}.items():
        file.write_text(f'head = "logistic"\n{name} = {value}\n')
        with pytest.raises(InputError, match=f"head.toml and settings: {name} is not used by"):
            cloze.finetune("classification", **arguments, config=file)
    columns = {"text_column": "review", "label_column": "liked"}
    file.write_text(cloze.finetuning_settings("classification", **arguments, **columns))
    assert "epochs = 3" in file.read_text()
    cloze.validate_data(config=file)
    with pytest.raises(InputError, match="head: logistic is for tasks that classify texts"):
        cloze.finetune("regression", **arguments)
    with pytest.raises(InputError, match="head: logistic has no steps to time"):
        cloze.plan_finetuning("classification", **arguments)
    assert not Path(tmp_path / "run").exists()
    cloze.finetune("classification", **arguments, **columns)
    with pytest.raises(InputError, match=r"^learning_rate: is not used by a logistic head"):
        cloze.finetune(output=tmp_path / "run", resume=True, learning_rate=1e-4)
