"""The files of the explorer page at / and of the description of the routes at /docs.

They are read once and compressed, and a client that has a file already gets 304.

Source: RFC 9110, 8.8.3 (ETag), 12.5.3 (Accept-Encoding) and 13.1.2 (If-None-Match).
"""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cloze.serving.routes import GetRoute, ServerState

PAGE = Path(__file__).with_name("page")
DOCS_PAGE = Path(__file__).with_name("docs_page")
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob:; "  # a picture is saved as PNG from a blob
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # ask whether the file has changed
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file in memory."""

    content: bytes
    compressed: bytes
    etag: str
    media_type: str

    @classmethod
    def read(cls, path: Path) -> "StaticFile":
        """Read a file."""
        content = path.read_bytes()
        etag = f'W/"{hashlib.sha256(content).hexdigest()[:16]}"'  # weak: of both encodings
        return cls(content, gzip.compress(content, mtime=0), etag, MEDIA_TYPES[path.suffix])

    def respond(self, request: Request) -> Response:
        """Return the file, compressed if the client accepts it, or 304 if the client has it."""
        headers = {**HEADERS, "ETag": self.etag}
        tags = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
        if self.etag in tags or "*" in tags:
            return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.content, headers=headers, media_type=self.media_type)
        headers["Content-Encoding"] = "gzip"
        return Response(self.compressed, headers=headers, media_type=self.media_type)


@cache
def _read_folder(folder: Path) -> Mapping[str, StaticFile]:
    return {path.name: StaticFile.read(path) for path in folder.iterdir() if path.suffix in MEDIA_TYPES}


def _respond(folder: Path, name: str, request: Request) -> Response:
    files = _read_folder(folder)
    if name not in files:
        raise HTTPException(404, "the page has no such file")
    return files[name].respond(request)


async def page(server: ServerState, request: Request) -> Response:
    """Return the explorer page."""
    return _respond(PAGE, "index.html", request)


async def page_file(server: ServerState, request: Request, name: str) -> Response:
    """Return a file of the explorer page."""
    return _respond(PAGE, name, request)


async def docs_page(server: ServerState, request: Request) -> Response:
    """Return the page that describes and tries the routes."""
    return _respond(DOCS_PAGE, "index.html", request)


async def docs_file(server: ServerState, request: Request, name: str) -> Response:
    """Return a file of that page."""
    return _respond(DOCS_PAGE, name, request)


ROUTES = (
    GetRoute("/", page),
    GetRoute("/page/{name}", page_file),
    GetRoute("/docs", docs_page),
    GetRoute("/docs/{name}", docs_file),
)
