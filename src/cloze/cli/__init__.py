"""The command line: verb first. A verb's module is imported only when the verb is called."""

import sys
from importlib import import_module, metadata
from types import ModuleType

VERBS = {
    "demo": "the whole life of a BERT on bundled text, in a few minutes on two CPU cores",
    "vocab": "learn a WordPiece vocabulary from text",
    "corpus": "tokenise text once into a data set on disk",
    "pretrain": "pre-train an encoder: masked words and next sentence",
    "finetune": "fine-tune a model on labelled data",
    "predict": "predictions of a fine-tuned model, as JSON lines",
    "fill": "fill in the [MASK]s of a text",
    "next": "say whether sentence B follows sentence A",
    "info": "what a directory is, and whether its files are as they were written",
    "report": "the curves of a run in one HTML file",
    "bench": "side-by-side speed measurements",
}

EXIT_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run one verb; return 0 done, 1 failed while running, 2 wrong input or usage, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"cloze {metadata.version('cloze-bert')}")
        return 0
    if arguments[0] not in VERBS:
        return _unknown_verb(arguments[0])
    return _run_verb(arguments[0], arguments[1:])


def _run_verb(verb: str, arguments: list[str]) -> int:
    from cloze.errors import ClozeError

    try:
        module: ModuleType = import_module(f"cloze.cli.{verb}")
        _parse_and_call(module, verb, arguments)
    except ClozeError as error:
        if "--debug" in arguments:
            raise
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has left, as `| head` does
        sys.stderr.close()
        return 0
    except Exception as error:
        if "--debug" in arguments:
            raise
        summary = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"error: {summary}. This is a bug in cloze: --debug shows where.", file=sys.stderr)
        return 1
    return 0


def _parse_and_call(module: ModuleType, verb: str, arguments: list[str]) -> None:
    import tyro

    tyro.cli(
        module.run,
        prog=f"cloze {verb}",
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
    )


def _unknown_verb(word: str) -> int:
    import difflib

    near = difflib.get_close_matches(word, VERBS, n=1)
    hint = f"Did you mean {near[0]}?" if near else "cloze --help lists the verbs."
    print(f"error: no verb {word!r}. {hint}", file=sys.stderr)
    return 2


def _help() -> str:
    verbs = "\n".join(f"  {name:<10}{text}" for name, text in VERBS.items())
    return (
        "usage: cloze VERB …\n\n"
        f"BERT, whole: from raw text to answers.\n\n{verbs}\n\n"
        "cloze VERB --help tells more; --debug shows the traceback of an error, --quiet hides progress.\n"
        "Exit codes: 0 done, 1 failed while running, 2 wrong input or usage, 130 interrupted."
    )
