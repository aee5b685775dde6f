"""No verb but `push` opens a connection, unless a name with hf:// or a URL is given."""

import shlex

import pytest
from samples import NANO, NANO_TASK, Samples, fill_in, sample_paths

from cloze.cli import VERBS, main, split_verb
from cloze.serving.served_model import ServedModel

pytestmark = pytest.mark.protected

COMMANDS = (
    "vocab {text} -o {tmp}/vocab --size 500 --workers 1",
    "vocab extend {vocab} {text} -o {tmp}/extended --number 2 --workers 1",
    "vocab inspect {vocab} {text} --workers 1",
    "corpus {text} --vocabulary {vocab} -o {tmp}/data --workers 1",
    "corpus {text} --vocabulary {vocab} -o {tmp}/merged --workers 1 --task 1/1",
    "corpus merge {tmp}/merged",
    "corpus audit {data}",
    f"pretrain --data {{data}} -o {{tmp}}/run --steps 1 {shlex.join(NANO)}",
    f"finetune classification -m {{run}} -d {{table}} -o {{tmp}}/classifier --epochs 1 {' '.join(NANO_TASK)}",
    "baseline classification -d {table}",
    "tasks",
    "evaluate -m {classifier} -d {table}",
    "predict -m {classifier} {table} -o {tmp}/predictions.jsonl",
    "score classification {tmp}/predictions.jsonl {table}",
    "fill -m cloze-mini 'She closed the [MASK].'",
    "next -m {run} 'It was dark.' 'It was night.'",
    "embed {text} -m {run} -o {tmp}/vectors.npy",
    "neighbors night -m {run}",
    "attention night -m {run} -o {tmp}/attention.html",
    "import cloze-mini -o {tmp}/imported",
    "export {classifier} -o {tmp}/graph",
    "info {run}",
    "report {run}",
    "completion bash",
    "help classification",
)
REFUSED = {
    "fill -m org/name 'She closed the [MASK].'": "no such directory, and no such model in the cache of the Hub",
    "embed {text} -m nowhere -o {tmp}/x.npy": "no such file, directory or bundled model",
    "corpus {text} --vocabulary org/name -o {tmp}/x": "hf://org/name downloads it",
    "glue-submission -m org/name -d {tmp} -o {tmp}/x.zip": "hf://org/name downloads it",
    "finetune classification -m org/name -d {table} -o {tmp}/x": "hf://org/name downloads it",
    "import org/name -o {tmp}/x": "hf://org/name downloads it",
    "info org/name": "hf://org/name downloads it",
}
NOT_HERE = {"demo", "serve", "push"}
"""tests/demo/test_demo.py; below; writes to the Hub."""


def test_every_verb_is_here():
    verbs = {split_verb(shlex.split(command))[0] for command in (*COMMANDS, *REFUSED)}
    assert verbs == {*VERBS} - NOT_HERE


@pytest.mark.slow
def test_verbs_open_no_connection(connections, samples: Samples, tmp_path, capsys):
    paths = sample_paths(tmp_path, samples)
    for command in COMMANDS:
        code = main([*shlex.split(fill_in(command, paths)), "--quiet"])
        assert code == 0, (command, capsys.readouterr().err)
        assert connections == [], command


@pytest.mark.parametrize(("command", "message"), REFUSED.items())
def test_mistyped_names_open_no_connection(
    connections, samples: Samples, tmp_path, capsys, monkeypatch, command, message
):
    words = shlex.split(fill_in(command, sample_paths(tmp_path, samples)))
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert connections == []


def test_served_models_open_no_connection(connections, samples: Samples):
    assert ServedModel.load("run", samples.run).abilities
    assert connections == []


def test_the_refusal_works(connections, capsys):
    assert main(["fill", "-m", "hf://org/name", "She closed the [MASK]."]) == 1
    assert "hf://org/name: no connection to " in capsys.readouterr().err
    assert connections
