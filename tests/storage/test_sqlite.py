"""The SQLite store alone: its thread, its WAL, and errors of the disk."""

import asyncio
import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from assay.core.model.ids import RunId, WorkflowId
from assay.core.model.payload import Payload
from assay.storage.ports import Broken, OutcomeUnknown, Rejected, RunFilter
from assay.storage.sqlite import connections
from assay.storage.sqlite import store as store_module
from assay.storage.sqlite import wal as wal_module
from assay.storage.sqlite import writer as writer_module
from assay.storage.sqlite.store import SqliteStore
from tests.core.support import MAIN, NOW, ORDER, signals, starts
from tests.storage.states import STATES
from tests.storage.support import StoredWorld, Stores, as_stored, reloaded


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engine.db"


@pytest.fixture
def store(path: Path, runner: asyncio.Runner) -> Iterator[SqliteStore]:
    stores = Stores(path, in_thread=False)
    opened = runner.run(stores.open())
    assert isinstance(opened, SqliteStore)
    yield opened
    runner.run(stores.close())


def size(path: Path) -> int:
    return path.stat().st_size


class Faulty:
    """A cursor that does something else when it comes to one statement."""

    def __init__(self, cursor: Any, statement: str, instead: Callable[[Callable[[], object]], object]) -> None:
        self._cursor = cursor
        self._statement = statement
        self._instead = instead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def execute(self, text: str, *arguments: Any) -> Any:
        if text != self._statement:
            return self._cursor.execute(text, *arguments)
        return self._instead(lambda: self._cursor.execute(text, *arguments))


@contextlib.contextmanager
def fault(store: SqliteStore, error: Exception, *, done: bool = False, at: str = "COMMIT") -> Iterator[None]:
    """The statement fails; `done` says that it took effect all the same."""

    def instead(act: Callable[[], object]) -> object:
        if done:
            act()
        raise error

    writer = store._opened()
    healthy = writer._cursor
    writer._cursor = Faulty(healthy, at, instead)  # type: ignore[assignment]
    try:
        yield
    finally:
        writer._cursor = healthy


# where it writes


@pytest.mark.parametrize(("taken", "inline"), [(0.0002, True), (0.02, False)])
async def test_a_slow_disk_gets_a_writer_thread(
    path: Path, monkeypatch: pytest.MonkeyPatch, taken: float, inline: bool
):
    monkeypatch.setattr(connections, "sync_time", lambda folder: taken)
    store = SqliteStore(path, clock=lambda: NOW)
    await store.open()
    assert store.inline is inline
    await StoredWorld(store).do(starts())
    await store.close()


def test_the_time_of_a_disk_is_measured(tmp_path: Path):
    assert 0 < connections.sync_time(tmp_path) < 10
    assert list(tmp_path.iterdir()) == []


async def test_an_inline_write_never_gives_up_the_loop(store: SqliteStore):
    world = StoredWorld(store)
    world.take(starts())
    writing = store.write(world.changes())
    with pytest.raises(StopIteration):
        writing.send(None)
    reading = store.load([world.run.run_id], [])
    with pytest.raises(StopIteration):
        reading.send(None)


@pytest.mark.parametrize("state", STATES)
async def test_a_writer_thread_leaves_what_an_inline_write_leaves(path: Path, state: str):
    store = SqliteStore(path, in_thread=True, clock=lambda: NOW)
    await store.open()
    world = await StoredWorld(store).do(*STATES[state])
    for run in world.runs.values():
        assert await reloaded(store, run) == as_stored(run)
    assert await store.numbers(5) == 1
    await store.close()


async def test_writes_in_a_thread_go_on_when_their_callers_are_cancelled(path: Path, monkeypatch: pytest.MonkeyPatch):
    store = SqliteStore(path, in_thread=True, clock=lambda: NOW)
    await store.open()
    writer = store._opened()
    begun, go_on, write = threading.Event(), threading.Event(), writer.write

    def slow(changes: Any) -> Any:
        begun.set()
        go_on.wait()
        return write(changes)

    monkeypatch.setattr(writer, "write", slow)
    running, queued = StoredWorld(store), StoredWorld(store, "queued-")
    running.take(starts())
    queued.take(starts("other"))
    tasks = [asyncio.create_task(world.commit()) for world in (running, queued)]
    await asyncio.to_thread(begun.wait)
    for task in tasks:
        task.cancel()
    assert [type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == [
        asyncio.CancelledError
    ] * 2
    go_on.set()
    await store.close()
    await store.open()
    assert len(await store.load([running.run.run_id, RunId("queued-run-1")], [])) == 2
    await store.close()


# what it promises


WRITER = """
import asyncio, sys
from assay.storage.sqlite.store import SqliteStore
from tests.core.support import starts
from tests.storage.states import STATES
from tests.storage.support import StoredWorld

async def main():
    store = SqliteStore(sys.argv[1], clock=lambda: 1_700_000_000_000_000)
    await store.open()
    world = StoredWorld(store)
    for number in range(1_000_000):
        await world.do(starts(f"order-{number}"))
        print(number, flush=True)

asyncio.run(main())
"""


def test_what_was_acknowledged_survives_kill_9(path: Path, runner: asyncio.Runner):
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout]
    store = SqliteStore(path, clock=lambda: NOW)
    runner.run(store.open())
    found = runner.run(store.load([], [(MAIN, WorkflowId(f"order-{number}")) for number in acknowledged]))
    assert len(found) == len(acknowledged) >= 50
    runner.run(store.close())


