"""Checkpoints of ours, made of what other programs wrote."""

import shutil
from dataclasses import replace
from pathlib import Path

from cloze import artifacts
from cloze.errors import InputError
from cloze.locate import find_shipped
from cloze.model.checkpoint import CONFIG_FILE, KIND, TASK_FILE, load_config, write_model_files
from cloze.model.foreign import ForeignModel
from cloze.model.google import CONFIG_FILE as GOOGLE_CONFIG_FILE
from cloze.model.google import Activation, load_google
from cloze.model.hugging_face import load_hugging_face
from cloze.model.sentence_transformers import read_sentence_transformer, write_sentence_transformer


def import_model(
    source: Path, output: Path, *, hidden_act: Activation | None = None, overwrite: bool = False
) -> ForeignModel:
    """Write a model of google-research/bert or transformers as a checkpoint of ours, and return it.

    What sentence-transformers wrote beside it, how vectors are made, goes with it; so does the task that cloze
    fine-tuned it for, unless weights are left out.

    Args:
        source: directory of the model, or the prefix of a TensorFlow checkpoint.
        output: directory of the checkpoint.
        hidden_act: what "gelu" means where Google wrote it; see `load_google`.
        overwrite: replace the output where it exists.

    Raises:
        InputError: a file is missing or damaged, or the output exists.
        RunError: the disk is full or cannot be written.
    """
    # the prefix of a TensorFlow checkpoint is the name of no file
    if not Path(f"{source}.index").is_file():
        source = find_shipped(source)
    artifacts.refuse_existing(output, overwrite=overwrite, inputs=[source])
    if (source / CONFIG_FILE).is_file():
        if hidden_act is not None:
            what = f"{CONFIG_FILE} says which form of gelu it is"
            raise InputError(what, where=source, remedy="Leave out --hidden-act")
        found = load_hugging_face(source)
    elif source.is_dir() and not (source / GOOGLE_CONFIG_FILE).is_file():
        what = f"no model here: neither {CONFIG_FILE} nor {GOOGLE_CONFIG_FILE}"
        raise InputError(what, where=source, remedy="Give the directory of a model")
    else:
        found = load_google(source, hidden_act=hidden_act or "gelu_tanh")
    vectors = read_sentence_transformer(source)
    with artifacts.write_directory(output, kind=KIND, overwrite=overwrite) as directory:
        write_model_files(
            directory, found.model, found.tokenizer, labels=found.labels, problem_type=found.problem_type
        )
        if (source / TASK_FILE).is_file() and not found.left_out:
            shutil.copyfile(source / TASK_FILE, directory / TASK_FILE)
        if vectors is not None:
            config = load_config(directory)
            if vectors.max_seq_length is not None:  # transformers writes 10**30 where it knows no limit
                length = min(vectors.max_seq_length, config.max_position_embeddings)
                vectors = replace(vectors, max_seq_length=length)
            write_sentence_transformer(directory, vectors, hidden_size=config.hidden_size)
    return found
