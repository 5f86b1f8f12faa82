"""`assay replay` as a user would: with histories that the command line has exported, and code in files and modules."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import Client
from assay.testing.replay import fetch_history
from tests.api.support import Server
from tests.cli.support import CommandResult, on_terminal, plain_environment, spawn
from tests.http.processes import Process

PROGRAM = """
from assay import workflow

@workflow.activity
def charge(amount): return "charged " + str(amount)

@workflow.define
async def Order(ctx, amount):
    receipt = await ctx.execute_activity("charge", amount)
    await ctx.run("pack", lambda: "a box")
    {wait}
    return receipt
"""
WAITING = 'await ctx.wait_for_signal("go")'

SLEPT = json.dumps(
    {
        "workflow_type": "Order",
        "run_id": "r",
        "events": [
            {"seq": seq, "time": seq, "kind": kind, "payload": payload}
            for seq, (kind, payload) in enumerate(
                [
                    ("WorkflowStarted", 5),
                    (
                        "ActivityScheduled",
                        {"activity_id": 1, "activity_seq": 1, "name": "charge", "task_queue": "q", "input": 5},
                    ),
                    (
                        "ActivityCompleted",
                        {"activity_id": 1, "activity_seq": 1, "name": "charge", "result": "charged 5"},
                    ),
                    ("StepCompleted", {"step_seq": 1, "name": "pack", "result": "a box"}),
                    ("TimerScheduled", {"timer_id": 1, "timer_seq": 1, "fire_at": 5.0, "duration_secs": 5.0}),
                    ("TimerFired", {"timer_seq": 1, "fire_at": 5.0}),
                ],
                1,
            )
        ],
    }
)
"""The history of an order that slept for five seconds."""

Replay = Callable[..., CommandResult]


NAMESPACE = "replayed"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The code that made the histories, which tests change."""
    return written(tmp_path)


def written(folder: Path) -> Path:
    file = folder / "shop.py"
    file.write_text(PROGRAM.format(wait=WAITING))
    return file


