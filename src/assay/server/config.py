"""What `assay serve` is told: one value, checked before anything is opened."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from assay.core.model.duration import parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time
from assay.core.model.limits import CACHE_BYTES
from assay.engine.commit import cache
from assay.engine.stream import STREAM_RETENTION
from assay.server.auth_config import AuthConfig
from assay.server.patience import Patience

DEFAULT_DATABASE = "sqlite://assay-workflow.db"
"""In the folder that the engine is started in (R42)."""


@dataclass(frozen=True)
class ServerConfig:
    """Everything that an operator decides."""

    database: str = DEFAULT_DATABASE
    host: str = "127.0.0.1"
    port: int = 8080
    no_auth: bool = False
    auth: AuthConfig = field(default_factory=AuthConfig)
    migrate: bool = True
    read_only: bool = False
    """Show a SQLite file that another process may be using, and change nothing."""
    allowed_hosts: tuple[str, ...] = ()
    task_lease: Time = 30 * SECOND
    events_ttl: Time = STREAM_RETENTION
    """How far back the event stream goes on for a client that was away."""
    cache_bytes: int = CACHE_BYTES
    """Folded runs that the engine keeps in memory."""
    patience: Patience = field(default_factory=Patience)

    def checked(self) -> "ServerConfig":
        """Itself, or `Invalid` for what must not be served (D18)."""
        self.auth.checked()
        if not is_loopback(self.host) and not (self.no_auth or self.auth.is_on):
            raise Invalid(
                f"{self.host} can be reached from outside, and there is no authentication: "
                "bind to 127.0.0.1, demand keys with --auth-api-key, or say --no-auth"
                " if everybody who can reach it may do everything",
                code="exposed",
                field="host",
            )
        return self

    @property
    def exposed(self) -> bool:
        """Can others than this machine reach it?"""
        return not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Is this an address that only this machine can reach?"""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def task_lease(environment: Mapping[str, str] = os.environ) -> Time:
    """How long a worker that cannot extend its lease may hold a workflow task (D19)."""
    return _seconds("ASSAY_WF_DISPATCH_TIMEOUT_SECS", ServerConfig.task_lease, environment)


def events_ttl(environment: Mapping[str, str] = os.environ) -> Time:
    """How far back the event stream can be resumed (R40)."""
    return _seconds("ASSAY_EVENTS_TTL_SECS", ServerConfig.events_ttl, environment)


def cache_bytes(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many bytes of folded runs the engine keeps in memory."""
    return cache.cache_bytes(environment)


def _seconds(name: str, default: Time, environment: Mapping[str, str]) -> Time:
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        found = parse_duration(float(text), name)
    except ValueError:
        found = 0
    if found <= 0:
        raise Invalid(f"{name} must be a number of seconds, not {text!r}", field="environment")
    return found
