"""Check the addresses that the engine connects to for an issuer's documents, against server-side request forgery."""

import ipaddress
from typing import Final
from urllib.parse import SplitResult, urlsplit

from assay.core.model.errors import Invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA: Final = frozenset(ipaddress.ip_address(text) for text in ("100.100.100.200", "192.0.0.192", "fd00:ec2::254"))
"""Addresses of clouds' metadata services outside the link-local range."""


def check_configured(address: Address) -> None:
    """Raise `Invalid` for an address that is always refused, even if the operator configured its host."""
    plain = _unmapped(address)
    if plain.is_link_local or plain in _METADATA or plain.is_multicast or plain.is_unspecified:
        raise Invalid(f"{address} is a link-local or metadata address, which the engine never connects to")


def check_discovered(url: str, address: Address, *, issuer: str, issuer_is_private: bool) -> None:
    """Raise `Invalid` for an address that a discovery document must not name.

    A discovery document is untrusted: its URLs must be https, unless the issuer itself is on loopback, and may be
    private only if the issuer's own host is private.
    """
    check_configured(address)
    if urlsplit(url).scheme != "https" and not is_loopback_url(issuer):
        raise Invalid(f"the issuer names {url}, which is not https")
    if is_private(address) and not issuer_is_private:
        raise Invalid(f"the issuer names {url}, whose address {address} is private")


def is_private(address: Address) -> bool:
    """Return whether an address is private or loopback."""
    plain = _unmapped(address)
    return plain.is_private or plain.is_loopback


def is_loopback_url(url: str) -> bool:
    """Return whether the host of a URL is loopback."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked_url(url: str, what: str) -> SplitResult:
    """Return a URL in its parts: https, or http on loopback, with a host and without a password.

    Raises:
        Invalid: The URL has another form; the message begins with `what`.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for a port that is not a number
    except ValueError:
        raise Invalid(f"{what} is not a URL: {url!r}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.fragment:
        raise Invalid(f"{what} must be a URL with https:// and a host, not {url!r}")
    if parts.scheme == "http" and not is_loopback_url(url):
        raise Invalid(f"{what} must be https unless its host is loopback: {url!r}")
    return parts


def _unmapped(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
