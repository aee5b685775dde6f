"""No verb but `push` opens a connection, unless a name with hf:// or a URL is given."""

import shlex

import pytest
from samples import NOT_USED, USES

from cloze.cli import VERBS, split_verb
from cloze.serving.served_model import ServedModel

pytestmark = pytest.mark.protected

COMMANDS = {verb: command for verb, command in USES.items() if verb != "serve"}
REFUSED = {
    "fill -m org/name 'She closed the [MASK].'": "no such directory, and no such model in the cache of the Hub",
    "embed {text} -m nowhere -o {tmp}/x.npy": "no such file, directory or bundled model",
    "corpus {text} --vocabulary org/name -o {tmp}/x": "hf://org/name downloads it",
    "glue-submission -m org/name -d {tmp} -o {tmp}/x.zip": "hf://org/name downloads it",
    "finetune classification -m org/name -d {table} -o {tmp}/x": "hf://org/name downloads it",
    "import org/name -o {tmp}/x": "hf://org/name downloads it",
    "info org/name": "hf://org/name downloads it",
}


KEYS = {
    "vocab": {"directory"},
    "corpus": {"directory", "documents", "tokens"},
    "pretrain": {
        "run",
        "masked_lm_loss",
        "masked_lm_accuracy",
        "next_sentence_loss",
        "next_sentence_accuracy",
    },
    "finetune": {"run", "accuracy", "macro_f1", "majority_accuracy"},
    "fill": {"text", "masks"},
    "next": {"is_next"},
    "info": {"path", "kind", "files_checked", "settings"},
    "report": {"report"},
}
"""Keys of the results in JSON, by verb."""


def test_every_verb_is_used():
    assert {*USES} | NOT_USED == {*VERBS}
    assert all(split_verb(shlex.split(command))[0] == verb for verb, command in USES.items())


@pytest.mark.slow
def test_verbs_are_quiet_print_json_and_open_no_connection(connections, cloze):
    for verb, command in COMMANDS.items():
        printed = cloze(command, "--quiet", "--json")
        assert all(line.startswith("warning: ") for line in printed.err.splitlines()), verb  # of the data
        if verb in KEYS:
            assert set(printed.json) >= KEYS[verb], verb
        assert connections == [], verb


@pytest.mark.parametrize(("command", "message"), REFUSED.items())
def test_mistyped_names_open_no_connection(connections, cloze, tmp_path, monkeypatch, command, message):
    monkeypatch.chdir(tmp_path)
    assert message in cloze(command, code=2).err
    assert connections == []


def test_served_models_open_no_connection(connections, samples):
    assert ServedModel.load("run", samples.run).abilities
    assert connections == []


def test_the_refusal_works(connections, cloze):
    printed = cloze("fill -m hf://org/name 'She closed the [MASK].'", code=1)
    assert "hf://org/name: no connection to " in printed.err
    assert connections
