"""Answer with an encoder, explain predictions, and import and export models."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cloze.choices import GeluForm, GraphPrecision
from cloze.options import Device, ModelPath, ModelPrecision, Overwrite
from cloze.signatures import checks_arguments

if TYPE_CHECKING:  # not needed for --help
    from cloze.explorer.encoder_internals import AttentionMap
    from cloze.export.onnx import ExportReport
    from cloze.inference.explain import ExplainConfig
    from cloze.inference.predictor import Predictor
    from cloze.inference.pretrained_heads import FilledText, NextSentencePrediction
    from cloze.models.external_weights import ExternalModel


@checks_arguments()
def fill(
    texts: str | Sequence[str] = (),
    *,
    model: ModelPath,
    top_k: int = 5,
    long_texts: Literal["windows"] | None = None,
    device: Device = "auto",
    precision: ModelPrecision = None,
) -> "list[FilledText]":
    """Predict the most probable tokens for each [MASK] of texts.

    >>> import cloze
    >>> [filled] = cloze.fill("She closed the [MASK] behind her.", model="cloze-mini", top_k=1)
    >>> filled.masks[0][0].token
    'door'

    Args:
        texts: one or more texts; - reads them from stdin, one per line.
        top_k: number of tokens per mask.
        long_texts: windows reads as much of a long text as fits around each mask (default: refuse it).
    """
    from cloze.data.reading.files import read_lines_of_stdin
    from cloze.inference.pretrained_heads import FillMask

    fill_mask = FillMask.load(model, device=device, precision=precision)
    read = read_lines_of_stdin([texts] if isinstance(texts, str) else texts)
    return fill_mask.fill_texts(read, top_k=top_k, long_texts=long_texts)


@checks_arguments()
def next_sentence(
    sentence_a: str,
    sentence_b: str,
    *,
    model: ModelPath,
    device: Device = "auto",
    precision: ModelPrecision = None,
) -> "NextSentencePrediction":
    """Predict whether sentence B follows sentence A.

    Args:
        sentence_a: first sentence; - reads it from stdin, a single line.
        sentence_b: second sentence; or -.
    """
    from cloze.data.reading.files import read_line_of_stdin
    from cloze.inference.pretrained_heads import NextSentence

    pair = read_line_of_stdin(sentence_a, "sentence_a"), read_line_of_stdin(sentence_b, "sentence_b")
    return NextSentence.load(model, device=device, precision=precision)(*pair)


@checks_arguments()
def attention(
    text: str,
    *,
    model: ModelPath,
    output: str | Path | None = None,
    pair: str | None = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
) -> "AttentionMap":
    """Compute queries, keys and attention weights of every head within a text, or within a pair of texts.

    >>> import cloze
    >>> attention = cloze.attention("She closed the door.", model="cloze-mini")
    >>> attention.tokens[1:4], attention.layers[0].weights.shape
    (('she', 'closed', 'the'), torch.Size([4, 7, 7]))

    Args:
        text: text, in quotes; - reads it from stdin, a single line.
        output: HTML file with the weights; it opens without a network (default: none).
        pair: second text, read as sentence B.
    """
    from cloze.artifacts import check_output_path
    from cloze.data.reading.files import read_line_of_stdin
    from cloze.explorer.encoder_internals import attention_map
    from cloze.file_io import write_text
    from cloze.inference.answerer import open_model

    if output is not None:
        check_output_path(Path(output), overwrite=overwrite, directory=False)
    opened = open_model(model, device=device)
    first = read_line_of_stdin(text)
    second = None if pair is None else read_line_of_stdin(pair, "pair")
    attention = attention_map(opened.encoder, opened.tokenizer, first, second)
    if output is not None:
        write_text(Path(output), attention.page(model=str(model)))
    return attention


@checks_arguments()
def explain(
    texts: Any,
    *,
    model: "str | Path | Predictor",
    output: str | Path | None = None,
    config: "ExplainConfig | None" = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
) -> Any:
    """Return the contribution of each word to the prediction for a text, by integrated gradients.

    Args:
        texts: one text or pair, or any number, as for the model.
        model: a fine-tuned checkpoint or run, or a loaded model.
        output: HTML file with the words shaded by attribution; None writes none.
        config: settings of the method.

    Returns:
        An `Explanation`, or a list of them.
    """
    from cloze.artifacts import check_output_path
    from cloze.inference import explain as explanations
    from cloze.inference.load import as_predictor
    from cloze.inference.predictor import Predictor
    from cloze.reports.explanation_page import write_explanations
    from cloze.tasks.data import read_memory

    if output is not None:
        check_output_path(Path(output), overwrite=overwrite, directory=False)
    predictor = as_predictor(model, device=device)
    explanations.check_explainable(predictor)
    is_one = isinstance(texts, (str, tuple))
    if not is_one and hasattr(texts, "__len__") and not len(texts):
        return []
    task, rows = read_memory(predictor.task, [texts] if is_one else texts, "texts", labeled=False)
    examples = list(task.examples(rows, labeled=False))
    predictions, _ = predictor.predict(examples)
    explained = [
        explanations.explain(predictor, example, prediction, config)
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    if output is not None:
        name = predictor.directory if isinstance(model, Predictor) else model
        shown = list(zip(examples, explained, strict=True))
        write_explanations(Path(output), shown, task=predictor.task.name, model=str(name))
    return explained[0] if is_one else explained


@checks_arguments()
def export_model(
    model: str | Path,
    *,
    output: str | Path,
    precision: GraphPrecision = "float32",
    overwrite: Overwrite = False,
) -> "ExportReport":
    """Export a model with its tokenizer as an ONNX graph.

    The graph takes any batch size and length, has pooling and normalization of sentence encoders, and is checked
    against PyTorch before it is written.

    Args:
        model: cloze-mini, a checkpoint, a run, a directory of transformers or sentence-transformers, or hf://org/name.
        output: directory to write.
        precision: number format of the graph: float32; float16 for weights and arithmetic; or int8 for matrices and
            embeddings.
    """
    from cloze.models.engine import GRAPH_PACKAGES
    from cloze.optional_dependencies import require

    require(GRAPH_PACKAGES, extra="onnx", where="ONNX")
    from cloze.export.onnx import export_onnx

    return export_onnx(Path(model), Path(output), precision=precision, overwrite=overwrite)


@checks_arguments()
def import_model(
    source: str | Path,
    *,
    output: str | Path,
    hidden_act: GeluForm | None = None,
    overwrite: Overwrite = False,
) -> "ExternalModel":
    """Convert a model of google-research/bert or transformers to a checkpoint.

    Needs neither TensorFlow nor transformers, and runs no pickled code.

    Args:
        source: directory with bert_config.json, vocab.txt and a TensorFlow checkpoint, prefix of the checkpoint, as in
            uncased_L-12_H-768_A-12/bert_model.ckpt; or directory of transformers or hf://org/name, also with
            pytorch_model.bin.
        output: directory of the checkpoint.
        hidden_act: meaning of "gelu" in Google's bert_config.json: gelu_tanh (default), as in google-research/bert
            since February 2019, or gelu (exact), as before and in transformers.

    Returns:
        The model, with its tokenizer and labels.
    """
    from cloze.artifacts import check_output_path, write_directory
    from cloze.errors import InputError
    from cloze.models.checkpoint import KIND
    from cloze.models.external_weights import (
        find_source,
        is_google_checkpoint,
        load_external_model,
        write_imported,
    )

    target = Path(output)
    check_output_path(target, overwrite=overwrite)
    place = find_source(Path(source))
    check_output_path(target, overwrite=overwrite, inputs=[place])
    if hidden_act is not None and not is_google_checkpoint(place):
        what = "the weights are not TensorFlow's, and the configuration defines the form of gelu"
        raise InputError(what, where=place, remedy="Leave out `hidden_act`")
    external = load_external_model(place, gelu=hidden_act or "gelu_tanh")
    with write_directory(target, kind=KIND, overwrite=overwrite) as directory:
        write_imported(external, place, directory)
    return external
