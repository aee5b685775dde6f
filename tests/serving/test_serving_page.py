"""docs/guides/serving.md: every curl command is answered."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from clients import Client, client_of

from cloze.serving.served_model import ServedModel

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "serving.md"
TEXT = PAGE.read_text("utf-8")
COMMAND = next(line for line in TEXT.splitlines() if line.startswith("cloze serve -m"))
COMMANDS = [
    shlex.split(command)
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for command in block.replace("\\\n", " ").splitlines()
    if command.startswith("curl ")
]


@pytest.fixture(scope="module")
def server(models: Mapping[str, ServedModel]) -> Client:
    served = re.findall(r"-m (\w+)", COMMAND)
    own = {"sst2": "classifier", "ner": "tagger", "swag": "chooser", "rank": "ranker"}
    return client_of({name: models[own.get(name, name)] for name in served})


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[2])
def test_every_curl_of_the_docs_works(server, command):
    route = command[2].removeprefix("localhost:8080")
    if "-d" not in command:
        response = server.get(route)
    else:
        body = command[command.index("-d") + 1]
        response = server.post(route, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 200, response.text
    assert json.loads(response.content)
