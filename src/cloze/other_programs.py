"""Recognize model directories that cloze cannot read, and tell how to convert them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE, TORCH_WEIGHTS_FILE, WEIGHTS_FILE, WEIGHTS_INDEX_FILE

_READ = (WEIGHTS_FILE, WEIGHTS_INDEX_FILE, TORCH_WEIGHTS_FILE)
"""Files of weights that cloze reads; a TensorFlow checkpoint has a file that ends in .index."""
_HEADS_OF_ADAPTERS = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "QUESTION_ANS": "ForQuestionAnswering",
}
"""The ends of the names of the classes in transformers, by the task of an adapter."""
_CONVERT = (
    "Convert it with transformers{}: {{model_class}}.from_pretrained(DIR{}).save_pretrained(DIR) adds weights"
)


class _Kind(NamedTuple):
    """A kind of directory, known by its files."""

    files: tuple[str, ...]
    """Patterns of file names; one match is enough."""
    what: str
    remedy: str


_KINDS = (
    _Kind(
        ("pytorch_model.bin.index.json", "pytorch_model-*.bin"),
        "a PyTorch model in several files",
        _CONVERT.format("", ""),
    ),
    _Kind(("*.gguf",), "a model of llama.cpp", "Give the model that it was converted from"),
    _Kind(
        ("tf_model.h5", "tf_model*.h5"),
        "a TensorFlow model of transformers",
        _CONVERT.format(" 4", ", from_tf=True"),
    ),
    _Kind(
        ("flax_model.msgpack", "flax_model*.msgpack"),
        "a Flax model of transformers",
        _CONVERT.format(" 4", ", from_flax=True"),
    ),
    _Kind(
        ("*.weights.h5", "*.keras", "saved_model.pb", "*.h5", "*.hdf5"),
        "a model of Keras or TensorFlow",
        "Give the checkpoint that it was made from, or save its encoder as a model of transformers",
    ),
    _Kind(
        ("zero_to_fp32.py", "global_step*", "*_model_states.pt"),
        "a checkpoint of DeepSpeed",
        "Collect its weights: python zero_to_fp32.py . pytorch_model.bin, beside config.json",
    ),
    _Kind(
        ("final-model.pt", "best-model.pt"),
        "a model of flair",
        "Save its encoder in flair: tagger.embeddings.model.save_pretrained(NEW), its tokenizer likewise, and give NEW",
    ),
    _Kind(("config.cfg",), "a pipeline of spaCy", "Give the transformers model that it was trained from"),
    _Kind(
        ("*.ckpt",),
        "a checkpoint of Lightning",
        "Save the encoder in it: model.save_pretrained(NEW), its tokenizer likewise, and give NEW",
    ),
    _Kind(
        ("dict.txt",),
        "a model of fairseq",
        "Convert it with transformers' convert_roberta_original_pytorch_checkpoint_to_pytorch.py",
    ),
    _Kind(("*.onnx",), "an ONNX graph", "Give its model, or a graph of cloze export"),
    _Kind(("*.tar.gz", "*.tgz", "*.tar", "*.zip"), "a packed model", "Unpack {file} into the directory"),
    _Kind(
        ("optimizer.pt", "optimizer.bin", "trainer_state.json", "training_args.bin"),
        "a checkpoint of a Trainer without its weights",
        "Give one with model.safetensors, as trainer.save_model(NEW) writes it",
    ),
)


def refuse_other_program(directory: Path) -> None:
    """Refuse a directory without weights that cloze reads, if it is known to be of another program.

    Raises:
        InputError: it says what the directory is, and what to give instead.
    """
    names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    if any(name in _READ or (name.endswith(".index") and "ckpt" in name) for name in names):
        return
    if "adapter_config.json" in names:
        base, model_class, labels = _model_of_adapter(directory / "adapter_config.json")
        merge = f"AutoPeft{model_class}.from_pretrained(DIR{labels}).merge_and_unload().save_pretrained(NEW)"
        remedy = (
            f"Merge it in peft: {merge}, and AutoTokenizer.from_pretrained({base!r}).save_pretrained(NEW)"
        )
        raise InputError(f"an adapter for {base}, without the model", where=directory, remedy=remedy)
    if checkpoints := _checkpoints_of_trainer(names):
        what = f"the output of a Trainer with {len(checkpoints)} checkpoints and no model of its own"
        raise InputError(
            what, where=directory, remedy=f"Give one of them, as in {directory / checkpoints[-1]}"
        )
    for kind in _KINDS:
        files = [path.name for pattern in kind.files for path in sorted(directory.glob(pattern))]
        if files:
            remedy = kind.remedy.format(file=files[0], model_class=_model_class(directory))
            raise InputError(
                f"{kind.what} ({files[0]}), which cloze does not read", where=directory, remedy=remedy
            )


def _model_of_adapter(file: Path) -> tuple[str, str, str]:
    """Return the name of the model that an adapter changes, the end of its class's name, and arguments for labels."""
    table = read_json(file)
    head = _HEADS_OF_ADAPTERS.get(str(table.get("task_type")), "")
    labels = ", num_labels=N" if head.endswith("Classification") else ""
    return str(table.get("base_model_name_or_path") or "MODEL"), f"Model{head}", labels


def _model_class(directory: Path) -> str:
    """Return the class of a model in transformers, by its config.json."""
    config = directory / CONFIG_FILE
    architectures = read_json(config).get("architectures") if config.is_file() else None
    name = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    return name.removeprefix("TF").removeprefix("Flax") or "AutoModel"


def _checkpoints_of_trainer(names: Sequence[str]) -> list[str]:
    """Return the names of checkpoints, as in checkpoint-500, in the order of their steps."""
    steps = [
        int(name.removeprefix("checkpoint-"))
        for name in names
        if name.removeprefix("checkpoint-").isdecimal()
    ]
    return [f"checkpoint-{step}" for step in sorted(steps) if f"checkpoint-{step}" in names]