async def test_commits_are_synchronous_and_others_only_read(store: SqliteStore):
    ask = store._opened()._connection.pragma
    assert (ask("journal_mode"), ask("synchronous"), ask("foreign_keys"), ask("trusted_schema")) == ("wal", 2, 1, 0)
    await store.list_runs(RunFilter(namespace=MAIN))
    (reader,) = store._scanners
    assert reader.pragma("query_only") == 1
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("DELETE FROM runs")


async def test_the_wal_is_moved_to_the_file_while_writing_goes_on(store: SqliteStore, path: Path):
    world = StoredWorld(store)
    large = Payload(b'"' + b"x" * 100_000 + b'"')
    for number in range(120):
        await world.do(starts(f"order-{number}", input=large))
    pages = writer_module.CHECKPOINT_PAGES + 200
    assert size(path.with_name("engine.db-wal")) < 2 * pages * 4096
    assert size(path) > 100 * 100_000


def used(path: Path) -> int:
    """Bytes of frames that count, by SQLite's own reckoning."""
    connection = connections.open_reader(path)
    _, frames, _ = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchall()[0]
    connection.close()
    return 32 + int(frames) * (24 + 4096)


async def test_small_commits_overwrite_what_is_there(store: SqliteStore, path: Path):
    wal = path.with_name("engine.db-wal")
    world, longer = StoredWorld(store), 0
    for number in range(60):
        before = size(wal)
        assert used(path) + wal_module.SPARE_FRAMES * (24 + 4096) <= before
        await world.do(starts(f"order-{number}"))
        longer += size(wal) > before
    assert 0 < longer < 20


async def test_zeros_after_the_frames_are_nothing_to_a_crashed_database(store: SqliteStore, path: Path, tmp_path: Path):
    world = await StoredWorld(store).do(starts())
    for _ in range(40):
        await world.do(signals())
    copied = tmp_path / "crashed.db"
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{copied}{end}")
    again = SqliteStore(copied, clock=lambda: NOW)
    await again.open()
    assert await reloaded(again, world.run) == as_stored(world.run)
    assert [event.seq for event in await again.events(world.run.run_id, 0, 100)] == list(range(1, 42))
    await again.close()


