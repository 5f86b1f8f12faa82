import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
from tests.temporary_postgres import temporary_postgres

ROOT = Path(__file__).parents[2]
SECONDS = 60
STEPS = 7

SHOWN = {
    "hello": ["Hello, world!"],
    "nightly_report": [
        "scanning eu-west-1",
        "handling a-1: stale_lock",
        "handling a-2: missing_index",
        "handling a-3: orphaned_record",
        r"rep-[0-9a-f-]{36}: 3 anomalies handled in eu-west-1",
    ],
    "approval": [
        "paying 25 to Ada",
        "lunch: paid, approved by Grace",
        "yacht: turned down by Grace",
        "forgotten: turned down: nobody decided in time",
    ],
    "saga": [
        "booking a trip for Ada",
        "  flight booked for Ada",
        "  hotel booked for Ada",
        "  car booked for Ada",
        "Ada is going on a trip",
        "booking a trip for Max",
        "  flight booked for Max",
        "  hotel booked for Max",
        "  car cancelled for Max, if there was one",
        "  hotel cancelled for Max",
        "  flight cancelled for Max",
        "Max stays at home: no driving licence",
    ],
    "fan_out": [*[r"counting \d+ characters"] * 3, "the    4", "dog    3", "fox    3"],
    "poller": [
        *[rf"poll {number} of export-2031" for number in range(1, 9)],
        "export-2031 is ready after 8 polls",
        r"3 runs, none with more than \d+ events",
    ],
    "jobs": ["job 13: this number brings bad luck", "job 2: 4", "job 3: 9"],
    "counter": ["plus 3 is 3", "plus 4 is 7", "refused: the amount must be a number", "the end is 7"],
    "request_reply": ["apple: 2", "pear: 3", "mango: not sold", "3 questions answered"],
    "ping_pong": ["ping 1, pong 1", "ping 2, pong 2", "ping 3, pong 3", "3 pings answered"],
    "worker_pool": ["the sum is 42"],
    "supervisor": ["start 1 failed: started again", "start 2 failed: started again", "served at start 3"],
    "versioned_deploy": [
        "deployed: the first version",
        "  order-1 waits for its payment",
        "deployed: the second version, while order-1 is open",
        "  order-2 waits for its payment",
        "  order-1: sent by post",
        "  order-2: sent by courier",
        "runs with the change: order-2",
    ],
}
"""What each example prints, line by line, as patterns."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", *arguments]


def environment(**extra: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name != "ASSAY_ENGINE_URL"}
    return {**plain, "PYTHONPATH": os.pathsep.join(filter(None, (plain.get("PYTHONPATH"), str(ROOT)))), **extra}


def run(folder: Path, *arguments: str) -> list[str]:
    """What a program prints that runs in an empty folder; it must end well and complain about nothing."""
    finished = subprocess.run(  # noqa: S603
        command(*arguments),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    complaints = [line for line in finished.stderr.splitlines() if "did not extend its lease" not in line]
    assert (finished.returncode, complaints) == (0, []), finished.stderr
    return finished.stdout.splitlines()


def test_every_example_is_known():
    files = {path.stem for path in (ROOT / "examples").glob("*.py") if path.stem != "__init__"}
    assert files == SHOWN.keys() | {"server_demo"}


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_runs(name: str, tmp_path: Path):
    lines = run(tmp_path, "-m", f"examples.{name}")
    assert len(lines) == len(SHOWN[name])
    for pattern, line in zip(SHOWN[name], lines, strict=True):
        assert re.fullmatch(pattern, line), line
    assert (tmp_path / f"{name}.db").exists()


def test_an_example_is_a_script_too(tmp_path: Path):
    assert run(tmp_path, str(ROOT / "examples/hello.py")) == ["Hello, world!"]


@pytest.fixture
def postgres() -> Iterator[str]:
    with temporary_postgres() as dsn:
        yield dsn


async def greeting_from(url: str) -> str:
    """Start a workflow here, for a worker elsewhere."""
    async with await assay.Client.connect(url, app=assay.App()) as client:
        handle = await client.start("Hello", input="you")
        return str(await handle.result())


def test_an_example_serves_another_process(tmp_path: Path, postgres: str):
    finished = environment(ASSAY_ENGINE_URL=postgres)
    with subprocess.Popen(command("-m", "examples.hello", "listen"), cwd=tmp_path, env=finished) as listening:  # noqa: S603
        try:
            assert asyncio.run(greeting_from(postgres)) == "Hello, you!"
            listening.send_signal(signal.SIGTERM)
            assert listening.wait(SECONDS) == 0
        finally:
            listening.kill()


def test_the_demo_repeats_no_finished_step(tmp_path: Path):
    lines = run(tmp_path, "-m", "examples.demo", "--orders", "1")
    killed = [line for line in lines if "kill -9 in the middle" in line]
    done = [line for line in lines if line.endswith("  done")]
    assert killed
    assert len(done) == STEPS
    assert any("started again" in line for line in lines)
    assert "\x1b" not in "".join(lines)
    assert lines[-1].startswith(f"  so far: orders completed 1, processes killed {len(killed)},")
    assert lines[-1].endswith("done steps repeated 0")


def test_the_server_demo_makes_its_reports(tmp_path: Path):
    lines = run(tmp_path, "-m", "examples.server_demo", "--reports", "2")
    assert len([line for line in lines if " started for " in line]) == 2
    assert len([line for line in lines if re.search(r" done: .* handled$", line)]) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_ends_when_asked(tmp_path: Path, number: signal.Signals):
    with subprocess.Popen(  # noqa: S603
        command("-m", "examples.demo"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        try:
            shop = process_in(next(line for line in demo.stdout or () if "done" in line))
            demo.send_signal(number)
            rest, complaints = demo.communicate(timeout=SECONDS)
        finally:
            demo.kill()
    assert (demo.returncode, complaints) == (0, "")
    assert rest.splitlines()[-1].startswith("so far: orders completed 0")
    with pytest.raises(ProcessLookupError):
        os.kill(shop, 0)


def process_in(line: str) -> int:
    found = re.search(r"process (\d+)", line)
    assert found is not None
    return int(found[1])
