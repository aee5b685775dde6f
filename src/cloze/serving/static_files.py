"""The files of the explorer page at / and of the description of the routes at /docs."""

from pathlib import Path

from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PAGE = Path(__file__).with_name("page")
DOCS_PAGE = Path(__file__).with_name("docs_page")
_INDEXES = ("/", "/docs", "/docs/")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob:; "  # a picture is saved as PNG from a blob
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # ask whether the file has changed
}
_SCRIPT_TYPE = (
    "text/javascript; charset=utf-8"  # the registry of Windows may have another, which nosniff refuses
)


class _StaticFiles(StaticFiles):
    def get_path(self, scope: Scope) -> str:
        return "index.html" if scope["path"] in _INDEXES else super().get_path(scope)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        if path.endswith(".js"):
            response.headers["Content-Type"] = _SCRIPT_TYPE
        return response


def static_routes() -> list[BaseRoute]:
    """Return the routes of the pages and their files."""
    page, docs = (GZipMiddleware(_StaticFiles(directory=folder)) for folder in (PAGE, DOCS_PAGE))
    return [Route("/", page), Mount("/page", page), Route("/docs", docs), Mount("/docs", docs)]
