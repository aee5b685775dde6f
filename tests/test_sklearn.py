"""The estimators of scikit-learn: its own checks, pipelines, searches, copies, and the same answers as cloze."""

import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import cloze
from cloze.errors import InputError
from cloze.sklearn import FinetunedClassifier, TextEmbedder
from tiny_models import SPECIAL, tiny_config, write_checkpoint

TOKENS = (*SPECIAL, *"abcdefgh", "good", "bad")
RNG = np.random.default_rng(0)
TEXTS = [f"{'good' if i % 2 else 'bad'} {' '.join(RNG.choice(list('abcdefgh'), 4))}" for i in range(40)]
LABELS = [("no", "yes")[i % 2] for i in range(40)]

CHECKS = (
    *("estimator_cloneable", "estimator_tags_renamed", "valid_tag_types", "estimator_repr", "mixin_order"),
    *("no_attributes_set_in_init", "do_not_raise_errors_in_init_or_set_params", "get_params_invariance"),
    *("parameters_default_constructible", "set_params"),
)
"""Checks of scikit-learn that do not fit tables of numbers. All others do, and the input here is text.

The tests below check the same on texts: fitting returns the estimator, changes no parameter or input, is repeatable,
and is asked for; predictions do not depend on the order or the number of the texts; attributes, copies and pickles.
"""


@pytest.mark.parametrize("kind", [TextEmbedder, FinetunedClassifier])
@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_scikit_learn(kind, name):
    getattr(estimator_checks, f"check_{name}")(kind.__name__, kind())


@pytest.mark.parametrize("kind", [TextEmbedder, FinetunedClassifier])
def test_help_describes_each_argument(kind):
    described = re.findall(r"^    (\w+): \S", inspect.getdoc(kind), re.MULTILINE)
    assert described == list(inspect.signature(kind).parameters)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("sklearn") / "tiny"
    # the vectors of an untrained encoder separate the classes with some seeds only
    generator = torch.Generator().manual_seed(1)
    encoder = cloze.BertModel(tiny_config(TOKENS, initializer_range=0.2), generator=generator)
    return str(write_checkpoint(path, encoder, TOKENS))


@pytest.fixture(scope="module")
def classifier(model: str) -> FinetunedClassifier:
    settings = {"precision": "float32", "dev_fraction": 0.2}
    return FinetunedClassifier(
        model, epochs=20, batch_size=8, learning_rate=1e-2, max_seq_length=12, settings=settings, device="cpu"
    )


@pytest.fixture(scope="module")
def embedder(model: str) -> TextEmbedder:
    return TextEmbedder(model, device="cpu")


def test_the_embedder_gives_the_vectors_of_cloze(embedder, model):
    with pytest.raises(NotFittedError):
        embedder.transform(TEXTS)
    fitted = clone(embedder).fit(TEXTS)
    vectors = fitted.transform(TEXTS)
    assert np.array_equal(vectors, cloze.Embedder.load(model, device="cpu")(TEXTS))
    assert np.allclose(fitted.transform(TEXTS[::-1])[::-1], vectors, atol=1e-6)
    for texts in (np.array(TEXTS), np.array(TEXTS, object), pd.Series(TEXTS, index=range(9, 49))):
        assert np.array_equal(clone(embedder).fit_transform(texts), vectors)
    assert fitted.get_feature_names_out()[0] == "textembedder0"
    frame = clone(embedder).set_output(transform="pandas").fit_transform(TEXTS)
    assert frame.shape == (40, 12)
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.transform(TEXTS), vectors)
    with pytest.raises(InputError, match=r"^X\[1\] is None"):
        fitted.transform(["a", None])
    with pytest.raises(InputError, match="layers is -1, an int"):
        clone(embedder).set_params(layers=-1).fit(TEXTS)


