"""The configuration of `assay serve`: a single value, checked before anything is opened."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from assay.api.dashboard.whitelabel import WhiteLabel
from assay.api.dashboard.whitelabel import white_label as white_label
from assay.core.model.duration import DAY, parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time
from assay.core.model.limits import CACHE_BYTES
from assay.engine.commit import cache
from assay.engine.pruner import AUDIT_RETENTION
from assay.engine.stream import STREAM_RETENTION
from assay.server.auth_config import AuthConfig
from assay.server.client_limits import ClientLimits
from assay.server.exposure_config import ExposureConfig

MAX_AUDIT_DAYS = 36_500
DEFAULT_DATABASE = "sqlite://assay-workflow.db"
"""A file in the working directory of the engine."""


@dataclass(frozen=True)
class ServerConfig:
    """The settings of an operator."""

    database: str = DEFAULT_DATABASE
    host: str = "127.0.0.1"
    port: int = 8080
    no_auth: bool = False
    auth: AuthConfig = field(default_factory=AuthConfig)
    migrate: bool = True
    read_only: bool = False
    """Serve the reads of a SQLite file that another process may be using, and change nothing."""
    exposure: ExposureConfig = field(default_factory=ExposureConfig)
    task_lease: Time = 30 * SECOND
    events_ttl: Time = STREAM_RETENTION
    """Age up to which a client of the event stream can resume."""
    audit_retention: Time = AUDIT_RETENTION
    """Age up to which rows of the audit are kept."""
    cache_bytes: int = CACHE_BYTES
    """Bytes of folded runs that the engine keeps in memory."""
    limits: ClientLimits = field(default_factory=ClientLimits)
    white_label: WhiteLabel = field(default_factory=WhiteLabel)
    """The look of the dashboard."""

    def checked(self) -> "ServerConfig":
        """Return the configuration itself; raise `Invalid` if it must not be served.

        An address that other machines can reach needs authentication, or an explicit `--no-auth` (I22).
        """
        self.auth.checked()
        self.exposure.checked()
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
        """True if other machines can reach the address."""
        return not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def task_lease(environment: Mapping[str, str] = os.environ) -> Time:
    """Return the lease of a workflow task for polling workers, which cannot extend it."""
    return _seconds("ASSAY_WF_DISPATCH_TIMEOUT_SECS", ServerConfig.task_lease, environment)


def events_ttl(environment: Mapping[str, str] = os.environ) -> Time:
    """Return the age up to which the event stream can be resumed."""
    return _seconds("ASSAY_EVENTS_TTL_SECS", ServerConfig.events_ttl, environment)


def audit_retention(environment: Mapping[str, str] = os.environ) -> Time:
    """Return the age up to which rows of the audit are kept."""
    text = environment.get("ASSAY_AUDIT_RETENTION_DAYS", "").strip()
    if not text:
        return ServerConfig.audit_retention
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= MAX_AUDIT_DAYS):
        raise Invalid(f"ASSAY_AUDIT_RETENTION_DAYS must be a whole number of days, not {text!r}", field="environment")
    return int(text) * DAY


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
