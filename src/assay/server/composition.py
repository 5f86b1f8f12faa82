"""Builds a running engine with its API from a configuration: the only module that wires all parts."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.api.app import Api
from assay.api.auditing import Auditor
from assay.api.authentication import Authentication
from assay.api.backend import ApiSettings, Backend
from assay.api.cookies import Cookies
from assay.api.exchange import Exchange
from assay.api.polls import Polls
from assay.api.request_rates import RequestRates
from assay.api.telemetry import Telemetry
from assay.auth.code_flow import CodeFlow
from assay.auth.issuer import Issuer
from assay.auth.json_web_tokens import TokenRules
from assay.auth.key_registry import KeyRegistry
from assay.auth.memory_sessions import MemorySessions
from assay.auth.session_registry import SessionRegistry
from assay.auth.tickets import TicketRegistry
from assay.core.model.errors import Invalid
from assay.engine.audit import Audit
from assay.engine.batches import BatchRunner
from assay.engine.clock import Clock, SharedClock, SystemClock
from assay.engine.engine import Engine
from assay.engine.insight import Insight
from assay.engine.kept_answers import KeptAnswers
from assay.engine.pruner import Pruner
from assay.engine.service import Loop, Service
from assay.engine.stream import Stream
from assay.engine.token_key import read_token_key
from assay.engine.worker_registry import MAIN, WorkerRegistry
from assay.server.config import ServerConfig
from assay.server.credentials import StoredCredentials
from assay.storage.audit_trail import AuditTrail
from assay.storage.batch_ports import Batches
from assay.storage.failure_ports import Failures
from assay.storage.overview import Overview
from assay.storage.ports import EventJournal, Leftovers, Registry, Store
from assay.storage.sql.audit_rows import SqlAudit
from assay.storage.sql.batches import SqlBatches
from assay.storage.sql.credentials import SqlCredentials
from assay.storage.sql.failure_groups import SqlFailures
from assay.storage.sql.journal import SqlJournal
from assay.storage.sql.leftovers import SqlLeftovers
from assay.storage.sql.overview import SqlOverview
from assay.storage.sql.registry import SqlRegistry
from assay.storage.sqlite import ownership
from assay.storage.urls import PostgresUrl, SqliteUrl, parse_url
from assay.worker_protocol.tokens import Tokens

if TYPE_CHECKING:
    from assay.storage.postgres.store import PostgresStore
    from assay.storage.sqlite.reader import SqliteReader
    from assay.storage.sqlite.store import SqliteStore

DATABASE_ID_NAME: Final = "database"
DATABASE_ID_BYTES: Final = 16


@dataclass(frozen=True)
class Database:
    """A store with its further ports."""

    store: Store
    clock: Clock
    registry: Registry
    journal: EventJournal
    leftovers: Leftovers
    credentials: SqlCredentials
    overview: Overview
    failures: Failures
    batches: Batches
    audit: AuditTrail
    place: str
    """The path or the URL without a password, for messages."""


def database_of(config: ServerConfig) -> Database:
    """Return the database of a configuration, not opened yet; only its own driver is imported."""
    match parse_url(config.database):
        case SqliteUrl(path):
            from assay.storage.sqlite.store import SqliteStore

            clock = SystemClock()
            file = SqliteStore(path, clock=clock.now, migrate=config.migrate)
            return Database(file, clock, *_ports(file), str(file.path))
        case PostgresUrl(dsn):
            from assay.storage.postgres.store import PostgresStore

            server = PostgresStore(dsn, migrate=config.migrate)
            return Database(server, SharedClock(), *_ports(server), _without_password(dsn))


def _ports(
    store: "SqliteStore | SqliteReader | PostgresStore",
) -> tuple[SqlRegistry, SqlJournal, SqlLeftovers, SqlCredentials, SqlOverview, SqlFailures, SqlBatches, SqlAudit]:
    return (
        SqlRegistry(store),
        SqlJournal(store),
        SqlLeftovers(store),
        SqlCredentials(store),
        SqlOverview(store),
        SqlFailures(store),
        SqlBatches(store),
        SqlAudit(store),
    )


def read_only_database_of(config: ServerConfig, clock: SystemClock) -> Database:
    """Return the file of a configuration, not opened yet, to be read beside a running engine."""
    match parse_url(config.database):
        case SqliteUrl(path):
            from assay.storage.sqlite.reader import SqliteReader

            file = SqliteReader(path, clock=clock.now)
            return Database(file, clock, *_ports(file), str(file.path))
        case PostgresUrl():
            text = "only a SQLite file is read beside its engine: on Postgres start another engine instead"
            raise Invalid(text, code="bad_url", field="url")


def in_use(database: Database) -> bool:
    """Return True if an engine holds the lock of the file."""
    return ownership.in_use(Path(database.place))


def _without_password(dsn: str) -> str:
    scheme, _, rest = dsn.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


@asynccontextmanager
async def running(config: ServerConfig) -> AsyncIterator[tuple[Api, Database]]:
    """Run the engine and its API for the time of the block; with `read_only` the API alone."""
    if config.read_only:
        async with _reading(config) as served:
            yield served
        return
    database = database_of(config)
    engine = Engine(
        database.store,
        database.clock,
        cache_bytes=config.cache_bytes,
        halving=not database.store.shared,
        task_lease=config.task_lease,
    )
    try:
        await engine.start()
        async with _surrounded(config, engine, database) as backend:
            yield Api(backend), database
    finally:
        await engine.stop()


@asynccontextmanager
async def _reading(config: ServerConfig) -> AsyncIterator[tuple[Api, Database]]:
    """Serve the reads of an engine that is never started; the API refuses every change."""
    clock = SystemClock()
    database = read_only_database_of(config, clock)
    engine = Engine(database.store, clock)
    await database.store.open()
    try:
        worker_registry = WorkerRegistry(database.registry, database.store, clock)
        # A database of its own name for cookies: the engine beside this process has other sessions.
        authentication = _authentication(config, database, secrets.token_hex(DATABASE_ID_BYTES))
        tokens = Tokens(secrets.token_bytes(32))
        backend = _backend(config, engine, database, worker_registry, tokens, authentication)
        async with _looping([backend.auth.keys] if backend.auth.settings.is_on else [], clock):
            yield Api(backend), database
            backend.drain()
    finally:
        await database.store.close()


@asynccontextmanager
async def _surrounded(config: ServerConfig, engine: Engine, database: Database) -> AsyncIterator[Backend]:
    worker_registry = WorkerRegistry(database.registry, database.store, database.clock)
    await worker_registry.ensure(MAIN)
    engine.create_namespaces_with(worker_registry.ensure)
    database_id = await database.registry.secret(DATABASE_ID_NAME, secrets.token_bytes(DATABASE_ID_BYTES))
    tokens = Tokens(await read_token_key(database.registry))
    authentication = _authentication(config, database, database_id.hex())
    backend = _backend(config, engine, database, worker_registry, tokens, authentication)
    services: list[Service] = [
        worker_registry,
        backend.exchange,
        Pruner(
            database.leftovers,
            database.clock,
            retention=config.events_ttl,
            audit_retention=config.audit_retention,
        ),
        *([backend.auth.keys] if backend.auth.settings.is_on else []),
        *([backend.audit] if backend.auditor is not None else []),
    ]
    try:
        async with _looping(services, database.clock):
            backend.batch_loop.start()
            try:
                yield backend
            finally:
                await backend.batch_loop.stop()
                backend.drain()
    finally:
        if engine.stopped is None:
            await worker_registry.write_heartbeats()
            if backend.auditor is not None:
                await backend.audit.write_refusals()


@asynccontextmanager
async def _looping(services: Sequence[Service], clock: Clock) -> AsyncIterator[None]:
    """Run services for the time of the block."""
    loops = [Loop(service, clock) for service in services]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            await loop.stop()


def _backend(
    config: ServerConfig,
    engine: Engine,
    database: Database,
    worker_registry: WorkerRegistry,
    tokens: Tokens,
    authentication: Authentication,
) -> Backend:
    telemetry = Telemetry()
    audit = Audit(database.audit, database.clock)
    engine.on_commit(telemetry.committed)
    return Backend(
        engine=engine,
        worker_registry=worker_registry,
        insight=Insight(engine, worker_registry, database.overview),
        failures=database.failures,
        batches=database.batches,
        batch_loop=Loop(
            BatchRunner(engine, database.batches, database.clock, audited=_auditor(config, audit) is not None),
            database.clock,
        ),
        stream=Stream(database.journal, database.store, engine.on_commit, database.clock, config.events_ttl),
        tokens=tokens,
        polls=Polls(engine, worker_registry),
        exchange=Exchange(engine, tokens, worker_registry),
        telemetry=telemetry,
        auth=authentication,
        kept_answers=KeptAnswers(database.store, database.clock),
        settings=settings_of(config),
        audit=audit,
        auditor=_auditor(config, audit),
        request_rates=None if config.exposure.rate_limit is None else RequestRates(config.exposure.rate_limit),
    )


def _authentication(config: ServerConfig, database: Database, database_id: str) -> Authentication:
    auth, now = config.auth, database.clock.now
    stored = StoredCredentials(database.credentials)
    sessions = MemorySessions() if config.read_only else stored
    issuer = None
    if auth.issuer is not None:
        rules = TokenRules(auth.issuer, auth.audience)
        issuer = Issuer(rules, auth.claims, database.clock.wall, key_set_url=auth.key_set_url)
    return Authentication(
        auth.settings,
        KeyRegistry(stored, now, read_only=config.read_only),
        SessionRegistry(sessions, now),
        TicketRegistry(sessions, now),
        Cookies(database_id, config.exposure.public_url),
        issuer,
        database.clock,
        None if issuer is None or auth.client is None else CodeFlow(issuer, auth.client),
    )


def _auditor(config: ServerConfig, audit: Audit) -> Auditor | None:
    """Return the audit of changes: with authentication, or on demand; a process that only reads changes nothing."""
    if config.read_only or not (config.auth.is_on or config.exposure.audit):
        return None
    return Auditor(audit)


def settings_of(config: ServerConfig) -> ApiSettings:
    """Return the settings of the API for a configuration."""
    return ApiSettings(
        task_lease=config.task_lease,
        exposure=config.exposure.exposure(config.host),
        metrics_public=config.exposure.metrics_public,
        exposed=config.exposed and not config.auth.is_on,
        read_only=config.read_only,
        white_label=config.white_label,
    )
