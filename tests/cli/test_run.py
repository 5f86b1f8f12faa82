"""`assay run` with real engines, real files and real signals."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay import Client, WorkflowFailed
from tests.api.support import until
from tests.cli.support import PROGRAM, on_terminal, outcome, plain_environment, spawn
from tests.http.processes import Process, Server, free_port, server

GREETER = """
from assay import workflow

@workflow.define
async def Greet(ctx, name): return f"hello {name}"
"""
CONNECTED = re.compile("connected to http")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("engine")) as made:
        yield made


def written(folder: Path, text: str) -> Path:
    file = folder / "worker.py"
    file.write_text(textwrap.dedent(text))
    return file


@contextmanager
def running(file: Path, url: str, *options: str) -> Iterator[Process]:
    command = ["-m", "assay.cli.main", "run", str(file), "--engine-url", url, *options]
    made = Process(command, file.with_suffix(".log"))
    try:
        yield made
    finally:
        made.end()


def failed(file: Path, url: str | None = "http://127.0.0.1:1", **variables: str) -> tuple[int, str]:
    """How `assay run` ends when it cannot begin."""
    ran = subprocess.run(  # noqa: S603
        [*PROGRAM, "run", str(file), *([] if url is None else ["--engine-url", url])],
        cwd=file.parent,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stderr


def test_a_file_that_only_registers_is_served(tmp_path: Path, engine: Server):
    file = written(
        tmp_path,
        """
        from assay import workflow

        @workflow.define
        async def Add(ctx, n): return await ctx.execute_activity(one_more, n)

        @workflow.activity
        def one_more(n): return n + 1
        """,
    )
    with running(file, engine.url, "--queue", "plain") as worker:
        output = worker.wait_for(re.compile("serving .*"))[0]
        assert output == f"serving workflow Add and activity one_more on queue plain at {engine.url}"
        assert outcome(engine.url, "Add", 41, "plain") == 42
        assert worker.stop() == 0


@pytest.mark.parametrize("guard", ['if __name__ == "__main__":', "if True:"], ids=["guarded", "at the top"])
def test_a_file_that_listens_by_itself_serves_its_queue_at_the_engine_we_say(
    tmp_path: Path, engine: Server, guard: str
):
    queue = f"own-{len(guard)}"
    file = written(
        tmp_path,
        f"""
        from assay import workflow

        @workflow.define
        async def Shout(ctx, text): return text.upper()

        {guard}
            workflow.connect("http://127.0.0.1:1")
            workflow.listen(queue="{queue}")
        """,
    )
    with running(file, engine.url) as worker:
        worker.wait_for(CONNECTED)
        assert outcome(engine.url, "Shout", "hello", queue) == "HELLO"
        assert worker.stop() == 0


def test_an_app_of_its_own_is_served(tmp_path: Path, engine: Server):
    file = written(
        tmp_path,
        """
        import assay

        shop = assay.App(queue="shop")

        @shop.workflow
        async def Sell(ctx, n): return {"sold": n}
        """,
    )
    with running(file, engine.url) as worker:
        worker.wait_for(CONNECTED)
        assert outcome(engine.url, "Sell", 3, "shop") == {"sold": 3}
        assert worker.stop() == 0


def test_an_engine_that_is_not_there_yet_is_waited_for(tmp_path: Path):
    file = written(tmp_path, "from assay import workflow\n@workflow.define\nasync def Nothing(ctx): return 1\n")
    port = free_port()
    with running(file, f"http://127.0.0.1:{port}") as worker:
        worker.wait_for(re.compile(r"no engine at http://127.0.0.1:\d+ \(Connection refused\); waiting for it"))
        made = Process(
            ["-m", "assay.cli.main", "serve", "--port", str(port), "--backend", f"sqlite://{tmp_path}/e.db"],
            tmp_path / "engine.log",
        )
        try:
            worker.wait_for(CONNECTED)
            assert outcome(f"http://127.0.0.1:{port}", "Nothing", None, "default") == 1
            assert worker.stop() == 0
        finally:
            made.end()


def test_mistakes_of_the_file_are_shown_as_its_own(tmp_path: Path):
    code, output = failed(written(tmp_path, "from assay import workflow\nx = 1 / 0\n"))
    assert code == 1
    assert "ZeroDivisionError" in output
    assert f'File "{tmp_path}/worker.py", line 2' in output
    assert "assay/cli" not in output
    code, output = failed(written(tmp_path, "def broken(:\n"))
    assert code == 1
    assert "SyntaxError" in output
    assert "worker.py" in output
    code, output = failed(written(tmp_path, "from assay import workflow\n"))
    assert code == 1
    assert "registers no workflow and no activity" in output
    code, output = failed(tmp_path / "nowhere.py")
    assert code == 64
    assert "there is no file" in output


@pytest.mark.parametrize("url", ["localhost:8080", "127.0.0.1:8080", "engine", "w.db", "ftp://engine:8080", "http://"])
@pytest.mark.parametrize("by", ["option", "variable"])
def test_an_address_without_a_scheme_is_no_file(tmp_path: Path, url: str, by: str):
    file = written(tmp_path, GREETER)
    code, output = failed(file, url) if by == "option" else failed(file, None, ASSAY_ENGINE_URL=url)
    assert (code, output) == (
        1,
        f"error: engine URL '{url}' must be like http://host:8080, https://host or sqlite://app.db\n",
    )
    assert list(tmp_path.iterdir()) == [file]


def test_a_database_may_be_served_in_the_workers_own_process(tmp_path: Path):
    with running(written(tmp_path, GREETER), f"sqlite://{tmp_path}/own.db") as worker:
        worker.wait_for(re.compile("serving workflow Greet on queue default at sqlite://"))
        until((tmp_path / "own.db").exists)


@pytest.mark.parametrize(
    ("options", "variables", "wanted"),
    [
        ([], {"ASSAY_API_KEY": "plain"}, "plain"),
        ([], {"ASSAY_API_KEY": "plain", "ASSAY_API_KEY_FILE": "key.txt"}, "from-file"),
        (["--api-key", "said"], {"ASSAY_API_KEY": "plain", "ASSAY_API_KEY_FILE": "key.txt"}, "said"),
    ],
)
def test_the_key_is_found_as_by_every_other_command(
    tmp_path: Path, options: list[str], variables: dict[str, str], wanted: str
):
    file = written(tmp_path, GREETER)
    (tmp_path / "key.txt").write_text("from-file\n")
    with socket.create_server(("127.0.0.1", 0)) as engine:
        engine.settimeout(20)
        url = f"http://127.0.0.1:{engine.getsockname()[1]}"
        environment = {**os.environ, "ASSAY_ENGINE_URL": url, **variables}
        command = [sys.executable, "-m", "assay.cli.main", "run", str(file), *options]
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)  # noqa: S603
        try:
            requests, _ = engine.accept()
            with requests:
                head = requests.recv(65_536).decode().lower()
        finally:
            worker.kill()
            worker.wait(10)
    assert f"authorization: bearer {wanted}" in head


def test_a_key_file_that_cannot_be_read_is_named(tmp_path: Path):
    code, output = failed(written(tmp_path, GREETER), ASSAY_API_KEY_FILE=str(tmp_path / "none"))
    assert code == 1
    assert "none cannot be read" in output


LISTENING = """
from assay import workflow

