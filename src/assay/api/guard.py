"""Who may call at all: only under the engine's own names, and no web page from elsewhere (5.2, S2, S15)."""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from assay.api.backend import Settings
from assay.api.call import Call
from assay.core.errors import AssayError, Invalid, Kind

HEADERS_LIMIT: Final = 16 * 1024
URL_LIMIT: Final = 8 * 1024
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES: Final = frozenset({"same-origin", "none"})


class Misdirected(AssayError):
    """The request is for somebody else."""

    code = "wrong_host"
    kind = Kind.INVALID


class CrossOrigin(AssayError):
    """A page of another site asks for a change."""

    code = "cross_origin"
    kind = Kind.PERMISSION_DENIED


def check(call: Call, settings: Settings) -> None:
    """Raise what speaks against a request before anybody looks at what it wants."""
    _check_size(call)
    host = call.header(b"host") or ""
    if call.repeats(b"host") or not allowed(host, settings):
        raise Misdirected(f"this engine is not called {host!r}; `--allowed-host` adds a name")
    if call.method not in READING:
        _check_origin(call, settings)


def _check_size(call: Call) -> None:
    query: bytes = call.scope["query_string"]
    if len(call.path) + len(query) > URL_LIMIT:
        raise Invalid(f"the URL is longer than {URL_LIMIT:,} bytes", code="url_too_long")
    if sum(len(name) + len(value) for name, value in call.scope["headers"]) > HEADERS_LIMIT:
        raise Invalid(f"the headers are longer than {HEADERS_LIMIT:,} bytes", code="headers_too_large")


def allowed(host: str, settings: Settings) -> bool:
    """Is this one of the engine's names? A name that anybody can make point here is not (DNS rebinding)."""
    name = _name(host.lower())
    if name in settings.hosts or "*" in settings.hosts:
        return True
    return settings.any_address and _is_address(name)


def _name(host: str) -> str:
    """The host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _check_origin(call: Call, settings: Settings) -> None:
    """A browser says where a page comes from; programs say nothing."""
    site = call.header(b"sec-fetch-site")
    if site is not None and site not in OWN_SITES:
        raise CrossOrigin("changes are not made for pages of other sites")
    origin = call.header(b"origin")
    if origin is not None and not allowed(_origin_host(origin), settings):
        raise CrossOrigin("changes are not made for pages of other sites")


def _origin_host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
