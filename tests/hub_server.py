"""A local server that speaks the part of the Hugging Face Hub's API that huggingface_hub uses."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from helpers import read_tree

LARGE = (".safetensors", ".bin", ".h5", ".parquet")
"""Endings of the files that the server keeps in Git LFS: others are small files of git."""
SMALL_BYTES = 5000
"""The size up to which files are always sent whole."""
_REPO = r"(?P<repo>[\w.-]+/[\w.-]+)"
_INFO = re.compile(rf"/api/(?P<kind>models|datasets)/{_REPO}(?:/revision/(?P<revision>[^/]+))?")
_TREE = re.compile(rf"/api/(?P<kind>models|datasets)/{_REPO}/tree/(?P<revision>[^/]+)(?:/(?P<path>.*))?")
_PATHS = re.compile(rf"/api/(?P<kind>models|datasets)/{_REPO}/paths-info/(?P<revision>[^/]+)")
_FILE = re.compile(rf"/(?P<kind>datasets/|){_REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_PREUPLOAD = re.compile(rf"/api/(?P<kind>models)/{_REPO}/preupload/(?P<revision>[^/]+)")
_COMMIT = re.compile(rf"/api/(?P<kind>models)/{_REPO}/commit/(?P<revision>[^/]+)")
_BRANCH = re.compile(rf"/api/(?P<kind>models)/{_REPO}/branch/(?P<revision>[^/]+)")
_BATCH = re.compile(rf"/{_REPO}\.git/info/lfs/objects/batch")
_BLOB = re.compile(r"/lfs/(?P<hash>[0-9a-f]{64})")

Contents = dict[str, bytes]


@dataclass
class Repo:
    """A repository: its files at each commit, and its branches and tags."""

    commits: dict[str, Contents] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    is_private: bool = False
    is_gated: bool = False

    def commit(self, files: Contents, revision: str = "main") -> str:
        """Add a commit to a branch and return it."""
        name = hashlib.sha1(repr((sorted(files.items()), len(self.commits))).encode()).hexdigest()
        self.commits[name] = files
        self.refs[revision] = name
        return name

    def find(self, revision: str) -> str | None:
        return revision if revision in self.commits else self.refs.get(revision)


@dataclass
class Hub:
    """The state of the server, and the failures that it is asked for."""

    models: dict[str, Repo] = field(default_factory=dict)
    datasets: dict[str, Repo] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    """Files of Git LFS by SHA-256, as they are sent."""
    token: str = "hf_right"
    url: str = ""
    storage_url: str = ""
    """The address of the large files, on another host."""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and headers."""
    throttled: int = 0
    """Number of requests that are answered with 429."""
    retry_after: str | None = "0"
    broken_after: list[int] = field(default_factory=list)
    """For the next answers with a large file: the number of bytes after which the connection breaks."""
    stalls_after: int | None = None
    """The number of bytes of large files after which nothing more is sent until `resumed` is set."""
    resumed: Event = field(default_factory=Event)
    status: int | None = None
    """The status of all answers."""

    def add_model(self, repo: str, directory: Path, revision: str = "main") -> str:
        """Add the files of a directory as a commit and return it."""
        return self.add(self.models, repo, read_tree(directory), revision)

    def add(self, repos: dict[str, Repo], repo: str, files: Contents, revision: str = "main") -> str:
        for name, data in files.items():
            if name.endswith(LARGE):
                self.blobs[hashlib.sha256(data).hexdigest()] = data
        return repos.setdefault(repo, Repo()).commit(files, revision)

    def paths(self, method: str = "GET") -> list[str]:
        """Return the paths of the requests with a method."""
        return [urlsplit(path).path for name, path, _ in self.requests if name == method]

    def downloads(self) -> list[str]:
        """Return the names of the files of models that were sent, in order."""
        commits = (files for repo in self.models.values() for files in repo.commits.values())
        large = {hashlib.sha256(data).hexdigest(): name for files in commits for name, data in files.items()}
        return [
            match["path"] if match.re is _FILE else large[match["hash"]]
            for path in self.paths()
            if (match := _FILE.fullmatch(path) or _BLOB.fullmatch(path))
        ]


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Yield a running server."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    hub.storage_url = hub.url.replace("127.0.0.1", "localhost")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hub, path = self.hub, urlsplit(self.path).path
        hub.requests.append((self.command, self.path, dict(self.headers.items())))
        if hub.throttled:
            hub.throttled -= 1
            headers = {} if hub.retry_after is None else {"Retry-After": hub.retry_after}
            return self._send(429, {"error": "We had to rate limit you"}, headers)
        if hub.status is not None:
            return self._send(hub.status, {"error": "an error of the server"})
        if match := _BLOB.fullmatch(path):
            if self.command == "PUT":
                hub.blobs[match["hash"]] = body
                return self._send(200, {})
            return self._send_file(hub.blobs[match["hash"]], {})
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return self._send(200, {"errors": [], "warnings": []})
        if match := _BATCH.fullmatch(path):
            return self._batch(json.loads(body))
        for pattern, answer in (
            *((_TREE, self._tree), (_PATHS, self._paths), (_PREUPLOAD, self._preupload)),
            *((_COMMIT, self._commit), (_BRANCH, self._branch), (_INFO, self._info), (_FILE, self._file)),
        ):
            if match := pattern.fullmatch(path):
                return self._answer_for_repo(match, answer, body)
        return self._send(404, {"error": f"no such page: {path}"})

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def _answer_for_repo(self, match: re.Match[str], answer: Any, body: bytes) -> None:
        repos = self.hub.datasets if match["kind"].startswith("datasets") else self.hub.models
        repo, authorization = repos.get(match["repo"]), self.headers.get("Authorization")
        if authorization not in (None, f"Bearer {self.hub.token}"):
            return self._refuse(401, None, "Invalid credentials in Authorization header")
        if repo is None or (repo.is_private and authorization is None):
            return self._refuse(401 if authorization is None else 404, "RepoNotFound", "Repository not found")
        if repo.is_gated and authorization is None and match.re is _FILE:
            return self._refuse(401, "GatedRepo", "Access is restricted")
        if answer in (self._preupload, self._commit, self._branch):
            return answer(repo, match, body)
        commit = repo.find(unquote(match["revision"] or "main"))
        if commit is None:
            return self._refuse(404, "RevisionNotFound", "Invalid rev id")
        return answer(repo, commit, match, body)

    def _info(self, repo: Repo, commit: str, match: re.Match[str], body: bytes) -> None:
        siblings = [self._sibling(name, data) for name, data in repo.commits[commit].items()]
        facts = {"id": match["repo"], "sha": commit, "private": repo.is_private, "siblings": siblings}
        self._send(200, facts)

    def _sibling(self, name: str, data: bytes) -> dict[str, Any]:
        sibling = {"rfilename": name, "size": len(data), "blobId": git_hash(data)}
        if name.endswith(LARGE):
            sha256 = hashlib.sha256(data).hexdigest()
            sibling["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 130}
        return sibling

    def _tree(self, repo: Repo, commit: str, match: re.Match[str], body: bytes) -> None:
        files, folder = repo.commits[commit], unquote(match["path"] or "")
        prefix = f"{folder}/" if folder else ""
        below = [name.removeprefix(prefix) for name in files if name.startswith(prefix)]
        if not below:
            return self._missing()
        is_recursive = "recursive=true" in urlsplit(self.path).query.lower()
        names = {prefix + (short if is_recursive else short.split("/")[0]): 0 for short in below}
        return self._send(200, [self._entry(path, files) for path in names])

    def _paths(self, repo: Repo, commit: str, match: re.Match[str], body: bytes) -> None:
        text = body.decode()
        paths = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text)["paths"]
        files = repo.commits[commit]
        known = [path for path in paths if any(f"{name}/".startswith(f"{path}/") for name in files)]
        self._send(200, [self._entry(path, files) for path in known])

    def _entry(self, path: str, files: Contents) -> dict[str, Any]:
        if path not in files:
            return {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}
        entry = self._sibling(path, files[path])
        row = {"type": "file", "path": path, "oid": entry["blobId"], "size": entry["size"]}
        if "lfs" in entry:
            row["lfs"] = {"oid": entry["lfs"]["sha256"], "size": entry["size"], "pointerSize": 130}
        return row

    def _file(self, repo: Repo, commit: str, match: re.Match[str], body: bytes) -> None:
        name = unquote(match["path"])
        if name not in repo.commits[commit]:
            return self._missing(commit)
        data = repo.commits[commit][name]
        headers = {"X-Repo-Commit": commit}
        if not name.endswith(LARGE):
            return self._send_file(data, {**headers, "ETag": f'"{git_hash(data)}"'})
        sha256 = hashlib.sha256(data).hexdigest()
        headers |= {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(len(data))}
        return self._send(302, {}, {**headers, "Location": f"{self.hub.storage_url}/lfs/{sha256}"})

    def _missing(self, commit: str = "") -> None:
        self._refuse(404, "EntryNotFound", "Entry not found", commit)

    def _refuse(self, status: int, code: str | None, message: str, commit: str = "") -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self._send(status, {"error": message}, headers | ({"X-Repo-Commit": commit} if commit else {}))

    def _create(self, request: Mapping[str, Any]) -> None:
        if self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._send(401, {"error": "Invalid username or password."})
        name = f"{request['organization']}/{request['name']}"
        if name in self.hub.models:
            return self._send(409, {"error": "You already created it", "url": f"{self.hub.url}/{name}"})
        if request["organization"] == "others":
            return self._send(403, {"error": "You don't have the rights to create a model under others"})
        is_private = request.get("visibility") == "private" or bool(request.get("private"))
        self.hub.models[name] = Repo(is_private=is_private)
        self.hub.models[name].commit({})
        return self._send(200, {"url": f"{self.hub.url}/{name}", "name": name, "id": name})

    def _preupload(self, repo: Repo, match: re.Match[str], body: bytes) -> None:
        paths = [file["path"] for file in json.loads(body)["files"]]
        modes = [(path, "lfs" if path.endswith(LARGE) else "regular") for path in paths]
        rows = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes]
        self._send(200, {"files": rows})

    def _batch(self, request: Mapping[str, Any]) -> None:
        objects = []
        for each in request["objects"]:
            row = {"oid": each["oid"], "size": each["size"]}
            if each["oid"] not in self.hub.blobs:
                row["actions"] = {"upload": {"href": f"{self.hub.url}/lfs/{each['oid']}", "header": {}}}
            objects.append(row)
        self._send(200, {"transfer": "basic", "objects": objects})

    def _commit(self, repo: Repo, match: re.Match[str], body: bytes) -> None:
        revision = unquote(match["revision"])
        if revision not in repo.refs:
            return self._refuse(404, "RevisionNotFound", "Invalid rev id")
        files = dict(repo.commits[repo.refs[revision]])
        for line in body.decode().splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.hub.blobs[value["oid"]]
            elif operation["key"] == "deletedFile":
                files.pop(value["path"], None)
        commit = repo.commit(files, revision)
        url = f"{self.hub.url}/{match['repo']}/commit/{commit}"
        return self._send(200, {"commitUrl": url, "commitOid": commit})

    def _branch(self, repo: Repo, match: re.Match[str], body: bytes) -> None:
        revision = unquote(match["revision"])
        if revision in repo.refs:
            return self._send(409, {"error": "Reference already exists"})
        repo.refs[revision] = repo.refs["main"]
        return self._send(200, {})

    def _send_file(self, data: bytes, headers: Mapping[str, str]) -> None:
        start, status = 0, 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        headers = {**headers, "Accept-Ranges": "bytes"}
        part = data
        if wanted:
            start, end = int(wanted[1]), int(wanted[2] or len(data) - 1)
            part, status = data[start : end + 1], 206
            headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(data)}"
        is_large = len(data) > SMALL_BYTES
        broken_after = self.hub.broken_after.pop(0) if self.hub.broken_after and is_large else None
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(part))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            stalls_after = self.hub.stalls_after if is_large else None
            self.wfile.write(part[:broken_after][:stalls_after])
            if stalls_after is not None:
                self.wfile.flush()
                self.hub.resumed.wait()
        if broken_after is not None:
            self.wfile.flush()
            self.close_connection = True

    def _send(self, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        usual = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, text in {**usual, **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def git_hash(data: bytes) -> str:
    """Return the hash that git has for a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
