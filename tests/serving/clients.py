"""Serve an application to the tests: in this process, or in a thread with a port of its own."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi.testclient import TestClient
from starlette.types import ASGIApp

from cloze.serving.app import create_app
from cloze.serving.connections import LimitedProtocol, limited_protocol
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel, load_models


class Client(TestClient):
    """A client of an application in this process."""

    def ask(self, route: str, /, **request: Any) -> Any:
        """Return the answer to a valid request."""
        response = self.post(route, json=request)
        assert response.status_code == 200, response.text
        return response.json()

    def refusal(self, route: str, /, **request: Any) -> str:
        """Return the message to an invalid request."""
        response = self.post(route, json=request)
        assert (response.status_code, response.json()["error_type"]) == (422, "Validation")
        return str(response.json()["error"])


def client_of(
    models: Mapping[str, ServedModel | Path], limits: Limits | None = None, **settings: Any
) -> Client:
    """Return a client of models, which are loaded already or are directories."""
    directories = {name: model for name, model in models.items() if isinstance(model, Path)}
    served: dict[str, Any] = {**models, **load_models(directories, device="cpu")}
    return Client(create_app(served, limits or Limits(), **settings), raise_server_exceptions=False)


@contextmanager
def listening(app: ASGIApp, http: type[LimitedProtocol] = limited_protocol(Limits())) -> Iterator[str]:  # noqa: B008
    """Serve an application in a thread; yield its address. Open requests have a second when it stops."""
    config = uvicorn.Config(app, port=0, http=http, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
