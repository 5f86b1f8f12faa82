"""Whether the database file and its WAL are still those that the writer has open."""

import os
import shutil
from pathlib import Path

import pytest

from assay.storage.ports import Replaced
from assay.storage.sqlite import wal as module
from assay.storage.sqlite.store import SqliteStore
from assay.storage.sqlite.wal import Wal
from tests.core.support import NOW, signals, starts
from tests.storage.support import StoredWorld


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("engine.db", "engine.db-wal"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def await_tick(folder: Path, elsewhere: Path) -> None:
    """Wait until a change would have a later time than the last one in a folder."""
    probe = elsewhere / "probe"
    while True:
        probe.write_bytes(b"")
        if probe.stat().st_ctime_ns > folder.stat().st_ctime_ns:
            return


@pytest.mark.parametrize("name", ["engine.db", "engine.db-wal"])
@pytest.mark.parametrize("settled", [False, True])
def test_a_file_that_is_deleted_moved_or_replaced_is_noticed(
    files: Path,
    name: str,
    settled: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
):
    monkeypatch.setattr(module, "TIMESTAMP_TICK_SECONDS", -1.0 if settled else 60.0)
    for act in (os.unlink, lambda path: os.rename(path, f"{path}.old"), lambda path: os.replace(files / "new", path)):
        for made in ("engine.db", "engine.db-wal", "new"):
            (files / made).write_bytes(b"")
        wal = Wal(files / "engine.db", 4096)
        for _ in range(3):
            wal.check()
        assert (wal._settled_at == os.stat(files).st_ctime_ns) is settled
        if settled:
            await_tick(files, tmp_path_factory.mktemp("clock"))
        act(files / name)
        with pytest.raises(Replaced):
            wal.check()
        wal.close()


def test_a_folder_that_changes_otherwise_is_harmless(files: Path):
    wal = Wal(files / "engine.db", 4096)
    wal.check()
    (files / "other").write_bytes(b"")
    os.unlink(files / "other")
    os.link(files / "engine.db", files / "link.db")
    wal.check()
    wal.close()


@pytest.mark.parametrize("in_thread", [False, True])
async def test_nothing_is_acknowledged_and_the_lost_wal_is_not_moved_into_the_file(tmp_path: Path, in_thread: bool):
    path = tmp_path / "engine.db"
    store = SqliteStore(path, clock=lambda: NOW, in_thread=in_thread)
    await store.open()
    world = await StoredWorld(store).do(starts())
    store._opened()._connection.wal_checkpoint()
    shutil.copy(path, tmp_path / "kept.db")
    os.unlink(tmp_path / "engine.db-wal")
    with pytest.raises(Replaced):
        await world.do(signals())
    for _ in range(2):
        with pytest.raises(Replaced):
            await store.next_due()
    assert path.read_bytes() == (tmp_path / "kept.db").read_bytes()
    again = SqliteStore(path, clock=lambda: NOW)
    await again.open()  # although the first one was not closed
    await again.numbers(1)
    await again.close()
    await store.close()
