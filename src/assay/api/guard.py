"""Checks before routing: the size of the request, the `Host` against DNS rebinding, the `Origin` against CSRF."""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from assay.api.backend import ApiSettings
from assay.api.call import ApiCall
from assay.core.model.errors import AssayError, Invalid, Kind

HEADERS_LIMIT_BYTES: Final = 16 * 1024
URL_LIMIT_BYTES: Final = 8 * 1024
READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES: Final = frozenset({"same-origin", "none"})
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class WrongHost(AssayError):
    """The `Host` of the request is not a name of this engine."""

    code = "wrong_host"
    kind = Kind.INVALID


class CrossOrigin(AssayError):
    """A page of another site requests a change."""

    code = "cross_origin"
    kind = Kind.PERMISSION_DENIED


def check(call: ApiCall, settings: ApiSettings) -> None:
    """Raise an error for a request that is too large, has a wrong host, or is a change from another site."""
    _check_size(call)
    host = call.header(b"host") or ""
    if call.repeats(b"host") or not allowed(host, settings):
        raise WrongHost(f"{host!r} is not a name of this engine; `assay serve --allowed-host` adds a name")
    if call.method not in READING_METHODS:
        _check_origin(call, host)


def _check_size(call: ApiCall) -> None:
    query: bytes = call.scope["query_string"]
    if len(call.path) + len(query) > URL_LIMIT_BYTES:
        raise Invalid(f"the URL is longer than {URL_LIMIT_BYTES:,} bytes", code="url_too_long")
    if sum(len(name) + len(value) for name, value in call.scope["headers"]) > HEADERS_LIMIT_BYTES:
        raise Invalid(f"the headers are longer than {HEADERS_LIMIT_BYTES:,} bytes", code="headers_too_large")


def allowed(host: str, settings: ApiSettings) -> bool:
    """Return whether a `Host` is a name of the engine.

    Unknown names are refused: with DNS rebinding, a name of an attacker can point to this machine.
    """
    name = _name(host.lower())
    if name in settings.hosts or "*" in settings.hosts:
        return True
    return settings.any_address and _is_address(name)


def _name(host: str) -> str:
    """Return the host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _check_origin(call: ApiCall, host: str) -> None:
    """Raise `CrossOrigin` for a page of another site. Browsers send the headers; programs send neither."""
    site, origin = call.header(b"sec-fetch-site"), call.header(b"origin")
    if site is None and origin is None:
        return
    if call.repeats(b"sec-fetch-site") or call.repeats(b"origin"):
        raise CrossOrigin("changes are not made for pages of other sites")
    # Sec-Fetch-Site is the browser's own verdict. Browsers do not send it to plain http beyond loopback.
    if site not in OWN_SITES if site is not None else not same_authority(origin or "", host):
        raise CrossOrigin("changes are not made for pages of other sites")


def same_authority(origin: str, host: str) -> bool:
    """Return whether an `Origin` has the host and port of the `Host` header.

    The schemes are not compared, because TLS may end at a proxy. A missing port is the default of the Origin's scheme.
    """
    try:
        page, called = urlsplit(origin), urlsplit(f"//{host}")
        default = DEFAULT_PORTS.get(page.scheme)
        found = page.hostname, page.port or default
        wanted = called.hostname, called.port or default
    except ValueError:
        return False
    # An Origin has scheme, host and port only. A browser sends no text with more parts.
    bare = "@" not in page.netloc and origin.lower() == f"{page.scheme}://{page.netloc}".lower()
    return bare and page.hostname is not None and found == wanted
