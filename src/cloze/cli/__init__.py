"""The command line: its verbs, help, exit codes and signals."""

import atexit
import gc
import io
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cloze.text_encoding import escape_controls

if TYPE_CHECKING:
    from cloze.cli.parser import Verb

_TABLE = {
    "demo": ("training", "run the whole pipeline on bundled novels"),
    "examples": ("training", "write the data that the README and the tutorial use"),
    "vocab": ("texts", "train a WordPiece vocabulary on text"),
    "vocab extend": ("texts", "add words to a vocabulary"),
    "vocab inspect": ("texts", "show what is in a vocabulary and how it splits text"),
    "corpus": ("texts", "tokenize text into a data set on disk"),
    "corpus audit": ("texts", "measure a data set and its training instances"),
    "pretrain": ("training", "pre-train an encoder with masked LM and next sentence prediction"),
    "finetune": ("training", "fine-tune a model on labeled data"),
    "baseline": ("training", "score baselines that need no encoder"),
    "tasks": ("answers", "list the tasks, or describe one"),
    "tasks formats": ("answers", "list the formats of labeled data that are read"),
    "evaluate": ("training", "score a model on labeled data or on held-out text"),
    "score": ("training", "score a file of predictions"),
    "predict": ("answers", "print predictions of a fine-tuned model, of a file as JSON lines"),
    "next-labels": ("answers", "choose the unlabeled rows to label next"),
    "glue-submission": ("answers", "write the zip file that the GLUE server takes"),
    "fill": ("answers", "fill in the [MASK] tokens of a text"),
    "next": ("answers", "predict whether sentence B follows sentence A"),
    "embed": ("answers", "write the vectors of texts or of their words"),
    "neighbors": ("answers", "find the nearest texts or words by their vectors"),
    "search": ("answers", "find the passages of text files that are nearest to a question"),
    "attention": ("answers", "write an HTML page with the attention within a text"),
    "serve": ("models", "serve models over HTTP, with an explorer page"),
    "import": ("models", "convert a Google or Hugging Face model to a checkpoint"),
    "export": ("models", "export a model to ONNX"),
    "push": ("models", "upload a checkpoint to the Hugging Face Hub"),
    "info": ("models", "describe a directory and verify its files"),
    "report": ("models", "write the curves and settings of a run as HTML"),
    "completion": ("shell", "print a script that completes verbs, flags and tasks in a shell"),
    "help": ("shell", "show the help of a verb or describe a task"),
}
"""The module of each verb, which is imported when the verb is called, and what it does; in the order of the help."""
VERBS = {verb: text for verb, (_, text) in _TABLE.items()}
EXIT_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run a verb and return its exit code: 0 done, 1 failed, 2 wrong input or usage, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    open_closed_streams()
    escape_unprintable()
    gc.set_threshold(50_000)  # by default the import of torch searches its objects for cycles 380 times
    atexit.register(gc.freeze)  # or it does so once more at the end
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # reports a full disk or a closed stdout here instead of at exit
    except OSError as error:  # of help; verbs handle theirs
        from cloze.cli.error_report import report

        return report(error)
    except KeyboardInterrupt:  # a second one, while the first is handled
        return EXIT_INTERRUPTED


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        import cloze

        print(f"cloze {cloze.__version__}")
        if "--verbose" in arguments:
            from cloze.cli.shell import installation

            print(*installation(), sep="\n")
        return 0
    warnings.formatwarning = lambda message, *_, **__: f"{escape_controls(f'warning: {message}')}\n"
    verb, rest = split_verb(arguments)
    if verb is None:
        from cloze.suggestions import nearest

        near = nearest(arguments[0], VERBS)
        hint = f"Did you mean {near}?" if near else "cloze --help lists the verbs."
        print(f"error: no verb {arguments[0]!r}. {hint}", file=sys.stderr)
        return 2
    longer = {name: text for name, text in VERBS.items() if name.startswith(f"{verb} ")}
    epilogue = "\n\n".join(f"See also cloze {name} --help: {text}." for name, text in longer.items())
    return run_command(f"cloze {verb}", lambda: load_verb(verb), rest, epilogue=epilogue)


def open_closed_streams() -> None:
    """Open the null device in the place of a closed stdin, stdout or stderr.

    Otherwise the next file, such as an output, takes its number, and libraries print into it. Reading a closed stdin
    and writing to a closed stdout stay errors: no result is lost silently.
    """
    for descriptor, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest free number
            os.set_inheritable(descriptor, True)  # noqa: FBT003 (takes no keyword)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def escape_unprintable() -> None:
    """Print characters as escapes where the terminal's encoding lacks them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def split_verb(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Split off the verb, of two words if possible; it is None if there is no such verb."""
    for words in (2, 1):
        verb = " ".join(arguments[:words])
        if verb in VERBS:
            return verb, arguments[words:]
    return None, arguments


