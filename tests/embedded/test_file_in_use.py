"""Programs that touch the database file of their own engine, and are killed: nothing acknowledged is lost (I1)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay import workflow

PROGRAM = """
import json, os, pathlib, shutil, signal, sqlite3, subprocess, sys
from assay import Unavailable, workflow

UNPROTECTED = "unprotected" in sys.argv
ACT = sys.argv[1]
OTHER_PROCESS = [sys.executable, "-c", "import sqlite3; c = sqlite3.connect('app.db');"
    "c.execute('select count(*) from runs').fetchone(); c.close()"]
if UNPROTECTED:  # as on a system without locks of descriptors
    from assay.storage.sqlite.lock import OwnedFile
    OwnedFile._lock = lambda self, kind: None


def attach():
    c = sqlite3.connect(":memory:")
    c.execute("attach 'app.db' as other")
    c.execute("select count(*) from other.runs").fetchone()
    c.close()


def refused(database, **options):
    try:
        c = sqlite3.connect(database, **options)
        c.execute("select count(*) from runs").fetchone()
        c.close()
    except sqlite3.OperationalError as error:
        assert "VACUUM INTO" in str(error) and "app.db" in str(error), error
        print(json.dumps({"refused": str(error)}), flush=True)


def replace():
    shutil.copy("app.db", "new.db")
    os.replace("new.db", "app.db")


def others():
    sqlite3.connect(":memory:").close()
    c = sqlite3.connect("other.db")
    c.execute("create table t(x)")
    c.close()


os.symlink("app.db", "linked.db")
ACTS = {
    "connect": lambda: refused("app.db"),
    "path": lambda: refused(pathlib.Path("app.db").resolve()),
    "bytes": lambda: refused(b"app.db"),
    "uri": lambda: refused("file:app.db?mode=ro", uri=True),
    "absolute uri": lambda: refused("file://" + os.path.abspath("app.db") + "?mode=ro&immutable=1", uri=True),
    "symlink": lambda: refused("linked.db"),
    "hard link": lambda: (os.link("app.db", "hard.db"), refused("hard.db")),
    "other files": others,
    "attach": attach,
    "open": lambda: (open("app.db").close(), open("app.db-shm").close(), subprocess.run(OTHER_PROCESS, check=True)),
    "copy": lambda: (shutil.copy("app.db", "copy.db"), subprocess.run(OTHER_PROCESS, check=True)),
    "delete wal": lambda: os.unlink("app.db-wal"),
    "delete": lambda: os.unlink("app.db"),
    "replace": replace,
}


@workflow.define
async def Greet(ctx, name):
    return f"Hello {name}"


def run(number):
    try:
        workflow.run(Greet, "Ada", workflow_id=f"w-{number}")
        print(json.dumps({"acknowledged": f"w-{number}"}), flush=True)
    except Unavailable as error:
        print(json.dumps({"unavailable": error.code}), flush=True)


workflow.connect("sqlite://app.db")
run(0)
ACTS[ACT]()
for number in range(1, 11):
    run(number)
try:
    workflow.list().page()
except Unavailable as error:
    print(json.dumps({"unread": error.code}), flush=True)
if "again" in sys.argv:
    workflow.connect("sqlite://app.db")
    run(11)
    workflow.close()
os.kill(os.getpid(), signal.SIGKILL)
"""


def output_of(folder: Path, *arguments: str) -> dict[str, list[str]]:
    """Run the program until it kills itself; the values of its lines, by key."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        for key, value in json.loads(line).items():
            found.setdefault(key, []).append(value)
    return found


def completed(folder: Path) -> set[str]:
    """The workflows that an engine which starts now knows to be completed."""
    workflow.connect(f"sqlite://{folder}/app.db")
    try:
        return {record["id"] for record in workflow.list(limit=100) if record["status"] == "COMPLETED"}
    finally:
        workflow.close()


@pytest.mark.parametrize("act", ["connect", "path", "bytes", "uri", "absolute uri", "symlink", "hard link"])
def test_another_sqlite_is_refused_and_the_engine_goes_on(tmp_path: Path, act: str):
    output = output_of(tmp_path, act)
    assert len(output["refused"]) == 1
    assert len(output["acknowledged"]) == 11
    assert completed(tmp_path) == set(output["acknowledged"])


@pytest.mark.parametrize("act", ["attach", "open", "copy", "other files"])
@pytest.mark.skipif(sys.platform != "linux", reason="needs locks that belong to a descriptor")
def test_other_access_in_the_process_is_harmless(tmp_path: Path, act: str):
    output = output_of(tmp_path, act)
    assert len(output["acknowledged"]) == 11
    assert completed(tmp_path) == set(output["acknowledged"])


@pytest.mark.parametrize("act", ["attach", "open", "copy"])
def test_a_wal_that_another_library_deletes_ends_the_engine(tmp_path: Path, act: str):
    output = output_of(tmp_path, act, "unprotected")
    assert output["acknowledged"] == ["w-0"]
    assert output["unavailable"] == ["store_replaced"] * 10
    assert output["unread"] == ["store_replaced"]
    assert "w-0" in completed(tmp_path)


@pytest.mark.parametrize("act", ["delete wal", "delete", "replace"])
def test_a_file_that_is_replaced_ends_the_engine(tmp_path: Path, act: str):
    output = output_of(tmp_path, act)
    assert output["acknowledged"] == ["w-0"]
    assert set(output["unavailable"]) == {"store_replaced"}


def test_connecting_again_opens_the_file_anew(tmp_path: Path):
    output = output_of(tmp_path, "attach", "unprotected", "again")
    assert output["acknowledged"] == ["w-0", "w-11"]
    assert {"w-0", "w-11"} <= completed(tmp_path)
    assert not os.path.exists(tmp_path / "app.db-wal")
