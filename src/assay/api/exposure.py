"""The names of an engine on the network, the web origins that may call it, and the proxies that it trusts."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

from assay.api.answers import Header
from assay.api.call import ApiCall, Forwarded

Network = IPv4Network | IPv6Network

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
HSTS: Final[Header] = (b"strict-transport-security", b"max-age=31536000")
"""Sent over https only: browsers then never use plain http for this host."""
CORS_METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE"
CORS_REQUEST_HEADERS: Final = b"authorization, content-type, idempotency-key, last-event-id"
CORS_RESPONSE_HEADERS: Final = b"x-total-count, x-total-capped, x-next-cursor, x-previous-cursor, x-request-id"
PREFLIGHT_SECONDS: Final = 600


@dataclass(frozen=True)
class Exposure:
    """The operator's settings about the network around an engine."""

    hosts: frozenset[str] = frozenset()
    """Accepted values of the `Host` header, without a port; loopback names are always accepted."""
    suffixes: tuple[str, ...] = ()
    """Endings of accepted names, such as `.example.com`."""
    any_host: bool = False
    any_address: bool = False
    """Accept every IP address as the `Host`, because the engine listens on all interfaces."""
    public_origin: str | None = None
    """Scheme, host and port under which browsers reach the engine; None if they use its own address."""
    cors_origins: frozenset[str] = frozenset()
    """Origins of other sites whose pages may call the engine."""
    proxies: tuple[Network, ...] = ()
    """Addresses whose `X-Forwarded-` headers count."""

    def accepts_host(self, host: str) -> bool:
        """Return whether a `Host` is a name of the engine.

        Other names are refused: with DNS rebinding, a name of an attacker can point to this machine.
        """
        name = host_name(host.lower())
        if name is None:
            return False
        if name in self.hosts or name == "localhost" or self.any_host:
            return True
        if name.endswith(self.suffixes) and not name.startswith("."):
            return True
        address = _address(name)
        return address is not None and (self.any_address or address.is_loopback)

    def is_own_origin(self, origin: str, host: str, forwarded: Forwarded | None) -> bool:
        """Return whether an `Origin` is the engine itself: by its `Host`, its public URL, or a trusted proxy's host."""
        if same_authority(origin, host):
            return True
        if self.public_origin is not None and same_authority(origin, urlsplit(self.public_origin).netloc):
            return True
        return forwarded is not None and forwarded.host is not None and same_authority(origin, forwarded.host)

    def forwarded(self, call: ApiCall) -> Forwarded | None:
        """Return the client that a trusted proxy names; None for a caller that is not a trusted proxy."""
        peer = _address(call.peer)
        if peer is None or not self._trusts(peer):
            return None
        address: IPv4Address | IPv6Address = peer
        for text in reversed(_listed(call, b"x-forwarded-for")):
            found = _address(_without_port(text))
            if found is None:
                break  # a text that is no address hides the entries before: the last known address counts
            address = found
            if not self._trusts(found):
                break
        proto, host = _listed(call, b"x-forwarded-proto"), _listed(call, b"x-forwarded-host")
        return Forwarded(str(address), proto[-1].lower() if proto else None, host[-1] if host else None)

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        plain = unmapped(address)
        return any(plain in network for network in self.proxies)


def cors_headers(origin: str) -> tuple[Header, ...]:
    """Return the headers of an answer to a page of an allowed origin; credentials of browsers are never allowed."""
    return (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", CORS_RESPONSE_HEADERS),
        (b"vary", b"Origin"),
    )


PREFLIGHT_HEADERS: Final[tuple[Header, ...]] = (
    (b"access-control-allow-methods", CORS_METHODS),
    (b"access-control-allow-headers", CORS_REQUEST_HEADERS),
    (b"access-control-max-age", str(PREFLIGHT_SECONDS).encode()),
)


def host_name(host: str) -> str | None:
    """Return a `Host` without its port; None if the rest is not a port."""
    if host.startswith("["):
        name, bracket, port = host.partition("]")
        name += bracket
    else:
        name, colon, port = host.partition(":")
        port = colon + port
    return name if not port or (port[0] == ":" and (port == ":" or port[1:].isdecimal())) else None


def bracketed(host: str) -> str:
    """Return a host as the `Host` header has it: with brackets around an IPv6 address."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


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


def unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address in an IPv6 address of a socket that serves both, or the address itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.strip("[]"))
    except ValueError:
        return None


def _without_port(text: str) -> str:
    return host_name(text) or text if text.startswith("[") or text.count(":") == 1 else text


def _listed(call: ApiCall, name: bytes) -> Sequence[str]:
    """Return the entries of a header that proxies extend: of all its lines, in order."""
    lines = (value.decode("latin-1") for key, value in call.scope["headers"] if key == name)
    return [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]
