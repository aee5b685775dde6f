"""README.md of an exported graph: labels, lengths, license, and a snippet that runs as it is."""

from collections.abc import Sequence
from pathlib import Path

from cloze.artifacts import CARD_FILE, LEARNED_FROM, SCORED_ON, read_card
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE
from cloze.markdown import code_block, code_span, front_matter
from cloze.models.config_file import load_labels
from cloze.training.model_card import BaseModel

_MAX_LABELS = 50
_SNIPPET = """\
import numpy
import onnxruntime
import tokenizers

tokenizer = tokenizers.Tokenizer.from_file("tokenizer.json")
tokenizer.enable_truncation({length})
tokenizer.enable_padding()
encodings = tokenizer.encode_batch(["A dog runs.", "Stocks fell again on Monday."])
session = onnxruntime.InferenceSession("model.onnx")
outputs = session.run(
    None,
    {{
        "input_ids": numpy.array([each.ids for each in encodings]),
        "attention_mask": numpy.array([each.attention_mask for each in encodings]),
        "token_type_ids": numpy.array([each.type_ids for each in encodings]),
    }},
)
"""
_SHAPES = """\
for output, values in zip(session.get_outputs(), outputs):
    print(output.name, values.shape)
"""
_LABELS = """\
labels = {labels!r}
for row in outputs[0]:
    print({answer})
"""
_TAGS = """\
labels = {labels!r}
for encoding, rows in zip(encodings, outputs[0]):
    print([(token, labels[row.argmax()]) for token, row in zip(encoding.tokens, rows) if token != "[PAD]"])
"""


def export_card(
    model: str, checkpoint: Path, *, head: str, outputs: Sequence[str], max_length: int, precision: str
) -> str:
    """Return the card of a graph of `model`, as the user named it; the card of `checkpoint` names the license."""
    base = BaseModel.read(model, checkpoint)
    labels = load_labels(checkpoint) if "logits" in outputs else ()
    shown = [code_span(label) for label in labels[:_MAX_LABELS]]
    more = [f"… ({len(labels):,} in `config.json`)"] if len(labels) > _MAX_LABELS else []
    facts = {
        "Head": f"`{head}`, outputs {', '.join(f'`{name}`' for name in outputs)}",
        "Labels": ", ".join([*shown, *more]) or "none",
        "Length": f"at most {max_length:,} tokens, [CLS] and [SEP] included",
        "Precision": precision,
        "License": "unknown; that of the model applies" if base.license is None else f"`{base.license}`",
        "Model": code_span(base.name),
    }
    problem_type = read_json(checkpoint / CONFIG_FILE).get("problem_type")
    snippet = _SNIPPET.format(length=max_length) + _last_lines(head, labels, problem_type)
    return "\n".join(
        [
            *front_matter({"license": base.license or "unknown", "base_model": base.name}),
            "",
            f"# {' '.join(Path(model).name.split())} as an ONNX graph",
            "",
            *(f"- {name}: {text}" for name, text in facts.items()),
            "",
            "Run this in the directory of this file (`pip install numpy onnxruntime tokenizers`):",
            "",
            code_block(snippet.rstrip("\n"), "python"),
            "",
            f"Written by cloze; `{CARD_FILE}` of the model describes its data and its limits.",
            "",
            *_data_of(checkpoint),
        ]
    )


def _data_of(checkpoint: Path) -> list[str]:
    """Return the lines about data in the card of a run, so that scores on these data are told as such."""
    lines = read_card(checkpoint).splitlines()
    rows = [
        line for line in lines if line.startswith(tuple(f"| {role} |" for role in (LEARNED_FROM, SCORED_ON)))
    ]
    return (
        ["## Data", "", "|  | data | extent | SHA-256 |", "| --- | --- | --- | --- |", *rows, ""]
        if rows
        else []
    )


def _last_lines(head: str, labels: Sequence[str], problem_type: object) -> str:
    """Return the lines that print the answers."""
    if not labels:
        return _SHAPES
    if head == "BertForTokenClassification":
        return _TAGS.format(labels=list(labels))
    if head != "BertForSequenceClassification" or len(labels) < 2:
        return _SHAPES
    answer = "labels[row.argmax()]"
    if problem_type == "multi_label_classification":
        answer = "[label for label, logit in zip(labels, row) if logit > 0]"
    return _LABELS.format(labels=list(labels), answer=answer)
