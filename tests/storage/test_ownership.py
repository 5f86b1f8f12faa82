"""One engine per file: the lock, the generation, forks and filesystems (I9)."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.core.model.errors import Invalid, Unavailable
from assay.storage.ports import Broken, RunFilter
from assay.storage.sqlite.ownership import FileLock, refuse_network
from assay.storage.sqlite.reader import SqliteReader
from assay.storage.sqlite.store import SqliteStore
from tests.core.support import MAIN, NOW, signals, starts
from tests.storage.support import StoredWorld, as_stored, reloaded

ENGINE = """
import asyncio, sys
from assay.storage.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1], clock=lambda: 1_700_000_000_000_000)
    await store.open()
    print("open", flush=True)
    sys.stdin.readline()
    await store.close()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engine.db"


@pytest.fixture
def other_engine(path: Path):
    """An engine in a process of its own that has the file open."""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", ENGINE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


@pytest.mark.quiet
async def test_a_second_engine_is_refused_at_once_and_told_by_whom(path: Path, other_engine: subprocess.Popen[str]):
    begin = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        await SqliteStore(path, clock=lambda: NOW).open()
    assert time.monotonic() - begin < 1
    assert caught.value.code == "store_in_use"
    assert f"{path} is in use by process {other_engine.pid} on " in str(caught.value)
    assert str(caught.value).endswith("since 2023-11-14T22:13:20+00:00; use Postgres for several engines")


@pytest.mark.quiet
async def test_after_kill_9_the_next_engine_starts_at_once(path: Path, other_engine: subprocess.Popen[str]):
    other_engine.send_signal(signal.SIGKILL)
    other_engine.wait()
    begin = time.monotonic()
    store = SqliteStore(path, clock=lambda: NOW)
    await store.open()
    assert time.monotonic() - begin < 1
    await store.close()


async def test_a_paused_engine_keeps_its_file(path: Path, other_engine: subprocess.Popen[str]):
    other_engine.send_signal(signal.SIGSTOP)
    with pytest.raises(Unavailable):
        await SqliteStore(path, clock=lambda: NOW).open()
    other_engine.send_signal(signal.SIGCONT)


async def test_a_closed_store_can_be_opened_again(path: Path):
    store = SqliteStore(path, clock=lambda: NOW)
    for _ in range(2):
        await store.open()
        await store.close()
    with pytest.raises(Broken):
        await store.numbers(1)


def test_a_lock_without_a_name_is_still_a_lock(path: Path):
    first, second = FileLock(path), FileLock(path)
    first.take(NOW)
    os.truncate(first.path, 0)
    with pytest.raises(Unavailable, match="in use by another process;"):
        second.take(NOW)
    first.release()
    second.take(NOW)
    second.release()


async def test_an_engine_whose_lock_file_was_removed_cannot_write_any_more(path: Path):
    old, new = SqliteStore(path, clock=lambda: NOW), SqliteStore(path, clock=lambda: NOW)
    await old.open()
    world = await StoredWorld(old).do(starts())
    path.with_name("engine.db.lock").unlink()
    await new.open()
    with pytest.raises(Broken, match="another engine has taken over"):
        await old.numbers(1)
    world.take(signals())
    with pytest.raises(Broken, match="another engine has taken over"):
        await world.commit()
    assert len(await new.events(world.run.run_id)) == 1
    await StoredWorld(new, "new-").do(starts("other"))
    await old.close()
    await new.close()


async def test_files_are_for_their_owner_alone(path: Path):
    before = os.umask(0)
    try:
        store = SqliteStore(path, clock=lambda: NOW)
        await store.open()
        await StoredWorld(store).do(starts())
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        await store.close()
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert {"engine.db", "engine.db-wal", "engine.db.lock"} <= modes.keys()


async def test_a_folder_that_is_missing_is_named(tmp_path: Path):
    with pytest.raises(Invalid, match="nowhere does not exist"):
        await SqliteStore(tmp_path / "nowhere" / "engine.db", clock=lambda: NOW).open()


async def test_two_names_of_a_file_are_one_file(path: Path):
    store = SqliteStore(path, clock=lambda: NOW)
    await store.open()
    os.symlink(path, path.with_name("link.db"))
    with pytest.raises(Unavailable) as caught:
        await SqliteStore(path.with_name("link.db"), clock=lambda: NOW).open()
    assert caught.value.code == "store_in_use"
    await store.close()


async def test_a_file_that_cannot_be_opened_is_named(path: Path):
    os.mkdir(path.with_name("engine.db.lock"))
    with pytest.raises(Unavailable, match=r"engine\.db cannot be opened"):
        await SqliteStore(path, clock=lambda: NOW).open()


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_forked_child_has_nothing_and_harms_nothing(path: Path, runner: asyncio.Runner, in_thread: bool):
    store = SqliteStore(path, in_thread=in_thread, clock=lambda: NOW)
    runner.run(store.open())
    world = runner.run(StoredWorld(store).do(starts()))
    runner.run(store.list_runs(RunFilter(namespace=MAIN)))
    child = os.fork()
    if child == 0:  # the child must not run the rest of the test session
        code = 1
        try:
            asyncio.Runner().run(store.numbers(1))
        except Broken:
            code = 0
        except BaseException:  # noqa: BLE001  # whatever it is, the parent learns of it by the exit code
            code = 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(Unavailable):  # the lock is still the parent's
        FileLock(path).take(NOW)
    runner.run(world.do(signals()))
    assert runner.run(reloaded(store, world.run)) == as_stored(world.run)
    runner.run(store.close())


def test_a_forked_child_that_lives_on_does_not_keep_the_lock(path: Path, runner: asyncio.Runner):
    store = SqliteStore(path, clock=lambda: NOW)
    runner.run(store.open())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    runner.run(store.close())
    lock = FileLock(path)
    lock.take(NOW)
    lock.release()
    os.close(writing)
    os.waitpid(child, 0)


async def test_a_reader_looks_into_a_file_in_use(path: Path):
    store = SqliteStore(path, clock=lambda: NOW)
    await store.open()
    world = await StoredWorld(store).do(starts())
    reader = SqliteReader(path, clock=lambda: 0)
    await reader.open()
    (found,) = await reader.load([world.run.run_id], [])
    assert as_stored(found) == as_stored(world.run)
    await world.do(signals())
    assert len(await reader.events(world.run.run_id)) == 2
    await reader.close()
    await store.close()
    with pytest.raises(Invalid):
        await SqliteReader(path.with_name("nothing.db"), clock=lambda: 0).open()


@pytest.mark.parametrize(
    ("folder", "refused"),
    [("/", False), ("/srv/data", True), ("/srv/data/deep/er", True), ("/srv/data 2", True), ("/srv/database", False)],
)
def test_a_network_filesystem_is_refused(tmp_path: Path, folder: str, refused: bool):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\n10.0.0.1:/x /srv/data nfs4 rw 0 0\nme@host: /srv/data\\0402 fuse.sshfs rw 0 0\n"
    )
    if refused:
        with pytest.raises(Unavailable, match="network filesystem"):
            refuse_network(Path(folder), mounts)
    else:
        refuse_network(Path(folder), mounts)
    refuse_network(Path(folder), tmp_path / "no such file")


@pytest.mark.parametrize("kind", ["9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "fakeowner", "fuse.grpcfuse"])
def test_a_folder_shared_with_a_host_is_refused(tmp_path: Path, kind: str):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nshare /shared {kind} rw 0 0\n")
    with pytest.raises(Unavailable, match=kind):
        refuse_network(Path("/shared/data"), mounts)
