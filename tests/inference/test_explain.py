"""Integrated gradients equal captum's, sum to the change of the output, and are reported by whole word."""

import re
from dataclasses import replace

import pytest
import torch

import cloze
from cloze.data.batch import collate
from cloze.inference.explain import ExplainedWord, Explanation, PendingExplanation, check_explainable, explain
from cloze.inference.model import Ensemble
from cloze.inference.predictor import Predictor
from cloze.models.batch import to_device
from cloze.models.checkpoint import save_model
from cloze.tasks.texts import LabeledText
from helpers import task_of
from tiny_models import write_finetuned

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "##ness", "film", "the", "!", "not")


def predictor_of(places: pytest.TempPathFactory, task: cloze.Task) -> Predictor:
    sizes = {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 28}
    settings = {"max_position_embeddings": 40, "initializer_range": 0.4, **sizes}
    path = places.mktemp("explained") / "model"
    write_finetuned(path, task, PIECES, seed=7, max_seq_length=16, **settings)
    return replace(Predictor.load(path, device="cpu"), reads_pairs=None)


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    return predictor_of(tmp_path_factory, task_of("classification", labels=("up", "down", "level")))


@pytest.mark.protected
@pytest.mark.parametrize("baseline_id", [4, 0], ids=["mask", "pad"])
def test_attributions_are_captums_on_transformers_model(predictor, tmp_path, baseline_id):
    attr, transformers = pytest.importorskip("captum.attr"), pytest.importorskip("transformers")
    save_model(tmp_path, predictor.module, predictor.tokenizer, labels=predictor.task.answer.class_names)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    pending = PendingExplanation.begin(predictor, LabeledText("not the goodness film!"), None, label="down")
    input_ids = pending.encoding.input_ids
    baseline_ids = [input_ids[0], *[baseline_id] * (len(input_ids) - 2), input_ids[-1]]
    assert baseline_id == 0 or pending.baseline_ids == baseline_ids
    pending = replace(pending, baseline_ids=baseline_ids)
    ours = pending.attributions(list(map(pending.gradient, pending.points(50, max_tokens=40))))
    method = attr.LayerIntegratedGradients(
        lambda ids: theirs(ids).logits, theirs.bert.embeddings.word_embeddings
    )
    expected, gap = method.attribute(
        torch.tensor([input_ids]),
        baselines=torch.tensor([baseline_ids]),
        target=1,
        n_steps=50,
        method="gausslegendre",
        return_convergence_delta=True,
    )
    assert ours.tokens == pytest.approx(expected[0].sum(-1).tolist(), abs=1e-4)
    assert ours.convergence_gap == pytest.approx(gap.item(), abs=1e-4)
    assert max(map(abs, ours.tokens)) > 0.05, "nothing was attributed"


def test_attributions_and_gap_sum_to_the_change_of_the_logit(predictor):
    example = LabeledText("The goodness!", "not bad film")
    ((prediction,), _) = predictor.predict([example])
    found = explain(predictor, example, prediction)
    total = sum(word.attribution for word in found.words)
    assert total - found.convergence_gap == pytest.approx(found.output - found.baseline_output, abs=1e-5)
    assert abs(found.convergence_gap) <= 0.01 * sum(abs(word.attribution) for word in found.words) + 1e-5
    assert found.explained == prediction.label
    encoding = predictor.tokenizer.encode(example.text, example.pair)
    packed = to_device(collate([encoding.input_ids], [encoding.token_type_ids]))
    with torch.no_grad():
        logits = predictor.module(packed)[0].tolist()
    assert found.output == pytest.approx(max(logits), abs=1e-5)


def test_attributions_are_by_whole_word(predictor):
    example = LabeledText("The GOODNESS, bad!", "film")
    ((prediction,), _) = predictor.predict([example])
    words = explain(predictor, example, prediction).words
    assert [(word.segment, word.start, word.end, word.word) for word in words] == [
        ("A", 0, 3, "The"),
        ("A", 4, 12, "GOODNESS"),
        ("A", 12, 13, ","),
        ("A", 14, 17, "bad"),
        ("A", 17, 18, "!"),
        ("B", 0, 4, "film"),
    ]
    soft = LabeledText("GOOD\xadNESS", "film")  # the soft hyphen between its pieces is in none of them
    assert [word.word for word in explain(predictor, soft, prediction).words] == ["GOOD\xadNESS", "film"]


def test_a_notebook_shades_the_words():
    words = (
        ExplainedWord("<b>", "A", 0, 3, 2.0),
        ExplainedWord("good", "A", 4, 8, -1.0),
        ExplainedWord("film", "B", 0, 4, 0.0),
    )
    html = Explanation("r&b", 1.5, "[MASK]", 0.5, 0.0, 32, truncated=False, words=words)._repr_html_()
    assert "<b>r&amp;b</b> 1.500, with every word [MASK] 0.500" in html
    shades = re.findall(r"rgb\(([0-9 ]+) / (\d+)%\).*?>(.*?)</span>", html)
    assert [(share, word) for _, share, word in shades] == [
        ("100", "&lt;b&gt;"),
        ("50", "good"),
        ("0", "film"),
    ]
    assert shades[0][0] != shades[1][0]
    assert html.count("<p>") == 3, "a paragraph for each text"


def test_texts_without_words_are_explained(predictor):
    for text in ("", "[MASK]"):
        example = LabeledText(text)
        ((prediction,), _) = predictor.predict([example])
        found = explain(predictor, example, prediction)
        assert [word.attribution for word in found.words] == pytest.approx([0] * len(found.words))
        assert found.steps == 32


def test_scores_and_sets_of_labels_are_explained_too(tmp_path_factory):
    example = LabeledText("not the good film")
    scale = predictor_of(tmp_path_factory, task_of("regression", minimum=1, maximum=5))
    ((score,), _) = scale.predict([example])
    found = explain(scale, example, score)
    assert found.explained == "score"
    assert found.output == pytest.approx(score, abs=1e-4)
    several = predictor_of(tmp_path_factory, task_of("multi-label", labels=("a", "b", "c")))
    ((labels,), _) = several.predict([example])
    found = explain(several, example, labels)
    assert labels.probabilities[found.explained] == max(labels.probabilities.values())
    other = min(labels.probabilities, key=labels.probabilities.__getitem__)
    assert explain(several, example, labels, label=other).output < found.output


def test_truncated_texts_are_explained_and_windows_are_refused(predictor):
    example = LabeledText("good bad " * 20, where="texts:7")
    ((prediction,), _) = predictor.predict([example])
    found = explain(predictor, example, prediction)
    assert (len(found.words), found.truncated) == (14, True)
    short = LabeledText("good bad")
    assert not explain(predictor, short, predictor.predict([short])[0][0]).truncated
    windows = replace(
        predictor, task=task_of("classification", labels=("up", "down", "level"), long_texts="windows")
    )
    with pytest.raises(cloze.InputError, match=r"texts:7: longer than 16 tokens.*long_texts=truncate"):
        explain(windows, example, prediction)


def test_unexplainable_predictors_are_refused(predictor, tmp_path_factory):
    check_explainable(predictor)
    with pytest.raises(cloze.InputError, match="an ensemble has no weights"):
        check_explainable(replace(predictor, model=Ensemble([predictor.model] * 2)))
    with pytest.raises(cloze.InputError, match="predictions of squad_v1 are not labels"):
        check_explainable(predictor_of(tmp_path_factory, task_of("squad_v1")))
