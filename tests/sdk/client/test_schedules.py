"""`client.schedules` and `workflow.schedules`: the same calls and answers, embedded and over HTTP."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay import AlreadyExists, App, Client, Context, Invalid, NotFound, Record, Worker, workflow
from tests.api.support import fresh, serving

NEVER = "0 0 0 1 1 *"
SECONDS = 30

Test = Callable[[Client], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(params=["embedded", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found: str = request.getfixturevalue("server") if request.param == "http" else f"sqlite://{tmp_path}/engine.db"
    return found


@asynccontextmanager
async def connected(url: str, app: App | None = None) -> AsyncIterator[Client]:
    async with await Client.connect(url, app=app or App()) as client:
        yield client


def lasting(record: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a record that are the same whenever it is read."""
    assert record is not None
    return {name: value for name, value in record.items() if name != "waiting_on"}


def run(url: str, test: Test, app: App | None = None) -> None:
    async def main() -> None:
        async with connected(url, app) as client:
            await asyncio.wait_for(test(client), SECONDS)

    asyncio.run(main())


def test_a_schedule_from_its_creation_to_its_end(url: str):
    async def test(client: Client) -> None:
        name, schedules = fresh(), client.schedules
        created = await schedules.create(name, "Report", NEVER, input={"region": "eu"}, timezone="Europe/Berlin")
        assert isinstance(created, Record)
        assert (created.name, created.input, created.timezone, created.paused) == (
            name,
            {"region": "eu"},
            "Europe/Berlin",
            False,
        )
        assert lasting(await schedules.describe(name)) == lasting(created)
        assert lasting(created) in map(lasting, await schedules.list())
        paused = await schedules.pause(name, "holidays", "ada")
        assert (paused.paused, paused.pause_reason, paused.paused_by) == (True, "holidays", "ada")
        assert (await schedules.resume(name)).paused is False
        assert await schedules.delete(name) is None
        assert await schedules.describe(name) is None

    run(url, test)


def test_every_option_arrives(url: str):
    async def test(client: Client) -> None:
        end = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)
        record = await client.schedules.create(
            fresh(),
            "Report",
            "@every 90s",
            task_queue="reports",
            overlap_policy="queue",
            dst="shift",
            missed="all",
            window_secs="2h",
            jitter_secs=datetime.timedelta(seconds=3),
            end_at=end,
            remaining=4,
            search_attributes={"team": "ops"},
            memo={"why": "because"},
            paused=True,
            pause_reason="not yet",
        )
        expected = {
            "task_queue": "reports",
            "overlap_policy": "queue",
            "dst": "shift",
            "missed": "all",
            "window_secs": 7_200,
            "jitter_secs": 3,
            "end_at": end.timestamp(),
            "remaining": 4,
            "search_attributes": {"team": "ops"},
            "memo": {"why": "because"},
            "paused": True,
            "pause_reason": "not yet",
        }
        assert {name: record[name] for name in expected} == expected

    run(url, test)


def test_a_patch_changes_and_clears(url: str):
    async def test(client: Client) -> None:
        name, schedules = fresh(), client.schedules
        created = await schedules.create(name, "Report", NEVER, input=[1], end_at=4e9, remaining=2)
        assert lasting(await schedules.patch(name)) == lasting(created)
        patched = await schedules.patch(
            name, cron_expr="0 0 12 * * *", window_secs=5, overlap_policy="skip", input=None
        )
        assert (patched.cron_expr, patched.window_secs, patched.input) == ("0 0 12 * * *", 5, [1])
        assert patched.next_run_at < created.next_run_at
        cleared = await schedules.patch(name, clear=["input", "end_at"], remaining=9)
        assert (cleared.input, cleared.end_at, cleared.remaining) == (None, None, 9)

    run(url, test)


def test_what_is_wrong_is_said_alike(url: str):
    async def test(client: Client) -> None:
        name, schedules = fresh(), client.schedules
        with pytest.raises(Invalid, match="hour field '25' is wrong at character 4") as caught:
            await schedules.create(name, "Report", "0 0 25 * * *")
        assert (caught.value.code, caught.value.field) == ("bad_cron", "cron_expr")
        with pytest.raises(Invalid) as caught:
            await schedules.create(name, "Report", NEVER, timezone="Mars")
        assert (caught.value.code, caught.value.field) == ("bad_timezone", "timezone")
        with pytest.raises(Invalid):
            await schedules.create(name, "Report", NEVER, overlap_policy="perhaps")
        assert await schedules.describe(name) is None
        await schedules.create(name, "Report", NEVER)
        with pytest.raises(AlreadyExists):
            await schedules.create(name, "Report", NEVER)
        for call in (schedules.pause, schedules.resume, schedules.delete, schedules.trigger, schedules.fires):
            with pytest.raises(NotFound):
                await call("nobody")

    run(url, test)