def load_verb(verb: str) -> "Verb":
    """Import a verb."""
    import_module(f"cloze.cli.{_TABLE[verb][0]}")
    loaded: Verb = import_module("cloze.cli.parser").VERBS[verb]
    return loaded


def run_command(command: str, load: "Callable[[], Verb]", arguments: list[str], *, epilogue: str = "") -> int:
    """Call a verb with command-line arguments and return the exit code of `main`.

    Args:
        command: words before the arguments, as in "cloze fill".
        load: returns the verb; its errors are reported as well.
        arguments: words after the command.
        epilogue: the end of the help.
    """
    from cloze import process

    process.configure_threads()  # before a verb imports torch
    interrupts, interrupted = _Interrupts(), "error: interrupted"
    try:
        parser = import_module("cloze.cli.parser")
        loaded = load()
        parsed = parser.Command(loaded, command, epilogue=epilogue)
        if {"-h", "--help"} & {*arguments}:
            parsed.print_help()
            return 0
        from cloze.errors import handle_data_warnings

        note = import_module("cloze.progress").Progress().note
        values = parsed.parse(arguments)
        if "device" in parsed.parameters:
            process.configure_memory(loaded.work)
            if loaded.work == "requests":
                interrupted = "stopped"  # Ctrl-C is how a server ends
        is_quiet = "--quiet" in arguments or parser.is_silent_rank(loaded)
        # also with --quiet: they say which rows are left out
        data_warnings = handle_data_warnings(
            lambda warning: note(f"warning: {parsed.in_flags(str(warning))}")
        )
        with interrupts.handled(), _show_checkpoints(quiet=is_quiet), data_warnings:
            parsed.call(values)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        if interrupts.received:  # within torch, which reports it as an error of its own
            print(interrupted, file=sys.stderr)
            return EXIT_INTERRUPTED
        if "--debug" in arguments and not isinstance(error, BrokenPipeError):
            print(escape_controls(traceback.format_exc()), end="", file=sys.stderr)
        from cloze.cli.error_report import report

        return report(error)
    return 0


class _Interrupts:
    """Ctrl-C and SIGTERM while a verb runs: the first removes unfinished files, the second ends the process."""

    def __init__(self) -> None:
        self.received = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at the first signal, and leave the second to the system."""
        usual: dict[signal.Signals, Any] = {
            signal.SIGINT: signal.default_int_handler,
            signal.SIGTERM: signal.SIG_DFL,
        }
        is_main = threading.current_thread() is threading.main_thread()  # other threads may not set handlers
        ours = [
            number for number, handler in usual.items() if is_main and signal.getsignal(number) == handler
        ]

        def interrupt(number: int, frame: object) -> None:
            self.received = True
            for number in ours:
                signal.signal(number, signal.SIG_DFL)
            raise KeyboardInterrupt

        for number in ours:
            signal.signal(number, interrupt)
        try:
            yield
        finally:
            if not self.received:
                for number in ours:
                    signal.signal(number, usual[number])


@contextmanager
def _show_checkpoints(*, quiet: bool) -> Iterator[None]:
    """Show on stderr which checkpoint of a run is read, once for each run."""
    from cloze.model_paths import LOG

    shown: set[str] = set()

    def emit(record: logging.LogRecord) -> None:
        if (text := record.getMessage()) not in shown:
            print(escape_controls(text), file=sys.stderr)
        shown.add(text)

    handler = logging.Handler()
    handler.emit = emit  # type: ignore[method-assign]
    level_before = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.ERROR if quiet else logging.INFO)  # ERROR hides downloads' bars, too
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level_before)


def _help() -> str:
    import textwrap

    from cloze.tables import terminal_width

    width = min(terminal_width() or 80, 80)
    column = max(map(len, VERBS)) + 2
    verbs = [
        textwrap.fill(text, width, initial_indent=f"  {verb:<{column}}", subsequent_indent=" " * (column + 2))
        for verb, text in VERBS.items()
    ]
    flags = (
        "cloze VERB --help lists the flags of a verb. Every verb takes --quiet (hide progress), --json (print the "
        "result as JSON) and --debug (show tracebacks)."
    )
    codes = "Exit codes: 0 done, 1 failed, 2 wrong input or usage, 130 interrupted."
    paragraphs = [textwrap.fill(text, width) for text in (flags, codes)]
    return "\n".join(["usage: cloze VERB …\n", "BERT from raw text to answers.\n", *verbs, "", *paragraphs])