async def test_a_disk_that_has_no_room_ahead_is_written_to_all_the_same(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(wal_module.os, "pwrite", refuse)
    store._opened()._wal.forget()
    world = await StoredWorld(store).do(starts())
    assert await reloaded(store, world.run) == as_stored(world.run)


async def test_a_large_wal_is_cut_when_there_is_time(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writer_module, "LARGE_WAL_PAGES", 0)
    monkeypatch.setattr(store_module, "IDLE_SECONDS", 0.01)
    wal = path.with_name("engine.db-wal")
    writer, cut = store._opened(), asyncio.Event()
    truncate = writer.truncate
    monkeypatch.setattr(writer, "truncate", lambda: (truncate(), cut.set()))
    world = await StoredWorld(store).do(starts())
    assert size(wal) > 0
    await cut.wait()
    assert size(wal) == 0
    await world.do(signals())
    assert size(wal) > used(path)
    assert await reloaded(store, world.run) == as_stored(world.run)


async def test_a_reader_in_the_way_keeps_the_wal_and_blocks_nobody(store: SqliteStore, path: Path):
    world = await StoredWorld(store).do(starts())
    reader = connections.open_reader(path)
    cursor = reader.execute("BEGIN; SELECT run_id FROM runs")
    await world.do(signals())
    store._opened().truncate()
    assert size(path.with_name("engine.db-wal")) > 0
    await world.do(signals())
    cursor.close()
    reader.execute("COMMIT")
    reader.close()
    assert await reloaded(store, world.run) == as_stored(world.run)


async def test_an_event_cannot_be_changed(store: SqliteStore):
    await StoredWorld(store).do(starts())
    with pytest.raises(apsw.ConstraintError, match="a recorded event never changes"):
        store._opened()._connection.execute("UPDATE events SET kind = 'Other'")


# what errors mean


async def unchanged(store: SqliteStore, world: StoredWorld, error: type[Exception]) -> None:
    """A signal is refused with this error and leaves no trace."""
    before = await reloaded(store, world.run)
    world.take(signals())
    with pytest.raises(error) as caught:
        await world.commit()
    assert type(caught.value) is error
    assert await reloaded(store, world.run) == before


async def test_an_error_from_commit_is_an_unknown_outcome(store: SqliteStore):
    world = await StoredWorld(store).do(starts())
    with fault(store, apsw.SQLError("interrupted"), done=True):
        world.take(signals())
        with pytest.raises(OutcomeUnknown) as caught:
            await world.commit()
    assert type(caught.value) is OutcomeUnknown
    assert await reloaded(store, world.run) == as_stored(world.run)  # here it was committed after all


async def test_an_error_from_commit_leaves_no_transaction_open(store: SqliteStore):
    world = await StoredWorld(store).do(starts())
    with fault(store, apsw.SQLError("interrupted")):
        await unchanged(store, world, OutcomeUnknown)
    await world.learn(world.run.run_id)
    await world.do(signals())
    assert await reloaded(store, world.run) == as_stored(world.run)


@pytest.mark.parametrize("error", [apsw.IOError("disk"), apsw.CorruptError("page"), apsw.NotADBError("file")])
@pytest.mark.parametrize("at", ["BEGIN IMMEDIATE", "COMMIT"])
async def test_an_io_error_stops_the_store_for_good(store: SqliteStore, error: Exception, at: str):
    world = await StoredWorld(store).do(starts())
    with fault(store, error, at=at):
        await unchanged(store, world, Broken)
    with pytest.raises(Broken):
        await store.numbers(1)
    with pytest.raises(Broken):
        await world.commit()


@pytest.mark.parametrize("error", [apsw.FullError("no room"), apsw.BusyError("somebody writes")])
@pytest.mark.parametrize("at", ["BEGIN IMMEDIATE", "COMMIT"])
async def test_no_room_is_a_rejection_and_the_store_goes_on(
    store: SqliteStore, error: Exception, at: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(store_module, "LOCK_WAIT_SECONDS", 0.02)
    world = await StoredWorld(store).do(starts())
    with fault(store, error, at=at):
        await unchanged(store, world, Rejected)
    await world.learn(world.run.run_id)
    await world.do(signals())
    assert await reloaded(store, world.run) == as_stored(world.run)


async def test_a_failed_checkpoint_stops_the_store_after_the_commit(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    world = await StoredWorld(store).do(starts())
    monkeypatch.setattr(writer_module, "CHECKPOINT_PAGES", 0)

    class Failing(Faulty):
        def wal_checkpoint(self, **_: object) -> None:
            raise apsw.IOError("disk")

    writer = store._opened()
    healthy = writer._connection
    writer._connection = Failing(healthy, "", lambda act: act())  # type: ignore[assignment]
    await world.do(signals())
    assert await reloaded(store, world.run) == as_stored(world.run)
    world.take(signals())
    with pytest.raises(Broken):
        await world.commit()
    writer._connection = healthy


async def test_a_lock_of_another_program_is_a_rejection(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(store_module, "LOCK_WAIT_SECONDS", 0.02)
    world = await StoredWorld(store).do(starts())
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    await unchanged(store, world, Rejected)
    other.execute("ROLLBACK")
    other.close()


async def test_a_write_that_the_system_refuses_stops_the_store(store: SqliteStore, path: Path):
    """A real I/O error: the process may not write beyond the first page of any file."""
    world = await StoredWorld(store).do(starts())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        await unchanged(store, world, Broken)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, check=False).returncode == 0  # noqa: S603
    if not mounted:
        pytest.skip("a small disk needs mount(8) and root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607


async def fill(world: StoredWorld, kept: list[RunId]) -> None:
    while True:
        await world.do(starts(f"large-{len(kept)}", input=Payload(b'"' + b"x" * 20_000 + b'"')))
        kept.append(world.newest[WorkflowId(f"large-{len(kept)}")].run_id)


def test_a_full_disk_rejects_loses_nothing_and_recovers(small_disk: Path, runner: asyncio.Runner):
    stores = Stores(small_disk / "engine.db", in_thread=False)
    store = runner.run(stores.open())
    kept: list[RunId] = []
    with pytest.raises(Rejected) as caught:
        runner.run(fill(StoredWorld(store), kept))
    assert type(caught.value) is Rejected
    assert kept
    assert len(runner.run(store.load(kept, []))) == len(kept)
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)  # noqa: S603, S607
    runner.run(StoredWorld(store, "later-").do(starts(ORDER)))
    assert len(runner.run(store.load(kept, [(MAIN, ORDER)]))) == len(kept) + 1
    runner.run(stores.close())


def test_a_file_that_is_no_database_is_named(path: Path, runner: asyncio.Runner):
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(Broken, match="NotADB"):
        runner.run(SqliteStore(path, clock=lambda: NOW).open())
    path.unlink()
    store = SqliteStore(path, clock=lambda: NOW)
    runner.run(store.open())  # the lock was let go
    runner.run(store.close())
