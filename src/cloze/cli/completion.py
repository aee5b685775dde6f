"""`cloze completion`: print a script that completes verbs, flags and tasks in a shell."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Literal, TypeAlias

from tyro.conf import Positional, arg

from cloze.cli import VERBS, module_name, options
from cloze.cli.parser import Flag, flags_of

Flags: TypeAlias = Mapping[str, list[Flag]]
"""The flags of each verb."""

_TASK_VERBS = ("finetune", "evaluate", "predict", "score", "baseline", "tasks", "help")
_SHELLS = ("bash", "zsh", "fish")
_BASH = """\
_cloze() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" verb="${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" flags= names=
    if [ "$COMP_CWORD" -eq 1 ]; then verb=; fi
    case "$verb" in
{cases}
    esac
    if [ "$COMP_CWORD" -gt 2 ]; then names=; fi
    case "$word" in -*) names="$flags" ;; esac
    COMPREPLY=($(compgen -W "$names" -- "$word"))
}}
complete -o default -F _cloze cloze"""
_ZSH = """\
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}
autoload -Uz bashcompinit && bashcompinit
{bash}"""


def run(
    shell: Annotated[Positional[Literal["bash", "zsh", "fish"]], arg(metavar="{bash,zsh,fish}")],
    /,
    *,
    flags: options.Flags,
) -> None:
    """Print a script that completes verbs, flags and names of tasks.

    For bash or zsh: source <(cloze completion bash). For fish: cloze completion fish | source.

    Args:
        shell: The shell that reads the script.
    """
    from cloze.tasks.registry import tasks

    verbs = {verb: flags_of(import_module(module_name(verb)).run, f"cloze {verb}") for verb in VERBS}
    names = {verb: second_words(verb) for verb in VERBS}
    for verb in _TASK_VERBS:
        names[verb] += sorted(tasks())
    names["completion"] += _SHELLS
    if shell == "fish":
        script = "\n".join(_fish_lines(verbs, names))
    else:
        bash = _BASH.format(cases="\n".join(_bash_cases(verbs, names)))
        script = bash if shell == "bash" else _ZSH.format(bash=bash)
    flags.print({"shell": shell, "script": script}, script)


def second_words(verb: str) -> list[str]:
    """Return the second words of the verbs that start with a verb; of help, the first words of all."""
    if verb == "help":
        return [name for name in VERBS if " " not in name]
    return [name.removeprefix(f"{verb} ") for name in VERBS if name.startswith(f"{verb} ")]


def _bash_cases(verbs: Flags, names: Mapping[str, list[str]]) -> Iterator[str]:
    yield f'        "") names="{" ".join(names["help"])}" flags="--help --version" ;;'
    for verb in sorted(verbs, key=lambda verb: -verb.count(" ")):  # "vocab extend" before "vocab"
        pattern = f'"{verb}"' if " " in verb else f'"{verb} "*'
        flags = " ".join(flag.name for flag in verbs[verb])
        yield f'        {pattern}) flags="{flags}" names="{" ".join(names[verb])}" ;;'


def _fish_lines(verbs: Flags, names: Mapping[str, list[str]]) -> Iterator[str]:
    for verb, summary in VERBS.items():
        first, _, second = verb.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}"
        if second:
            condition = f"{seen}; and __fish_seen_subcommand_from {second}"
            yield f"complete -c cloze -n {_quote(seen)} -a {second} -d {_quote(summary)}"
        else:
            others = second_words(verb) if verb != "help" else []
            condition = f"{seen}; and not __fish_seen_subcommand_from {' '.join(others)}" if others else seen
            yield f"complete -c cloze -n __fish_use_subcommand -a {verb} -d {_quote(summary)}"
            if words := [name for name in names[verb] if name not in others]:
                yield f"complete -c cloze -n {_quote(seen)} -a {_quote(' '.join(words))}"
        for flag in verbs[verb]:
            short = f" -s {flag.short[1:]}" if flag.short else ""
            yield (
                f"complete -c cloze -n {_quote(condition)} -l {flag.name[2:]}{short} -d {_quote(flag.description)}"
            )


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