@pytest.mark.slow
def test_the_embedder_works_in_pipelines_and_searches(embedder):
    pipeline = make_pipeline(embedder, LogisticRegression(max_iter=1000))
    assert cross_val_score(pipeline, TEXTS, LABELS, cv=2).mean() > 0.7
    grid = {"textembedder__pooling": ["mean", "cls"], "textembedder__layers": [(0,), (-1,)]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(TEXTS, LABELS)
    assert len(search.cv_results_["params"]) == 4
    assert set(search.predict(TEXTS)) <= {"no", "yes"}


@pytest.mark.slow
def test_the_classifier_learns_and_is_repeatable(classifier):
    with pytest.raises(NotFittedError):
        classifier.predict(TEXTS)
    texts, labels = list(TEXTS), list(LABELS)
    estimator = clone(classifier)
    before = estimator.get_params()
    assert estimator.fit(texts, labels) is estimator
    assert (texts, labels, estimator.get_params()) == (TEXTS, LABELS, before)
    assert estimator.classes_.tolist() == ["no", "yes"]
    assert estimator.score(TEXTS, LABELS) > 0.9
    probabilities = estimator.predict_proba(TEXTS)
    assert np.allclose(probabilities.sum(1), 1)
    assert np.array_equal(estimator.predict(TEXTS), estimator.classes_[probabilities.argmax(1)])
    assert np.allclose(estimator.predict_proba(TEXTS[::-1])[::-1], probabilities, atol=1e-6)
    assert np.allclose(estimator.predict_proba(TEXTS[:3]), probabilities[:3], atol=1e-6)
    assert estimator.predict([]).shape == (0,)
    for repeated in (clone(classifier).fit(TEXTS, LABELS), pickle.loads(pickle.dumps(estimator))):
        assert np.array_equal(repeated.predict_proba(TEXTS), probabilities)


@pytest.mark.slow
def test_classes_keep_their_type_and_order(classifier):
    short = clone(classifier).set_params(epochs=1)
    for classes in ([10, 9], [True, False], ["nan", ""]):
        labels = [classes[i % 2] for i in range(40)]
        fitted = short.fit(TEXTS, pd.Series(labels))
        assert fitted.classes_.tolist() == sorted(classes)
        assert {*fitted.predict(TEXTS).tolist()} <= {*classes}


@pytest.mark.slow
def test_the_classifier_may_have_a_logistic_head(model):
    settings = {"head": "logistic"}
    classifier = FinetunedClassifier(model, max_seq_length=12, settings=settings, device="cpu")
    assert classifier.fit(TEXTS, LABELS).score(TEXTS, LABELS) > 0.9


@pytest.mark.slow
def test_the_classifier_learns_from_pairs(classifier):
    seconds = ["good" if i // 2 % 2 else "bad" for i in range(40)]
    pairs = [(text, f"h {second}") for text, second in zip(TEXTS, seconds, strict=True)]
    pipeline = make_pipeline(clone(classifier)).fit(pairs[:30], seconds[:30])
    assert pipeline.score(pairs[30:], seconds[30:]) > 0.9


def test_wrong_input_is_named(classifier):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier.fit(TEXTS, LABELS[1:])
    with pytest.raises(InputError, match=r"^train\[0\]: 'text' is null"):
        clone(classifier).fit([None, *TEXTS[1:]], LABELS)
    for missing in (None, float("nan"), pd.NA):
        with pytest.raises(InputError, match=r"^y\[1\]: is missing\. Give each text a label"):
            clone(classifier).fit(TEXTS, [LABELS[0], missing, *LABELS[2:]])
    with pytest.raises(ValueError, match="continuous"):
        clone(classifier).fit(TEXTS, np.linspace(0, 1, 40))
    arguments = {"epochs": 9, "train": "a.csv", "optimizer": {"learning_rate": 0.1}}
    for key, value in (arguments | {"classification.labels": ["b", "a"]}).items():
        with pytest.raises(InputError, match=f"^settings: {key}.* is set by an argument"):
            clone(classifier).set_params(settings={key: value}).fit(TEXTS, LABELS)
    with pytest.raises(InputError, match=r"^settings: 'epochs' is not a mapping"):
        clone(classifier).set_params(settings="epochs").fit(TEXTS, LABELS)
    weights = {"classification": {"class_weights": {"yes": 2.0}}}
    with pytest.raises(InputError, match=r"class_weights\.yes is set by"):
        clone(classifier).set_params(balanced=True, settings=weights).fit(TEXTS, LABELS)
    with pytest.raises(InputError, match=r"^train: every row has the label"):
        clone(classifier).fit(TEXTS, ["yes"] * 40)
