"""Classification with a frozen encoder: the closed form of the regression, and its runs."""

import numpy as np
import pytest
import torch

from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.model_paths import follow_pointer
from cloze.models.batch import to_device
from cloze.models.bert import BertModel
from cloze.models.checkpoint import load_model
from cloze.models.frozen_encoder import frozen_vectors
from cloze.models.pooling import pool
from cloze.tasks.feature_classification import FeatureClassification
from cloze.tasks.features import featurize
from cloze.tasks.finetune import finetune, resume_finetuning
from cloze.tasks.hyperparameter_search import scores_of_report
from cloze.tasks.predict import precompute_states, predict
from cloze.tasks.texts import LabeledText
from cloze.tokenization.tokenizer import Tokenizer

SETTINGS = (
    "max_seq_length=24 feature-classification.text_column=review feature-classification.label_column=liked"
)
WORDS = ("good", "bad", "book")
TEXTS = [
    LabeledText(f"{'very ' * count}{word} {thing}", label=word)
    for word in WORDS
    for thing in ("film", "a", ", .")
    for count in range(3)
]


def solve(
    task: FeatureClassification, texts: list[LabeledText], encoder: BertModel, tokenizer: Tokenizer
) -> tuple[FeatureClassification, torch.nn.Module, list]:
    task = task.fit_labels(texts)
    features = featurize(task, texts, tokenizer, max_seq_length=16)
    kept = precompute_states(task, encoder.eval(), features, max_tokens=30)
    model = task.head(encoder, generator=torch.Generator().manual_seed(1)).eval()
    task.solve(model, [feature for of_example in kept for feature in of_example])
    return task, model, kept


@pytest.mark.parametrize("num_labels", [2, 3])
def test_head_predicts_the_same_as_scikit_learn(num_labels, build_encoder, tokenizer):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    texts = [text for text in TEXTS if text.label in WORDS[:num_labels]]
    task, model, kept = solve(FeatureClassification(layer=1), texts, build_encoder(), tokenizer)
    vectors = np.array([feature.states for (feature,) in kept], np.float64)
    reference = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    expected = reference.fit(vectors, [text.label for text in texts]).predict_proba(vectors)
    features = featurize(task, texts, tokenizer, max_seq_length=16)
    predictions = predict(task, model, texts, features, max_tokens=64)  # without the precomputed vectors
    np.testing.assert_allclose([list(p.probabilities.values()) for p in predictions], expected, atol=2e-5)


def test_label_without_examples_is_never_predicted(build_encoder, tokenizer):
    task = FeatureClassification(labels=("book", "bad", "fine", "good"))
    task, model, kept = solve(task, TEXTS, build_encoder(), tokenizer)
    predictions = predict(task, model, TEXTS, kept, max_tokens=64)
    assert task.score(TEXTS, predictions)["accuracy"] == 1
    assert max(prediction.probabilities["fine"] for prediction in predictions) < 1e-9


def test_class_weights_are_used(build_encoder, tokenizer):
    texts = [*TEXTS[:9], *[LabeledText(text.text, label="bad") for text in TEXTS[:9]]]  # not separable
    shares = {}
    for weight in (1.0, 3.0):
        task = FeatureClassification(labels=("bad", "good"), class_weights=(weight, 1.0))
        task, model, kept = solve(task, texts, build_encoder(), tokenizer)
        predictions = predict(task, model, texts, kept, max_tokens=64)
        shares[weight] = np.mean([prediction.probabilities["bad"] for prediction in predictions])
    assert shares == {1.0: pytest.approx(0.5, abs=1e-4), 3.0: pytest.approx(0.75, abs=1e-4)}


def test_layers_are_counted_from_the_embeddings(build_encoder, tokenizer):
    encoder = build_encoder().eval()
    packed = to_device(collate([tokenizer.encode("good film").input_ids, [2, 3]]))
    with torch.no_grad():
        last = encoder(packed).sequence_output
    for layer, same in ((2, -1), (1, -2), (0, -3)):
        a, b = (frozen_vectors(encoder, packed, layer=index, pooling="cls") for index in (layer, same))
        assert torch.equal(a, b)
    expected = pool(last, packed, "mean")
    assert torch.equal(frozen_vectors(encoder, packed, layer=-1, pooling="mean"), expected)
    for layer in (3, -4):
        with pytest.raises(InputError, match=f"the model has no layer {layer}. Take one of 1 to 2"):
            FeatureClassification(labels=("a", "b"), layer=layer).head(encoder)


def test_single_label_is_refused(build_encoder, tokenizer):
    task = FeatureClassification(labels=("bad", "good"))
    with pytest.raises(InputError, match="every example to learn from has the label 'good'"):
        solve(task, TEXTS[:4], build_encoder(), tokenizer)


def test_run_is_deterministic_and_keeps_the_encoder(configure, nano_checkpoint, reviews, tmp_path):
    task, config = configure("feature-classification", reviews, f"{SETTINGS} feature-classification.layer=-2")
    scores = [finetune(task, config, tmp_path / name) for name in ("a", "b")]
    assert scores[0]["accuracy"] == 1
    runs = [follow_pointer(tmp_path / name, "best") for name in ("a", "b")]
    assert len({(run / "model.safetensors").read_bytes() for run in runs}) == 1
    assert scores_of_report(resume_finetuning(tmp_path / "a")) == scores[0]
    before, after = load_model(nano_checkpoint), load_model(runs[0])
    for name, weight in before.state_dict().items():
        assert torch.equal(weight, after.state_dict()[name]), name
    predictor = Predictor.load(tmp_path / "a", device="cpu")
    evaluation = predictor.evaluate(predictor.task.examples(reviews))
    assert evaluation.scores["accuracy"] == 1


def test_transformers_loads_the_encoder_without_the_head(configure, reviews, tmp_path):
    transformers = pytest.importorskip("transformers")
    finetune(*configure("feature-classification", reviews, SETTINGS), tmp_path / "run")
    best = follow_pointer(tmp_path / "run", "best")
    assert transformers.AutoModel.from_pretrained(best).config.hidden_size == 20
    _, info = transformers.AutoModelForSequenceClassification.from_pretrained(best, output_loading_info=True)
    assert {"classifier.weight", "classifier.bias"} <= set(info["missing_keys"])
