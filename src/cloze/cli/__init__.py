"""The command line: verb first. A verb's module is imported only when the verb is called.

A verb of two words ("vocab extend") is a line in `VERBS` like any other; its module has "_" for the space, or for "-".
"""

import io
import keyword
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module, metadata
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from cloze.errors import ClozeError

VERBS = {
    "demo": "the whole life of a BERT on bundled text, in a few minutes on two CPU cores",
    "vocab": "learn a WordPiece vocabulary from text",
    "vocab extend": "add words to a vocabulary that is there",
    "vocab inspect": "what a vocabulary does to a text, beside others",
    "corpus": "tokenise text once into a data set on disk",
    "corpus merge": "make a data set of what the tasks of a job array have finished",
    "corpus audit": "what is in a data set, and what training will draw from it",
    "pretrain": "pre-train an encoder: masked words and next sentence",
    "finetune": "fine-tune a model on labelled data",
    "baseline": "scores on labelled data that need no model: what one has to be better than",
    "tasks": "what there is to fine-tune for, with its data, metric and source",
    "evaluate": "scores of a model on labelled data",
    "score": "scores of a file of predictions, no model needed",
    "predict": "predictions of a fine-tuned model, as JSON lines",
    "glue-submission": "the eleven files of GLUE's server in a zip",
    "reproduce": "a table of the BERT paper with your models' scores beside the published ones",
    "study": "runs of pre-training that differ in what is asked about, compared over the same seeds",
    "fill": "fill in the [MASK]s of a text",
    "next": "say whether sentence B follows sentence A",
    "embed": "vectors of texts or of their words",
    "neighbours": "what is nearest to a text among vectors, or to a word in a model's table",
    "attention": "where each piece of a text looks, in every layer and head, as one HTML file",
    "serve": "answer over HTTP, with a page to try models and look into them",
    "import": "make a checkpoint of a model that Google's program or transformers wrote",
    "export": "make an ONNX graph of a model, checked against torch",
    "info": "what a directory is, and whether its files are as they were written",
    "report": "the curves of a run in one HTML file",
    "plan": "hours, network and storage of a pre-training run on many accelerators, by calculation",
    "bench": "side-by-side speed measurements",
}

EXIT_FAILURE = 1
EXIT_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run one verb; return 0 done, 1 failed while running, 2 wrong input or usage, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # file names need not be Unicode, nor terminals know it
            stream.reconfigure(errors="backslashreplace")
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"cloze {metadata.version('cloze-bert')}")
        return 0
    verb, rest = split_verb(arguments)
    return _unknown_verb(arguments[0]) if verb is None else _run_verb(verb, rest)


def split_verb(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Part the verb from what follows it; "vocab extend" goes before "vocab", and None is no verb."""
    for words in (2, 1):
        verb = " ".join(arguments[:words])
        if verb in VERBS:
            return verb, arguments[words:]
    return None, arguments


def module_of(verb: str) -> str:
    """Return the name of the module whose `run` is the verb; a keyword of Python's cannot be one."""
    name = verb.replace(" ", "_").replace("-", "_")
    return f"cloze.cli.{name}_" if keyword.iskeyword(name) else f"cloze.cli.{name}"


def _run_verb(verb: str, arguments: list[str]) -> int:
    from cloze.errors import ClozeError

    try:
        module = import_module(module_of(verb))
        parse: Callable[..., Callable[[], None]] = import_module("cloze.cli.usage").parse
        parse(module.run, verb, arguments)()
        sys.stdout.flush()  # a full disk or a reader that left shows here, not when Python ends
    except SystemExit:  # --help has been printed
        for longer in (each for each in VERBS if each.startswith(f"{verb} ")):
            print(f"See also cloze {longer} --help: {VERBS[longer]}.")
        raise
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError as error:
        if _is_unread(sys.stdout):  # as `| head` leaves
            _flush_or_forget_stdout()
            return 0
        with suppress(OSError):
            print(f"error: {_in_one_line(error)}", file=sys.stderr)
        return EXIT_FAILURE
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        told = error if isinstance(error, ClozeError) else _in_one_line(error)
        print(f"error: {told}", file=sys.stderr)
        return told.exit_code
    return 0


def _in_one_line(error: Exception) -> "ClozeError":
    """Say what stopped a verb though nobody expected it to: the system, or a mistake of ours."""
    from cloze.errors import RunError
    from cloze.training.memory import is_out_of_memory

    if is_out_of_memory(error):
        return RunError("out of memory", remedy="Use a smaller model, shorter texts or fewer --workers")
    if isinstance(error, OSError):
        _flush_or_forget_stdout()
        return RunError(error.strerror or str(error), where=error.filename)
    remedy = "This is a bug in cloze: --debug shows where"
    return RunError(f"{type(error).__name__}: {error}", remedy=remedy)


def _is_unread(stream: TextIO) -> bool:
    """Say whether a stream is a pipe that nobody reads any more."""
    import select

    try:
        asked = select.poll()
        asked.register(stream.fileno(), 0)
        return any(event & select.POLLERR for _, event in asked.poll(0))
    except io.UnsupportedOperation:  # no file at all
        return False
    except AttributeError:  # a system that cannot say; it is nearly always so
        return True


def _flush_or_forget_stdout() -> None:
    """Keep Python from failing at its end to write what is left for stdout, with a traceback of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unknown_verb(word: str) -> int:
    import difflib

    near = difflib.get_close_matches(word, VERBS, n=1)
    hint = f"Did you mean {near[0]}?" if near else "cloze --help lists the verbs."
    print(f"error: no verb {word!r}. {hint}", file=sys.stderr)
    return 2


def _help() -> str:
    width = max(map(len, VERBS)) + 2
    verbs = "\n".join(f"  {name:<{width}}{text}" for name, text in VERBS.items())
    return (
        "usage: cloze VERB …\n\n"
        f"BERT, whole: from raw text to answers.\n\n{verbs}\n\n"
        "cloze VERB --help tells more; --debug shows the traceback of an error, --quiet hides progress.\n"
        "Exit codes: 0 done, 1 failed while running, 2 wrong input or usage, 130 interrupted."
    )