@pytest.fixture
def shell(engine: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    return environment(engine, tmp_path)


def environment(engine: Server, home: Path) -> dict[str, str]:
    return plain_environment(home, ASSAY_ENGINE_URL=f"http://127.0.0.1:{engine.port}", ASSAY_NAMESPACE=NAMESPACE)


@pytest.fixture
def replay(shell: dict[str, str]) -> Replay:
    return lambda *arguments, **options: spawn(["replay", *arguments], shell, **options)


@pytest.fixture(scope="module")
def exported(engine: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the histories of two orders, one of which is still open."""
    folder = tmp_path_factory.mktemp("exported")
    replayed = environment(engine, folder)
    options = ["--namespace", NAMESPACE, "--queue", "orders"]
    worker = Process(["-m", "assay", "run", str(written(folder)), *options], folder / "worker.log", replayed)
    try:
        saved = asyncio.run(lives(replayed["ASSAY_ENGINE_URL"]))
    finally:
        worker.end()
    (folder / "saved.json").write_bytes(saved)
    for name in ("done", "open"):
        for kind in ("json", "jsonl"):
            (folder / f"{name}.{kind}").write_text(spawn(["workflow", "events", name, "--output", kind], replayed).out)
    return folder


async def lives(url: str) -> bytes:
    async with await Client.connect(url, namespace=NAMESPACE) as client:
        for name in ("done", "open"):
            await client.start("Order", 5, workflow_id=name, task_queue="orders")
            while (await client.describe(name))["waiting_on"]["signal"] is None:
                await asyncio.sleep(0.01)
        await client.signal("done", "go")
        assert await asyncio.wait_for(client.result("done"), 20) == "charged 5"
        return (await fetch_history(client, "done")).dump()


@pytest.fixture
def lived(exported: Path, tmp_path: Path, code: Path) -> None:
    """The histories, beside the code."""
    for file in exported.glob("*.json*"):
        shutil.copy(file, tmp_path)


@pytest.mark.usefixtures("lived")
def test_code_that_did_not_change_follows(replay: Replay, shell: dict[str, str]):
    histories = ["done.json", "done.jsonl", "open.json", "open.jsonl", "saved.json"]
    assert replay("--against", "shop.py", *histories) == (
        0,
        "".join(f"{name}: followed, {5 if 'open' in name else 7} events of Order\n" for name in histories),
        "",
    )
    assert replay("--against", "shop", "done.json").code == 0
    assert replay("--against", "shop.py", "--id", "done", "--id", "open").out == (
        "done: followed, 7 events of Order\nopen: followed, 5 events of Order\n"
    )
    events = Path("open.jsonl").read_text()
    replayed = replay("--against", "shop.py", "-", input=events)
    assert replayed == (0, "standard input: followed, 5 events of Order\n", "")


@pytest.mark.usefixtures("lived")
def test_code_that_does_something_else_is_told_where(replay: Replay, code: Path):
    code.write_text(PROGRAM.format(wait=WAITING).replace('"pack"', '"wrap"'))
    replayed = replay("--against", "shop.py", "done.json", "open.jsonl", "--id", "done")
    difference = "the history says step 1 'pack', the code did step 1 'wrap'"
    reason = f"not followed: the code no longer follows its history at step 1: {difference}"
    assert replayed.out == "".join(f"{name}: {reason}\n" for name in ("done.json", "open.jsonl", "done"))
    assert (replayed.code, replayed.err) == (1, "3 of 3 histories are not followed\n")


@pytest.mark.usefixtures("lived")
def test_an_exception_is_shown_with_the_step_that_it_prevented(replay: Replay, code: Path):
    code.write_text(PROGRAM.format(wait=WAITING).replace("    await ctx.run", "    undefined_name\n    await ctx.run"))
    replayed = replay("--against", "shop.py", "open.jsonl")
    assert "the code raised NameError: name 'undefined_name' is not defined at shop.py:" in replayed.out
    assert ", before step 1 'pack'" in replayed.out
    assert replayed.code == 1


@pytest.mark.usefixtures("lived")
def test_an_input_that_changed_is_a_difference(replay: Replay, code: Path):
    code.write_text(PROGRAM.format(wait=WAITING).replace('"charge", amount', '"charge", -amount'))
    replayed = replay("--against", "shop.py", "open.json")
    difference = "the history says activity 1 'charge' with input 5, the code did activity 1 'charge' with input -5"
    reason = f"not followed: the code no longer follows its history at activity 1: {difference}"
    assert replayed == (1, f"open.json: {reason}\n", "1 of 1 histories are not followed\n")


def test_a_timer_of_another_length_is_a_warning(replay: Replay, code: Path):
    code.write_text(PROGRAM.format(wait="await ctx.sleep(60)"))
    replayed = replay("--against", "shop.py", "-", input=SLEPT)
    difference = "the history says timer 1 of 5 s, the code did timer 1 of 60 s"
    assert (replayed.code, replayed.out) == (0, "standard input: followed, 6 events of Order\n")
    assert replayed.err.startswith("standard input: warning: timer 1 differs from its history")
    assert replayed.err.endswith(f"{difference}\n")


@pytest.mark.usefixtures("lived")
def test_one_that_is_not_followed_is_enough(replay: Replay, code: Path):
    code.write_text(PROGRAM.format(wait=""))
    replayed = replay("--against", "shop.py", "saved.json", "open.json")
    assert (replayed.code, replayed.err) == (1, "2 of 2 histories are not followed\n")
    code.write_text(PROGRAM.format(wait=f"{WAITING}; await ctx.sleep(1)"))
    replayed = replay("--against", "shop.py", "done.json", "open.json")
    assert (replayed.code, replayed.err) == (1, "1 of 2 histories are not followed\n")
    assert "done.json: not followed: " in replayed.out
    assert "the history says WorkflowCompleted, the code did timer 1" in replayed.out
    assert "open.json: followed, 5 events of Order\n" in replayed.out


@pytest.mark.usefixtures("lived")
def test_the_exit_code_counts_though_nobody_reads_on(shell: dict[str, str], code: Path):
    code.write_text(PROGRAM.format(wait=""))
    line = f"{sys.executable} -m assay replay --against shop.py done.json done.json done.json | true"
    done = subprocess.run(  # noqa: S603
        ["bash", "-o", "pipefail", "-c", line],  # noqa: S607
        env=shell,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"3 of 3 histories are not followed\n")


@pytest.mark.usefixtures("lived")
def test_the_workflow_of_a_history_may_have_another_name_now(replay: Replay, code: Path):
    code.write_text(PROGRAM.format(wait=WAITING).replace("Order", "Purchase"))
    replayed = replay("--against", "shop.py", "done.json")
    assert replayed.out == "done.json: not followed: shop.py has no workflow of type Order; its types: Purchase\n"
    assert replay("--against", "shop.py", "--type", "Purchase", "done.json").code == 0


@pytest.mark.usefixtures("lived")
def test_code_is_only_loaded(replay: Replay, code: Path):
    """A file that would connect, listen and serve does none of it; one that would start something is told so."""
    code.write_text(PROGRAM.format(wait=WAITING) + "workflow.connect('sqlite://own.db')\nworkflow.listen('orders')\n")
    assert replay("--against", "shop.py", "done.json").code == 0
    assert not Path("own.db").exists()
    code.write_text(PROGRAM.format(wait=WAITING) + "workflow.start('Order')\n")
    replayed = replay("--against", "shop.py", "done.json")
    assert (replayed.code, replayed.out) == (1, "")
    assert 'shop.py", line 13' in replayed.err
    assert 'put the call under `if __name__ == "__main__":`' in replayed.err


@pytest.mark.usefixtures("lived")
def test_an_app_of_its_own_is_asked(replay: Replay, code: Path):
    text = PROGRAM.format(wait=WAITING).replace("from assay import workflow", "import assay\nworkflow = assay.App()")
    code.write_text(text.replace("@workflow.define", "@workflow.workflow"))
    assert replay("--against", "shop", "done.json").code == 0


def without(record: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda events: "", "not a whole history"),
        (lambda events: "[]", "not a whole history"),
        (lambda events: "nonsense", "neither JSON nor JSON lines"),
        (lambda events: "- seq: 1\n", "neither JSON nor JSON lines"),
        (lambda events: "{}", "not a history: "),
        (lambda events: "[5]", "not an event of a history"),
        (lambda events: json.dumps(events[1:]), "not a whole history"),
        (lambda events: json.dumps([*events[:2], *events[3:]]), "not a whole history"),
        (lambda events: json.dumps([*events[:2], events[2] | {"run_id": "x"}]), "not a history, but several"),
        (lambda events: json.dumps([without(events[0], "workflow_type"), *events[1:]]), "has no workflow type"),
        (lambda events: json.dumps([*events[:1], events[1] | {"event_type": "Later"}]), "does not know: Later"),
    ],
)
@pytest.mark.usefixtures("lived")
def test_what_is_no_history_is_told_of(replay: Replay, change: Callable[[Any], str], problem: str):
    Path("bad.json").write_text(change(json.loads(Path("done.json").read_text())))
    replayed = replay("--against", "shop.py", "bad.json", "done.json")
    bad, good = replayed.out.splitlines()
    assert bad.startswith("bad.json: not followed: ")
    assert problem in bad
    assert good == "done.json: followed, 7 events of Order"
    assert replayed.code == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--against", "shop.py"], "give a file with a history, or --id"),
        (["shop.py"], "Missing option '--against'"),
        (["--against", "shop.py", "nowhere.json"], "'nowhere.json' does not exist"),
        (["--against", "nowhere.py", "shop.py"], "there is no file nowhere.py"),
        (["--against", "no.where", "shop.py"], "there is no module no.where"),
    ],
)
def test_a_wrong_call(replay: Replay, code: Path, arguments: list[str], problem: str):
    replayed = replay(*arguments)
    assert (replayed.code, replayed.out) == (64, "")
    assert problem in replayed.err


def test_mistakes_of_the_code_are_shown_as_its_own(replay: Replay, code: Path):
    for text in ("import nowhere_at_all\n", "x = 1 / 0\n"):
        code.write_text(text)
        for against in ("shop.py", "shop"):
            replayed = replay("--against", against, "shop.py")
            assert (replayed.code, replayed.out) == (1, "")
            assert replayed.err.startswith(f'Traceback (most recent call last):\n  File "{code}", line 1')


def test_a_workflow_that_is_not_there(replay: Replay, code: Path):
    replayed = replay("--against", "shop.py", "--id", "nobody")
    assert (replayed.code, replayed.out) == (1, "")
    assert replayed.err.startswith("error: replay: HTTP 404: ")


def test_a_key_is_warned_of(code: Path, shell: dict[str, str]):
    replayed = on_terminal(["replay", "--against", str(code), "--id", "nobody", "--api-key", "k"], shell)
    assert replayed.out.startswith("warning: --api-key can be read by everybody")
