"""Checks before routing: the size of the request, the `Host` against DNS rebinding, the `Origin` against CSRF."""

from typing import Final

from assay.api.backend import ApiSettings
from assay.api.call import READING_METHODS, ApiCall
from assay.api.exposure import HSTS, cors_headers
from assay.core.model.errors import AssayError, Invalid, Kind

HEADERS_LIMIT_BYTES: Final = 16 * 1024
URL_LIMIT_BYTES: Final = 8 * 1024
OWN_SITES: Final = frozenset({"same-origin", "none"})


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
    exposure = settings.exposure
    if exposure.proxies:
        call.forwarded = exposure.forwarded(call)
        if call.forwarded is not None and call.forwarded.scheme == "https":
            call.extra_headers = (HSTS,)
    host = call.header(b"host") or ""
    if call.repeats(b"host") or not exposure.accepts_host(host):
        raise WrongHost(f"{host!r} is not a name of this engine; `assay serve --allowed-host` adds a name")
    if exposure.cors_origins:
        _allow_cors(call, exposure.cors_origins)
    if call.method not in READING_METHODS:
        _check_origin(call, host, settings)


def _check_size(call: ApiCall) -> None:
    query: bytes = call.scope["query_string"]
    if len(call.path) + len(query) > URL_LIMIT_BYTES:
        raise Invalid(f"the URL is longer than {URL_LIMIT_BYTES:,} bytes", code="url_too_long")
    if sum(len(name) + len(value) for name, value in call.scope["headers"]) > HEADERS_LIMIT_BYTES:
        raise Invalid(f"the headers are longer than {HEADERS_LIMIT_BYTES:,} bytes", code="headers_too_large")


def _allow_cors(call: ApiCall, origins: frozenset[str]) -> None:
    """Add the headers of CORS to the answer for a page of an allowed origin."""
    origin = call.header(b"origin")
    if origin is not None and origin.lower() in origins and not call.repeats(b"origin"):
        call.cors_origin = origin
        call.extra_headers = (*call.extra_headers, *cors_headers(origin))


def _check_origin(call: ApiCall, host: str, settings: ApiSettings) -> None:
    """Raise `CrossOrigin` for a page of another site. Browsers send the headers; programs send neither."""
    site, origin = call.header(b"sec-fetch-site"), call.header(b"origin")
    if (site is None and origin is None) or call.cors_origin is not None:
        return
    if call.repeats(b"sec-fetch-site") or call.repeats(b"origin"):
        raise CrossOrigin("changes are not made for pages of other sites")
    # Sec-Fetch-Site is the browser's own verdict. Browsers do not send it to plain http beyond loopback.
    own = site in OWN_SITES if site is not None else settings.exposure.is_own_origin(origin or "", host, call.forwarded)
    if not own:
        raise CrossOrigin("changes are not made for pages of other sites; `assay serve --cors-origin` lets a page in")
