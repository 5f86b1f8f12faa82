"""Builds a running engine with its API from a configuration: the only module that wires all parts."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.api.app import Api
from assay.api.authentication import Authentication
from assay.api.backend import ApiSettings, Backend
from assay.api.exchange import Exchange
from assay.api.polls import Polls
from assay.api.request_rates import RequestRates
from assay.api.telemetry import Telemetry
from assay.auth.issuer import Issuer
from assay.auth.json_web_tokens import TokenRules
from assay.auth.key_registry import KeyRegistry
from assay.core.model.errors import Invalid
from assay.engine.clock import Clock, SharedClock, SystemClock
from assay.engine.engine import Engine
from assay.engine.pruner import Pruner
from assay.engine.service import Loop
from assay.engine.stream import Stream
from assay.engine.token_key import read_token_key
from assay.engine.worker_registry import MAIN, WorkerRegistry
from assay.server.config import ServerConfig
from assay.server.credentials import StoredCredentials
from assay.storage.ports import EventJournal, Leftovers, Registry, Store
from assay.storage.sql.credentials import SqlCredentials
from assay.storage.sql.journal import SqlJournal
from assay.storage.sql.leftovers import SqlLeftovers
from assay.storage.sql.registry import SqlRegistry
from assay.storage.sqlite import ownership
from assay.storage.urls import PostgresUrl, SqliteUrl, parse_url
from assay.worker_protocol.tokens import Tokens

if TYPE_CHECKING:
    from assay.storage.postgres.store import PostgresStore
    from assay.storage.sqlite.reader import SqliteReader
    from assay.storage.sqlite.store import SqliteStore


@dataclass(frozen=True)
class Database:
    """A store with its further ports."""

    store: Store
    clock: Clock
    registry: Registry
    journal: EventJournal
    leftovers: Leftovers
    credentials: SqlCredentials
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
) -> tuple[SqlRegistry, SqlJournal, SqlLeftovers, SqlCredentials]:
    return SqlRegistry(store), SqlJournal(store), SqlLeftovers(store), SqlCredentials(store)


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
        backend = _backend(config, engine, database, worker_registry, Tokens(secrets.token_bytes(32)))
        yield Api(backend), database
        backend.drain()
    finally:
        await database.store.close()


@asynccontextmanager
async def _surrounded(config: ServerConfig, engine: Engine, database: Database) -> AsyncIterator[Backend]:
    worker_registry = WorkerRegistry(database.registry, database.store, database.clock)
    await worker_registry.ensure(MAIN)
    backend = _backend(config, engine, database, worker_registry, Tokens(await read_token_key(database.registry)))
    services = (
        worker_registry,
        backend.exchange,
        Pruner(database.leftovers, database.clock, retention=config.events_ttl),
    )
    loops = [Loop(service, database.clock) for service in services]
    if backend.auth.settings.is_on:
        loops.append(Loop(backend.auth.keys, database.clock))
    for loop in loops:
        loop.start()
    try:
        yield backend
    finally:
        backend.drain()
        for loop in loops:
            await loop.stop()
        if engine.stopped is None:
            await worker_registry.write_heartbeats()


def _backend(
    config: ServerConfig, engine: Engine, database: Database, worker_registry: WorkerRegistry, tokens: Tokens
) -> Backend:
    telemetry = Telemetry()
    engine.on_commit(telemetry.committed)
    return Backend(
        engine=engine,
        worker_registry=worker_registry,
        stream=Stream(database.journal, database.store, engine.on_commit, database.clock, config.events_ttl),
        tokens=tokens,
        polls=Polls(engine, worker_registry),
        exchange=Exchange(engine, tokens, worker_registry),
        telemetry=telemetry,
        auth=_authentication(config, database),
        settings=settings_of(config),
        request_rates=None if config.exposure.rate_limit is None else RequestRates(config.exposure.rate_limit),
    )


def _authentication(config: ServerConfig, database: Database) -> Authentication:
    auth = config.auth
    keys = KeyRegistry(StoredCredentials(database.credentials), database.clock.now)
    issuer = None
    if auth.issuer is not None:
        rules = TokenRules(auth.issuer, auth.audience)
        issuer = Issuer(rules, auth.claims, database.clock.wall, key_set_url=auth.key_set_url)
    return Authentication(auth.settings, keys, issuer, database.clock)


def settings_of(config: ServerConfig) -> ApiSettings:
    """Return the settings of the API for a configuration."""
    return ApiSettings(
        task_lease=config.task_lease,
        exposure=config.exposure.exposure(config.host),
        metrics_public=config.exposure.metrics_public,
        exposed=config.exposed and not config.auth.is_on,
        read_only=config.read_only,
    )
