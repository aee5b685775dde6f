"""Feature-based classification: the encoder does not learn, and the regression on its vectors is solved at once."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.locate import follow
from cloze.model.bert import BertModel
from cloze.model.checkpoint import load_model
from cloze.model.frozen_vectors import frozen_vectors
from cloze.model.packed import Packed
from cloze.model.pooling import pool
from cloze.progress import SILENT
from cloze.tasks.config import load_finetuning
from cloze.tasks.feature_classes import FeatureClasses
from cloze.tasks.feature_classification import FeatureClassification
from cloze.tasks.features import featurize
from cloze.tasks.finetune import finetune, resume_finetuning
from cloze.tasks.predict import predict
from cloze.tasks.texts import LabelledText
from cloze.text.tokenizer import Tokenizer

WORDS = ("good", "bad", "book")
TEXTS = [
    LabelledText(f"{'very ' * count}{word} {thing}", label=word)
    for word in WORDS
    for thing in ("film", "a", ", .")
    for count in range(3)
]


def solved(
    task: FeatureClassification, texts: list[LabelledText], encoder: BertModel, tokenizer: Tokenizer
) -> tuple[FeatureClassification, torch.nn.Module, list]:
    task = task.fitted(texts)
    features = featurize(task, texts, tokenizer, max_seq_length=16)
    kept = task.prepared(features, lambda: encoder.eval(), max_tokens=30, progress=SILENT)
    model = task.head(encoder, generator=torch.Generator().manual_seed(1)).eval()
    task.solve(model, [feature for own in kept for feature in own])
    return task, model, kept


@pytest.mark.parametrize("num_labels", [2, 3])
def test_the_layer_says_what_scikit_learn_says(
    num_labels: int, build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    texts = [text for text in TEXTS if text.label in WORDS[:num_labels]]
    task, model, kept = solved(FeatureClasses(layer=1), texts, build_encoder(), tokenizer)
    vectors = np.array([feature.vector for (feature,) in kept], np.float64)
    reference = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    expected = reference.fit(vectors, [text.label for text in texts]).predict_proba(vectors)
    features = featurize(task, texts, tokenizer, max_seq_length=16)
    found = predict(task, model, texts, features, max_tokens=64)  # the encoder is asked again
    np.testing.assert_allclose([list(own.probabilities.values()) for own in found], expected, atol=2e-5)


def test_a_label_that_has_no_example_is_never_given(
    build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    task = FeatureClasses(labels=("book", "bad", "fine", "good"))
    task, model, kept = solved(task, TEXTS, build_encoder(), tokenizer)
    found = predict(task, model, TEXTS, kept, max_tokens=64)
    assert task.score(TEXTS, found)["accuracy"] == 1
    assert max(own.probabilities["fine"] for own in found) < 1e-9


def test_classes_are_weighed(build_encoder: Callable[[], BertModel], tokenizer: Tokenizer) -> None:
    texts = [
        *TEXTS[:9],
        *[LabelledText(text.text, label="bad") for text in TEXTS[:9]],
    ]  # nothing tells them apart
    shares = {}
    for weight in (1.0, 3.0):
        task = FeatureClasses(labels=("bad", "good"), class_weights=(weight, 1.0))
        task, model, kept = solved(task, texts, build_encoder(), tokenizer)
        found = predict(task, model, texts, kept, max_tokens=64)
        shares[weight] = np.mean([own.probabilities["bad"] for own in found])
    assert shares == {1.0: pytest.approx(0.5, abs=1e-4), 3.0: pytest.approx(0.75, abs=1e-4)}


def test_layers_are_counted_from_the_embeddings(
    build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    encoder = build_encoder().eval()
    packed = Packed.from_sequences([tokenizer.encode("good film").input_ids, [2, 3]])
    with torch.no_grad():
        last = encoder.forward_packed(packed).sequence_output
    for layer, same in ((2, -1), (1, -2), (0, -3)):
        a, b = (frozen_vectors(encoder, packed, layer=each, pooling="cls") for each in (layer, same))
        assert torch.equal(a, b)
    expected = pool(last, packed, "mean")
    assert torch.equal(frozen_vectors(encoder, packed, layer=-1, pooling="mean"), expected)
    for layer in (3, -4):
        with pytest.raises(InputError, match=f"the model has no layer {layer}. Take one of 1 to 2"):
            FeatureClasses(labels=("a", "b"), layer=layer).head(encoder)


def test_one_label_to_learn_from_is_refused(
    build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    task = FeatureClasses(labels=("bad", "good"))
    with pytest.raises(InputError, match="every example to learn from has the label 'good'"):
        solved(task, TEXTS[:4], build_encoder(), tokenizer)


def test_a_run_leaves_what_other_runs_do_and_the_encoder_as_it_is(
    nano_checkpoint: Path, reviews: Path, tmp_path: Path
) -> None:
    settings = [
        f"model={nano_checkpoint}",
        f"train={reviews}",
        "max_seq_length=24",
        "device=cpu",
        "feature-classification.text_column=review",
        "feature-classification.label_column=liked",
        "feature-classification.layer=-2",
    ]
    task, config = load_finetuning("feature-classification", None, settings)
    found = [finetune(task, config, tmp_path / name) for name in ("a", "b")]
    assert found[0]["accuracy"] == 1
    runs = [follow(tmp_path / name, "best") for name in ("a", "b")]
    assert len({(run / "model.safetensors").read_bytes() for run in runs}) == 1
    assert resume_finetuning(tmp_path / "a") == found[0]
    before, after = load_model(nano_checkpoint), load_model(runs[0])
    for name, weight in before.state_dict().items():
        assert torch.equal(weight, after.state_dict()[name]), name
    predictor = Predictor.load(tmp_path / "a", device="cpu")
    evaluation = predictor.evaluate(predictor.task.examples(reviews))
    assert evaluation.scores["accuracy"] == 1


def test_transformers_reads_the_encoder_and_takes_no_head_for_its_own(
    nano_checkpoint: Path, reviews: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    settings = [
        f"model={nano_checkpoint}",
        f"train={reviews}",
        "max_seq_length=24",
        "device=cpu",
        "feature-classification.text_column=review",
        "feature-classification.label_column=liked",
    ]
    finetune(*load_finetuning("feature-classification", None, settings), tmp_path / "run")
    best = follow(tmp_path / "run", "best")
    assert transformers.AutoModel.from_pretrained(best).config.hidden_size == 20
    _, info = transformers.AutoModelForSequenceClassification.from_pretrained(best, output_loading_info=True)
    assert {"classifier.weight", "classifier.bias"} <= set(info["missing_keys"])
