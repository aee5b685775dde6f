"""Look into models, and convert them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from cloze import artifacts
from cloze.arguments import check_path, check_text
from cloze.choices import GeluForm, GraphPrecision
from cloze.errors import InputError
from cloze.export.int8 import Int8Report, export_int8
from cloze.file_io import write_text
from cloze.inference import encoder_internals
from cloze.inference import explain as explanations
from cloze.inference.encoder_internals import AttentionMap
from cloze.inference.ensemble import as_predictor
from cloze.inference.explain import ExplainConfig, Explanation, check_explainable
from cloze.inference.loading import Checkpoint
from cloze.inference.predictor import Predictor
from cloze.models import importing
from cloze.models.external_weights import ExternalModel
from cloze.models.heads import BertForFeatureExtraction
from cloze.optional_dependencies import require
from cloze.reports.attention_page import attention_page
from cloze.reports.explanation_page import ExplainedText, write_explanations
from cloze.tasks.memory import as_file

if TYPE_CHECKING:  # ONNX Runtime is optional
    from cloze.export.onnx import ExportReport


def explain(
    model: str | Path | Predictor,
    texts: Any,
    output: str | Path | None = None,
    *,
    config: ExplainConfig | None = None,
    device: str = "auto",
    overwrite: bool = False,
) -> Any:
    """Return the contribution of each word to the prediction for a text, by integrated gradients.

    Args:
        model: a fine-tuned checkpoint or run, or a loaded model.
        texts: one text or pair, or any number, as for the model.
        output: HTML file with the words shaded by attribution; None writes none.
        config: settings of the method.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output.

    Returns:
        An `Explanation`, or a list of them.

    Raises:
        InputError: the task has no logit for a whole text, a text is wrong, or the output exists.
    """
    if output is not None:
        artifacts.check_output_path(check_path(output, "output"), overwrite=overwrite, directory=False)
    predictor = as_predictor(
        model if isinstance(model, Predictor) else check_path(model, "model"), device=device
    )
    check_explainable(predictor)
    is_one = isinstance(texts, (str, tuple))
    if not is_one and hasattr(texts, "__len__") and not len(texts):
        return []
    task, file = as_file(predictor.task, [texts] if is_one else texts, "texts", labeled=False)
    examples = list(task.examples(file, labeled=False))
    predictions, _ = predictor.predict(examples)
    explained = [
        explanations.explain(predictor, example, prediction, config)
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    if output is not None:
        name = predictor.directory if isinstance(model, Predictor) else model
        pairs = list(zip(examples, explained, strict=True))
        write_explanation_page(Path(output), pairs, task=predictor.task.name, model=str(name))
    return explained[0] if is_one else explained


def write_explanation_page(
    page: Path, explained: Iterable[tuple[Any, Explanation]], *, task: str, model: str
) -> None:
    """Write an HTML file with the words of examples shaded by attribution.

    Args:
        page: the file.
        explained: examples with their explanations.
        task: name of the task.
        model: name of the model.
    """
    write_explanations(page, [ExplainedText(*pair) for pair in explained], task=task, model=model)


def attention(
    model: str | Path,
    text: str,
    pair: str | None = None,
    output: str | Path | None = None,
    *,
    device: str = "auto",
    overwrite: bool = False,
) -> AttentionMap:
    """Return queries, keys and attention weights of every head within a text, or within a pair of texts.

    >>> import cloze
    >>> attention = cloze.attention("cloze-mini", "She closed the door.")
    >>> attention.tokens[1:4], attention.layers[0].weights.shape
    (('she', 'closed', 'the'), torch.Size([4, 7, 7]))

    Args:
        model: "cloze-mini", a checkpoint or a run.
        text: the text.
        pair: a second text, read as sentence B.
        output: HTML file, which opens without a network; None writes none.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output.

    Raises:
        InputError: the text has more tokens than the model takes, the model is causal, or the output exists.
    """
    if output is not None:
        artifacts.check_output_path(check_path(output, "output"), overwrite=overwrite, directory=False)
    checkpoint = Checkpoint.open(model)
    encoder = checkpoint.load_model(BertForFeatureExtraction, device=device).bert
    second = None if pair is None else check_text(pair, "pair")
    attention = encoder_internals.attention_map(encoder, checkpoint.tokenizer, check_text(text), second)
    if output is not None:
        write_text(Path(output), attention_page(attention, model=str(model)))
    return attention


@overload
def export_model(
    model: str | Path,
    output: str | Path,
    *,
    to: Literal["onnx"] = "onnx",
    precision: GraphPrecision = "float32",
    overwrite: bool = False,
) -> "ExportReport": ...
@overload
def export_model(
    model: str | Path, output: str | Path, *, to: Literal["int8"], overwrite: bool = False
) -> Int8Report: ...
def export_model(
    model: str | Path,
    output: str | Path,
    *,
    to: Literal["onnx", "int8"] = "onnx",
    precision: GraphPrecision = "float32",
    overwrite: bool = False,
) -> "ExportReport | Int8Report":
    """Write a model with its tokenizer as an ONNX graph, or as a directory of int8 weights that cloze alone reads.

    The graph takes any batch size and length, and is checked against PyTorch before it is written.

    Args:
        model: "cloze-mini", a checkpoint, a run, or a directory of transformers or sentence-transformers.
        output: directory to write.
        to: onnx or int8.
        precision: of a graph: float32, float16, or int8 matrices and embeddings.
        overwrite: replace the output.

    Raises:
        InputError: the model is damaged, has no graph, or is too large for one file; the output exists.
        RunError: the graph differs from PyTorch, or the disk is full.
    """
    source, target = check_path(model, "model"), check_path(output, "output")
    if to == "int8":
        if precision != "float32":
            raise InputError("is that of a graph", where="precision", remedy="Leave it out")
        return export_int8(source, target, overwrite=overwrite)
    if to != "onnx":
        raise InputError(f"is {to!r}", where="to", remedy="Choose onnx or int8")
    require(["onnx", "onnxruntime"], extra="onnx", where="ONNX")
    from cloze.export.onnx import export_onnx

    return export_onnx(source, target, precision=precision, overwrite=overwrite)


def import_model(
    source: str | Path, output: str | Path, *, hidden_act: GeluForm | None = None, overwrite: bool = False
) -> ExternalModel:
    """Write a model of google-research/bert or transformers as a checkpoint, and return it.

    Needs neither TensorFlow nor transformers, and runs no pickled code.

    Args:
        source: directory of the model, or the prefix of a TensorFlow checkpoint.
        output: directory of the checkpoint.
        hidden_act: the form that "gelu" means in a model of Google's; None is gelu_tanh.
        overwrite: replace the output.

    Raises:
        InputError: a file is missing or damaged, or the output exists.
        RunError: the disk is full or cannot be written.
    """
    paths = check_path(source, "source"), check_path(output, "output")
    return importing.import_model(*paths, hidden_act=hidden_act, overwrite=overwrite)
