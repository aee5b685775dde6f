"""A tokenizer that is called returns what that of transformers does for the same arguments."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_library_tokenizer import write
from transformers import AutoModel, AutoTokenizer

import cloze

LONG = "the moor was dark and the hound was heard by all of them"
TEXTS = ["She closed the door.", "A [MASK] door", "", LONG]
OTHERS = ["It was late.", "Who opened it, and when, and why on a night like this one?", "a", ""]
MINI = Path(cloze.__file__).with_name("pretrained") / "cloze-mini"

CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "one text": ((TEXTS[0],), {}),
    "one text as a tensor": ((TEXTS[0],), {"return_tensors": "pt"}),
    "one pair": ((TEXTS[0], OTHERS[0]), {}),
    "lists": ((TEXTS,), {}),
    "padded": ((TEXTS,), {"padding": True, "truncation": True, "return_tensors": "pt"}),
    "arrays": ((TEXTS,), {"padding": "longest", "return_tensors": "np"}),
    "pairs": ((TEXTS, OTHERS), {"padding": True, "truncation": True, "return_tensors": "pt"}),
    "pairs as tuples": (([*zip(TEXTS, OTHERS, strict=True)],), {"padding": True}),
    "cut": ((TEXTS, OTHERS), {"padding": True, "truncation": True, "max_length": 9, "return_tensors": "pt"}),
    "an odd number": ((TEXTS, OTHERS), {"padding": True, "truncation": True, "max_length": 10}),
    "one length": ((TEXTS,), {"padding": "max_length", "truncation": True, "max_length": 8}),
    "at least one length": ((TEXTS,), {"padding": "max_length", "max_length": 8}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_inputs_are_those_of_transformers(tmp_path, name, kind):
    directory = MINI if kind == "bert" else write(tmp_path, "BPE", tokenizer_class="RobertaTokenizer")
    arguments, keywords = CASES[name]
    ours = cloze.load_tokenizer(directory)(*arguments, **keywords)
    theirs = AutoTokenizer.from_pretrained(directory)(*arguments, **keywords)
    assert ours.keys() == theirs.keys()
    for key, values in ours.items():
        expected = theirs[key]
        assert type(values) is type(expected), key
        assert getattr(values, "dtype", None) == getattr(expected, "dtype", None)
        assert (values == expected).all() if hasattr(values, "dtype") else values == expected, key


@pytest.mark.parametrize("padding", [False, True])
def test_no_texts_are_arrays_without_rows(padding):
    tokenizer = cloze.load_tokenizer("cloze-mini")
    assert tokenizer([], padding=padding)["input_ids"] == []
    assert tokenizer([], padding=padding, return_tensors="np")["input_ids"].shape == (0, 0)


@pytest.mark.parametrize(
    ("keywords", "error", "named"),
    [
        ({"return_tensors": "pt"}, cloze.InputError, "padding=True"),
        (
            {"return_tensors": "pt", "padding": "max_length", "max_length": 8},
            cloze.InputError,
            "truncation=True",
        ),
        ({"return_tensors": "tf"}, cloze.InputError, "return_tensors"),
        ({"paddin": True}, TypeError, "padding=…"),
    ],
)
def test_wrong_arguments_are_named(keywords, error, named):
    with pytest.raises(error, match=named):
        cloze.load_tokenizer("cloze-mini")(TEXTS, **keywords)


@torch.inference_mode()
def test_an_encoder_takes_the_inputs():
    inputs = cloze.load_tokenizer("cloze-mini")(TEXTS, OTHERS, padding=True, return_tensors="pt")
    found = cloze.load_encoder("cloze-mini").eval()(**inputs)
    theirs = AutoModel.from_pretrained(MINI).eval()(**inputs)
    mask = inputs["attention_mask"].bool()
    torch.testing.assert_close(
        found.sequence_output[mask], theirs.last_hidden_state[mask], rtol=1e-4, atol=1e-4
    )
