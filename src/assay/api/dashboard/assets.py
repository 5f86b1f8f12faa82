"""The built files of the dashboard: read once, served from memory with a version, an ETag and a gzip copy."""

import secrets
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

from assay.api.answers import Header, HttpResponse
from assay.api.call import ApiCall
from assay.core.model.errors import NotFound

BUILT: Final = "built"
MANIFEST: Final = "manifest.json"
TYPES: Final = {
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml; charset=utf-8",
}
_START: Final = secrets.token_hex(4)
"""Differs after each start of the engine, and with it the version in the address of every asset."""


class Manifest(msgspec.Struct, frozen=True):
    """The names of the files that the page loads, and the hash of the sources from which they were built."""

    sources: str
    entry: str
    theme: str
    style: str


class Asset(msgspec.Struct, frozen=True):
    """A built file, plain and compressed."""

    body: bytes
    packed: bytes
    kind: bytes
    tag: bytes


class Assets:
    """All built files of a dashboard."""

    def __init__(self, manifest: Manifest, files: dict[str, Asset]) -> None:
        self.manifest = manifest
        self.version = f"{manifest.sources[:12]}.{_START}"
        self._files = files

    def answer(self, name: str, call: ApiCall) -> HttpResponse:
        """Return a file. Only the address with the version of this process may be kept without asking again."""
        asset = self._files.get(name)
        if asset is None:
            raise NotFound(f"file {name}")
        current = call.text("v") == self.version
        keep = b"public, max-age=31536000, immutable" if current else b"no-cache"
        headers: list[Header] = [
            (b"content-type", asset.kind),
            (b"cache-control", keep),
            (b"etag", asset.tag),
            (b"vary", b"accept-encoding"),
        ]
        if call.header(b"if-none-match") == asset.tag.decode():
            return HttpResponse(304, b"", headers)
        if asset.packed and "gzip" in (call.header(b"accept-encoding") or ""):
            return HttpResponse(200, asset.packed, [*headers, (b"content-encoding", b"gzip")])
        return HttpResponse(200, asset.body, headers)


@cache
def built_assets() -> Assets | None:
    """Return the built files, or None if this installation was made without them."""
    folder = resources.files("assay.api.dashboard").joinpath(BUILT)
    listed = folder.joinpath(MANIFEST)
    if not listed.is_file():
        return None
    manifest = msgspec.json.decode(listed.read_bytes(), type=Manifest)
    names = {path.name: path for path in folder.iterdir()}
    files = {name: _asset(path, names) for name, path in names.items() if name.rpartition(".")[2] in TYPES}
    return Assets(manifest, files)


def _asset(path: Traversable, names: dict[str, Traversable]) -> Asset:
    packed = names.get(f"{path.name}.gz")
    return Asset(
        body=path.read_bytes(),
        packed=b"" if packed is None else packed.read_bytes(),
        kind=TYPES[path.name.rpartition(".")[2]],
        tag=f'"{path.name}"'.encode(),
    )
