"""Connections to Postgres: their settings, the checks of the server, and the translation of its errors.

40001, 40P01, 55P03, lost connections   retried before COMMIT; OutcomeUnknown from COMMIT
23xxx                                   Conflict
XX00x, 58030                            Broken
22xxx                                   Invalid: Postgres cannot store the value
any other error                         OutcomeUnknown from COMMIT, Rejected before COMMIT
"""

import logging
import secrets
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from asyncpg import exceptions as pg

from assay._version import __version__
from assay.core.model.errors import AssayError, Invalid, Unavailable
from assay.storage.ports import Broken, Conflict, OutcomeUnknown, Rejected

logger = logging.getLogger(__name__)

MIN_SERVER_VERSION = 14
_POOLER = ": connect to the server directly, or use a pooler that pools sessions"
POSTGRES_PORT = 5432

SESSION_SETTINGS = {
    "application_name": f"assay {__version__}",
    "synchronous_commit": "on",
    "statement_timeout": "15s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "30s",
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "jit": "off",
    "enable_seqscan": "off",
}
"""Set by each session, because settings of the server or the role must not weaken a commit. Every query has an index:
without `enable_seqscan = off`, a plan made while a table was small would later scan the grown table."""

CONNECT_OPTIONS: dict[str, Any] = {
    "timeout": 5,
    "command_timeout": 20,
    "server_settings": SESSION_SETTINGS,
    "statement_cache_size": 200,
    "max_cached_statement_lifetime": 0,
}
"""`command_timeout` is longer than the server's `statement_timeout`: only a dead connection exceeds it."""

_LOST = (
    pg.InternalClientError,  # the server closed the connection, and the driver noticed too late
    OSError,
    TimeoutError,
    pg.InterfaceError,
    pg.PostgresConnectionError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.CannotConnectNowError,
    pg.TooManyConnectionsError,
)
_TRANSIENT = (pg.SerializationError, pg.DeadlockDetectedError, pg.LockNotAvailableError, *_LOST)
_BROKEN = (pg.DataCorruptedError, pg.IndexCorruptedError, pg.PostgresIOError)
DRIVER_ERRORS = (asyncpg.PostgresError, pg.InterfaceError, pg.InternalClientError, OSError, TimeoutError)


def is_transient(error: BaseException) -> bool:
    """Return whether an error before COMMIT is transient: nothing was committed, and a retry may succeed."""
    return isinstance(error, _TRANSIENT) and not isinstance(error, pg.DataError)


def translated(error: BaseException, *, committing: bool = False) -> AssayError:
    """Return the engine's error for a driver's error."""
    text = f"Postgres: {error} ({type(error).__name__})"
    if isinstance(error, _BROKEN):
        return Broken(text)
    if committing:
        return OutcomeUnknown(text)
    if isinstance(error, pg.IntegrityConstraintViolationError):
        return Conflict(text)
    if isinstance(error, pg.DataError):
        return Invalid(f"Postgres cannot hold this value: {error}")
    return Rejected(text)


async def connect(dsn: str) -> Any:
    """Return a connection outside the pools, for uses that must not wait for a free connection."""
    try:
        return await asyncpg.connect(dsn, **CONNECT_OPTIONS)
    except DRIVER_ERRORS as error:
        hint = _POOLER if "startup parameter" in str(error) else ""
        raise Unavailable(f"cannot connect to Postgres{_at(dsn)}: {error}{hint}", code="store_unreachable") from error


def _at(dsn: str) -> str:
    """Return the host and port of a URL for messages: without user and password."""
    parts = urlsplit(dsn)
    if not parts.hostname:
        return ""  # a Unix socket, or a server named by the environment
    return f" at {parts.hostname}:{parts.port or POSTGRES_PORT}"


async def refuse_transaction_pooling(connection: Any, dsn: str) -> None:
    """Refuse a pooler that assigns a session per transaction, and warn of any other pooler.

    A pooler announces an invented process id, which differs from the backend's. Behind a transaction pooler, a second
    connection uses the session of the idle first connection and sees its settings.
    """
    if await connection.fetchval("SELECT pg_backend_pid()") == connection.get_server_pid():
        return
    mark = secrets.token_hex(8)
    await connection.execute(f"SET assay.session = '{mark}'")
    other = await connect(dsn)
    try:
        shared = await other.fetchval("SELECT current_setting('assay.session', true)") == mark
    finally:
        await other.close()
    if shared:
        raise Unavailable(f"the pooler before Postgres pools transactions{_POOLER}", code="store_unsafe")
    logger.warning("a pooler is between the engine and Postgres: it must pool sessions, not transactions")


async def refuse_unsafe(connection: Any) -> None:
    """Refuse a server that is too old or may lose commits."""
    version = connection.get_server_version().major
    if version < MIN_SERVER_VERSION:
        raise Unavailable(
            f"Postgres {version} is too old: {MIN_SERVER_VERSION} or newer is needed", code="store_too_old"
        )
    if await connection.fetchval("SHOW fsync") != "on":
        raise Unavailable("Postgres runs with fsync=off and may lose commits: turn it on", code="store_unsafe")
    if await connection.fetchval("SHOW synchronous_commit") == "off":
        raise Unavailable("synchronous_commit cannot be turned on in this database", code="store_unsafe")