def test_a_misspelled_option_is_pointed_out(url: str):
    async def test(client: Client) -> None:
        with pytest.raises(TypeError, match="did you mean 'timezone'"):
            await client.schedules.create(fresh(), "Report", NEVER, timezon="UTC")  # type: ignore[call-arg]
        with pytest.raises(Invalid):
            await client.schedules.create(fresh(), "Report", NEVER, memo=[1])  # type: ignore[arg-type]
        with pytest.raises(Invalid):
            await client.schedules.patch("x", clear=["name"])

    run(url, test)


def test_fires_by_hand_and_for_the_past(url: str):
    async def test(client: Client) -> None:
        name, schedules = fresh(), client.schedules
        await schedules.create(name, "Report", "0 0 * * * *", overlap_policy="allow_all")
        due = await schedules.preview(name, 2)
        assert due[1] - due[0] == 3_600
        triggered = await schedules.trigger(name)
        assert (triggered.outcome, triggered.trigger) == ("started", "manual")
        record = await client.describe(triggered.workflow_id)
        assert record is not None
        assert (record.schedule, record.run_id) == (name, triggered.run_id)
        skipped = await schedules.trigger(name, "skip")
        assert skipped.outcome == "skipped"
        start = datetime.datetime.fromtimestamp(due[0] - 7_200, datetime.UTC)
        made = await schedules.backfill(name, start, due[0] - 3_600, "allow_all")
        assert [(fire.due_at - due[0], fire.outcome) for fire in made] == [(-7_200, "started"), (-3_600, "started")]
        assert await schedules.fires(name, 3) == [made[1], made[0], skipped]

    run(url, test)


def test_a_schedule_starts_a_workflow_that_knows_its_due_time(url: str):
    app = App(queue=fresh("queue"))
    seen: asyncio.Queue[tuple[Any, datetime.datetime | None]] = asyncio.Queue()

    @app.workflow
    async def Report(ctx: Context, input: Any) -> None:
        seen.put_nowait((input, ctx.info().scheduled_for))

    async def test(client: Client) -> None:
        name = fresh()
        worker = Worker(client)
        running = asyncio.create_task(worker.run())
        await client.schedules.create(name, Report, "* * * * * *", input={"n": 1}, overlap_policy="allow_all")
        first, second = await seen.get(), await seen.get()
        await client.schedules.delete(name)
        assert first[0] == second[0] == {"n": 1}
        assert first[1] is not None
        assert second[1] is not None
        assert (second[1] - first[1]).total_seconds() == 1
        worker.stop()
        await running

    run(url, test, app)


def test_namespaces_keep_schedules_apart(url: str):
    async def test(client: Client) -> None:
        name, space = fresh(), fresh("ns")
        await client.schedules.create(name, "Report", NEVER, namespace=space)
        assert await client.schedules.describe(name) is None
        assert [record.name for record in await client.schedules.list(namespace=space)] == [name]

    run(url, test)


def test_the_module_has_the_same_calls(url: str):
    workflow.connect(url)
    try:
        name = fresh()
        created = workflow.schedules.create(name, "Report", "0 0 * * * *", overlap_policy="allow_all")
        assert lasting(workflow.schedules.describe(name)) == lasting(created)
        assert lasting(created) in map(lasting, workflow.schedules.list())
        assert workflow.schedules.patch(name, task_queue="slow").task_queue == "slow"
        assert workflow.schedules.pause(name, "why").pause_reason == "why"
        assert workflow.schedules.resume(name).paused is False
        (due,) = workflow.schedules.preview(name, 1)
        assert workflow.schedules.trigger(name).outcome == "started"
        assert [fire.outcome for fire in workflow.schedules.backfill(name, due - 3_600, due - 3_600)] == ["queued"]
        assert len(workflow.schedules.backfill(name, due - 7_200, due - 7_200, "allow_all")) == 1
        put = workflow.schedules.put(name, "Other", "0 0 * * * *")
        assert (put.workflow_type, put.overlap_policy, put.created_at) == ("Other", "skip", created.created_at)
        assert workflow.schedules.put(f"{name}-new", "Report", "@daily").next_run_at is not None
        assert len(workflow.schedules.fires(name)) == 2
        workflow.schedules.delete(name)
        assert workflow.schedules.describe(name) is None
    finally:
        workflow.close()