@workflow.define
async def Shout(ctx, text): return text.upper()
{before}
if {guard}:
    {call}
"""


@pytest.mark.parametrize("guard", ['__name__ == "__main__"', "True"], ids=["guarded", "at the top"])
def test_options_of_the_command_go_before_those_of_the_file(tmp_path: Path, engine: Server, guard: str):
    queue, namespace = f"said-{len(guard)}", f"space-{len(guard)}"
    call = 'workflow.connect("http://127.0.0.1:1", namespace="a"); workflow.listen("in-the-file", "b", "me", 3, 4)'
    file = written(tmp_path, LISTENING.format(before="", guard=guard, call=call))
    options = ["--queue", queue, "--namespace", namespace, "--max-concurrent-workflows", "1"]
    with running(file, engine.url, *options) as worker:
        worker.wait_for(CONNECTED)
        assert outcome(engine.url, "Shout", "hello", queue, namespace) == "HELLO"
        assert worker.stop() == 0
        assert "warning" not in worker.log_text()


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("", 'workflow.listen("{queue}")'),
        ("QUEUE = '{queue}'", "workflow.listen(queue=QUEUE)"),
        ("class Settings: queue = '{queue}'", "workflow.listen(queue=Settings.queue)"),
        ("from assay.workflow import listen", "listen(queue='{queue}')"),
        ("from assay.workflow import listen as serve", "serve(queue='{queue}')"),
        ("import assay", "assay.workflow.listen(queue='{queue}')"),
        ("import assay.workflow as wf", "wf.listen(queue='{queue}')"),
        ("", "from assay.workflow import listen; listen(queue='{queue}')"),
        ("def listen(queue): raise ValueError", "listen(queue='other'); workflow.listen('{queue}')"),
    ],
)
def test_the_queue_of_a_file_that_listens_only_by_itself_is_served(
    tmp_path: Path, engine: Server, before: str, call: str
):
    queue = f"told-{len(before)}-{len(call)}"
    text = LISTENING.format(guard='__name__ == "__main__"', before=before, call=call)
    with running(written(tmp_path, text.replace("{queue}", queue)), engine.url) as worker:
        worker.wait_for(re.compile(f"on queue {queue} at"))
        assert "warning" not in worker.log_text()


def test_a_queue_that_is_not_known_is_told_of(tmp_path: Path, engine: Server):
    call = 'import os; workflow.listen(queue=os.environ["QUEUE"])'
    file = written(tmp_path, LISTENING.format(guard='__name__ == "__main__"', before="", call=call))
    with running(file, engine.url) as worker:
        worker.wait_for(re.compile("on queue default at"))
        expected = "workflow.listen(queue=os.environ['QUEUE']) is ignored: only names and plain values can be used"
        assert f"warning: worker.py, line 8: {expected}\n" in worker.log_text()
    with running(file, engine.url, "--queue", "known") as worker:
        worker.wait_for(re.compile("on queue known at"))
        assert worker.log_text().count("warning") == 1


def test_a_key_on_the_command_line_is_warned_of_at_a_terminal(tmp_path: Path):
    file = written(tmp_path, "from assay import workflow\n")  # registers nothing, so it ends
    arguments = ["run", str(file), "--engine-url", "http://127.0.0.1:1", "--api-key", "k"]
    expected = on_terminal(arguments, plain_environment(tmp_path))
    assert expected.out.startswith("warning: --api-key can be read by everybody")
    assert "warning" not in spawn(arguments, plain_environment(tmp_path)).err


def test_what_fails_is_shown_with_its_traceback(tmp_path: Path, engine: Server):
    file = written(
        tmp_path,
        """
        from assay import workflow

        @workflow.activity
        def charge(amount): raise ConnectionError("no answer")

        @workflow.define
        async def Pay(ctx, amount):
            await ctx.execute_activity(charge, amount, max_attempts=2, initial_interval_secs=0.01)
        """,
    )
    with running(file, engine.url, "--queue", "failing") as worker:
        worker.wait_for(CONNECTED)
        with pytest.raises(WorkflowFailed):
            outcome(engine.url, "Pay", 5, "failing")
        assert worker.stop() == 0
    lines = [json.loads(line) for line in worker.log_text().splitlines() if line.startswith("{")]
    failures = [(line["message"], line["exception"]) for line in lines if line["level"] == "warning"]
    assert [message for message, _ in failures] == [
        "activity charge failed (attempt 1): no answer",
        "activity charge failed (attempt 2): no answer",
        "workflow Pay failed: no answer",
    ]
    for message, trace in failures:
        assert "assay/sdk" not in trace
        assert f'File "{file}", line {9 if "workflow" in message else 5}, in ' in trace


@pytest.mark.parametrize("command", [True, False], ids=["by the command", "by the file"])
def test_a_bug_may_wait_for_its_fix(tmp_path: Path, engine: Server, *, command: bool):
    queue = f"waits-{command}"
    text = """
        from assay import workflow

        @workflow.define
        async def Sum(ctx, numbers): return sum(numbers) + correction

        if __name__ == "__main__":
            workflow.listen("{queue}"{errors})
        """
    errors = "" if command else ', errors="wait"'
    broken = written(tmp_path, text.format(queue=queue, errors=errors))

    async def until_stuck() -> Any:
        async with await Client.connect(engine.url) as client:
            handle = await client.start("Sum", [1, 2], workflow_id=queue, task_queue=queue)
            while (record := await handle.describe()).stuck is None:
                await asyncio.sleep(0.02)
            return record

    with running(broken, engine.url, *(["--errors", "wait"] if command else [])):
        record = asyncio.run(asyncio.wait_for(until_stuck(), 60))
    assert (record.status, record.stuck["reason"]) == ("RUNNING", "task_failed")
    assert "NameError: name 'correction' is not defined" in record.stuck["message"]
    with running(written(tmp_path, text.format(queue=queue, errors=errors).replace("correction", "0")), engine.url):
        assert asyncio.run(asyncio.wait_for(ended(engine.url, queue), 60)) == 3


@pytest.mark.parametrize("command", [True, False], ids=["--strict", "listen(strict=True)"])
def test_strict_mode_refuses_clocks_in_workflow_code(engine: Server, tmp_path: Path, command: bool):
    queue = f"strict-{command}".lower()
    program = written(
        tmp_path,
        f"""
        import time
        from assay import workflow

        @workflow.define
        async def Clock(ctx):
            try:
                return str(time.time())
            except RuntimeError as error:
                return str(error)

        if __name__ == "__main__":
            workflow.listen("{queue}"{"" if command else ", strict=True"})
        """,
    )

    async def answer() -> Any:
        async with await Client.connect(engine.url) as client:
            return await client.run("Clock", workflow_id=queue, task_queue=queue)

    with running(program, engine.url, *(["--strict"] if command else [])):
        assert "workflow code called time.time" in asyncio.run(asyncio.wait_for(answer(), 60))


async def ended(url: str, workflow_id: str) -> Any:
    async with await Client.connect(url) as client:
        return await client.result(workflow_id)


# loading


PACKAGE = {
    "shop/__init__.py": "",
    "shop/steps.py": "def shouted(text): return text.upper()\n",
    "shop/flows.py": """
