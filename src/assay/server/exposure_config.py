"""How callers reach an engine: names, web origins, proxies, TLS, limits, audit. Checked before anything is opened."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from assay.api.exposure import Exposure, Network, bracketed
from assay.core.model.errors import Invalid
from assay.server.certificates import Certificates

ALLOWED_HOSTS_VARIABLE: Final = "ASSAY_ALLOWED_HOSTS"
_WILDCARD_ADDRESSES: Final = frozenset({"0.0.0.0", "::", "[::]"})  # noqa: S104  # compared, not bound
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")


@dataclass(frozen=True)
class ExposureConfig:
    """The flags of an operator about the network around an engine."""

    public_url: str | None = None
    """The URL under which browsers reach the engine, for example through a proxy."""
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    rate_limit: int | None = None
    """Most requests a second of one credential."""
    metrics_public: bool = False
    audit: bool = False
    """Record changes also without authentication."""

    def checked(self) -> "ExposureConfig":
        """Return the value itself.

        Raises:
            Invalid: A flag needs another flag, or has a value that cannot be parsed.
        """
        for flag, value, needed, other in (
            ("--tls-cert", self.tls_cert, "--tls-key", self.tls_key),
            ("--tls-key", self.tls_key, "--tls-cert", self.tls_cert),
        ):
            if value is not None and other is None:
                raise _refusal(f"{flag} needs {needed}")
            if value is not None and not Path(value).is_file():
                raise _refusal(f"{flag} names {value!r}, which is not a file")
        self.certificates()
        if self.rate_limit is not None and self.rate_limit < 1:
            raise _refusal("--rate-limit must be a whole number of requests a second, 1 or more")
        self.exposure("127.0.0.1")
        return self

    def certificates(self) -> Certificates | None:
        """Return the certificate of the server; None for plain http.

        Raises:
            Invalid: The files cannot be used.
        """
        if self.tls_cert is None or self.tls_key is None:
            return None
        return Certificates(self.tls_cert, self.tls_key)

    def exposure(self, host: str) -> Exposure:
        """Return the checked settings of the API for an engine that listens on `host`.

        Raises:
            Invalid: A value cannot be parsed.
        """
        names = {_host_name(name) for name in self.allowed_hosts}
        public = None if self.public_url is None else _public_url(self.public_url)
        return Exposure(
            hosts=frozenset(
                {bracketed(host.lower()), *names} | ({bracketed(public.hostname or "")} if public else set())
            )
            - {"*"},
            suffixes=tuple(sorted(name[1:] for name in names if name.startswith("*."))),
            any_host="*" in names,
            any_address=host in _WILDCARD_ADDRESSES,
            public_origin=None if public is None else f"{public.scheme}://{public.netloc}".lower(),
            cors_origins=frozenset(map(_origin, self.cors_origins)),
            proxies=tuple(map(_network, self.trusted_proxies)),
        )


def allowed_hosts(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the further names of the engine in `ASSAY_ALLOWED_HOSTS`, a list with commas."""
    names = environment.get(ALLOWED_HOSTS_VARIABLE, "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def _refusal(sentence: str) -> Invalid:
    return Invalid(sentence, code="bad_flags", field="flags")


def _host_name(text: str) -> str:
    """Return a name as a `Host` header has it: lower case, no port, brackets around IPv6."""
    name = text.strip().lower()
    bare = name.strip("[]")
    try:
        return bracketed(str(ip_address(bare)))
    except ValueError:
        pass
    host = bare.removeprefix("*.")
    if name == "*" or (host and set(host) <= _NAME_CHARACTERS and not host.startswith(".")):
        return name
    raise _refusal(
        f"--allowed-host {text!r} is not a host name; write a name without scheme and port, such as engine.example.com"
        " or *.example.com"
    )


def _parts(text: str, flag: str, example: str) -> SplitResult:
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise _refusal(f"{flag} {text!r} is not a URL; write one such as {example}") from None
    plain = not (parts.username or parts.password or parts.query or parts.fragment or port == 0)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise _refusal(f"{flag} {text!r} must be http:// or https:// with a host, such as {example}")
    return parts


def _public_url(text: str) -> SplitResult:
    parts = _parts(text, "--public-url", "https://engine.example.com")
    if parts.path not in ("", "/"):
        raise _refusal(f"--public-url {text!r} has a path; the engine is served at the root of its host")
    return parts


def _origin(text: str) -> str:
    if text.strip().lower() in ("*", "null"):
        raise _refusal(
            f"--cors-origin {text!r} would let every page in; name each origin, such as https://app.example.com"
        )
    parts = _parts(text, "--cors-origin", "https://app.example.com")
    if parts.path:
        raise _refusal(f"--cors-origin {text!r} has a path; an origin is scheme, host and port only")
    return f"{parts.scheme}://{parts.netloc}".lower()


def _network(text: str) -> Network:
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise _refusal(f"--trusted-proxy {text!r} is not an address or a range, such as 10.0.0.0/8") from None