import assay
from . import steps

first, second = assay.App(queue="first"), assay.App(queue="second")

@first.workflow
async def First(ctx, text): return steps.shouted(text)

@second.workflow
async def Second(ctx, text): return steps.shouted(text)
""",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_module_and_one_of_its_apps_are_served(package: Path, engine: Server):
    command = ["-m", "assay.cli.main", "run", "shop.flows:second", "--engine-url", engine.url]
    worker = Process(command, package / "log", cwd=package)
    try:
        worker.wait_for(CONNECTED)
        assert outcome(engine.url, "Second", "hello", "second") == "HELLO"
        assert worker.stop() == 0
    finally:
        worker.end()


@pytest.mark.parametrize(
    ("program", "code", "problem"),
    [
        ("shop.flows", 1, "shop.flows has several apps (first, second): name one, as in shop.flows:first"),
        ("shop.flows:third", 64, "shop.flows has no app 'third'; apps in its variables: first, second"),
        ("shop.nothing", 64, "there is no module shop.nothing"),
        ("shop/nothing.py", 64, "there is no file shop/nothing.py"),
    ],
)
def test_a_program_that_cannot_be_served_is_named(package: Path, program: str, code: int, problem: str):
    ran = subprocess.run(  # noqa: S603
        [*PROGRAM, "run", program], cwd=package, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == code
    assert problem in ran.stderr


@pytest.mark.parametrize("call", ["workflow.run(Greet, 'Ada')", "workflow.result('greet-1')", "workflow.list()"])
def test_a_call_of_the_engine_at_the_top_of_a_file_names_the_remedy(tmp_path: Path, call: str):
    text = f"{GREETER}\nworkflow.connect('sqlite://app.db')\nprint({call})\n"
    file = written(tmp_path, text)
    code, output = failed(file)
    assert code == 1
    assert 'put the call under `if __name__ == "__main__":`' in output
    assert output.startswith("Traceback")
    assert not (tmp_path / "app.db").exists()
