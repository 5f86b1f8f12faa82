import asyncio
import contextlib
import dataclasses
import datetime
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.model.errors import (
    AlreadyExists,
    Invalid,
    NotFound,
    Unavailable,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from assay.core.model.policies import IdConflict, IdReuse, RetryPolicy
from assay.engine.engine import Committed
from assay.sdk.app import App
from assay.sdk.client.client import Client
from assay.sdk.client.handle import Handle
from assay.sdk.client.start_options import start_request
from assay.sdk.values.converter import Converter
from assay.sdk.values.retry import Retry
from assay.sdk.worker.worker import Worker


@contextlib.asynccontextmanager
async def connected(folder: Path, app: App | None = None) -> AsyncIterator[Client]:
    async with await Client.connect(f"sqlite://{folder}/engine.db", app=app or App()) as client:
        yield client


def request(workflow_type: str = "Order", workflow_id: str | None = "o-1", input: Any = None, **options: Any) -> Any:
    usual = {"namespace": "main", "task_queue": "default"}
    return start_request(Converter(), workflow_type, workflow_id, input, options, usual)


# what a start may say


def test_every_option_finds_its_field():
    built = request(
        input={"n": 1},
        search_attributes={"env": "prod"},
        memo={"m": 1},
        context={"tenant": "t"},
        id_conflict_policy="Use-Existing",
        id_reuse_policy="reject_duplicate",
        execution_timeout="24h",
        run_timeout=datetime.timedelta(hours=1),
        task_timeout=30,
        retry_policy=Retry(max_attempts=5),
        start_delay="1.5s",
        signals=["go", ("add", {"n": 1}), {"name": "stop", "payload": 2}],
        request_id="r-1",
        summary="one",
        details="two",
        priority=1,
    )
    assert bytes(built.input) == b'{"n":1}'
    assert (built.id_conflict_policy, built.id_reuse_policy) == (IdConflict.USE_EXISTING, IdReuse.REJECT_DUPLICATE)
    assert (built.execution_timeout, built.run_timeout, built.task_timeout) == (
        86_400 * 10**6,
        3_600 * 10**6,
        30 * 10**6,
    )
    assert built.retry_policy == RetryPolicy(max_attempts=5)
    assert built.start_delay == 1_500_000
    assert [(signal.name, bytes(signal.payload)) for signal in built.signals] == [
        ("go", b"null"),
        ("add", b'{"n":1}'),
        ("stop", b"2"),
    ]
    assert (built.request_id, built.summary, built.details) == ("r-1", "one", "two")


def test_a_missing_id_is_made_from_the_type():
    first, second = request("OrderFlow", None), request("OrderFlow", None)
    assert first.workflow_id.startswith("wf-orderflow-")
    assert first.workflow_id != second.workflow_id
    assert len(request("Ä" * 127, None).workflow_id.encode()) <= 255


def test_error_if_exists_is_a_short_name_for_the_policy():
    assert request(error_if_exists=True).id_conflict_policy is IdConflict.FAIL
    assert request(error_if_exists=False).id_conflict_policy is IdConflict.USE_EXISTING
    both = request(error_if_exists=False, id_conflict_policy="terminate_existing")
    assert both.id_conflict_policy is IdConflict.TERMINATE_EXISTING


def test_a_mapping_of_retry_fields_takes_the_defaults_of_workflows():
    built = request(retry_policy={"initialInterval": 2, "non_retryable_error_types": [ValueError, "Invalid"]})
    assert built.retry_policy.max_attempts == 0
    assert built.retry_policy.initial_interval == 2_000_000
    assert built.retry_policy.non_retryable == ("ValueError", "Invalid")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"workflow_id": ""}, "workflow_id"),
        ({"workflow_id": 5}, "workflow_id"),
        ({"workflow_id": "a\nb"}, "workflow_id"),
        ({"task_queue": ""}, "task_queue"),
        ({"memo": [1]}, "memo"),
        ({"search_attributes": "env=prod"}, "search_attributes"),
        ({"input": {"at": float("nan")}}, "input.at"),
        ({"memo": {"x": object()}}, "memo.x"),
        ({"signals": "go"}, "signals"),
        ({"signals": [("go", {"x": {1}}), 5]}, "signals[1]"),
        ({"id_conflict_policy": "sometimes"}, "id_conflict_policy"),
        ({"run_timeout": -1}, "run_timeout"),
        ({"retry_policy": "often"}, "retry_policy"),
        ({"cron_schedule": 5}, "cron_schedule"),
    ],
)
def test_a_bad_option_is_blamed_by_its_path(options: dict[str, Any], field: str):
    with pytest.raises(Invalid) as caught:
        request(**options)
    assert caught.value.field == field


def test_a_misspelt_option_is_a_type_error_with_a_hint():
    with pytest.raises(TypeError, match="did you mean 'task_queue'"):
        request(taskqueue="x")
    with pytest.raises(TypeError, match="has no field"):
        Retry(tries=3)  # type: ignore[call-arg]


def test_a_retry_is_a_value():
    assert Retry(maximum_attempts=7, backoff_coefficient=3) == Retry(max_attempts=7, backoff=3)
    assert hash(Retry()) == hash(Retry())
    assert Retry(initial_interval="2m").policy().maximum_interval == 120_000_000
    assert Retry(initial_interval=0).policy().initial_interval == 0
    assert Retry(non_retryable=[KeyError, "NotFound"]).policy().non_retryable == ("KeyError", "NotFound")
    assert "max_attempts=3" in repr(Retry())


def test_the_fields_of_a_retry_policy_can_be_read():
    default = Retry()
    assert (default.max_attempts, default.initial_interval, default.backoff) == (3, 1, 2)
    assert (default.maximum_interval, default.non_retryable) == (60, ())
    one = Retry(maximum_attempts=7, initial_interval="1m30s", maximum_interval="1h", non_retryable=KeyError)
    assert (one.max_attempts, one.initial_interval, one.maximum_interval) == (7, 90, 3600)
    fields = ("max_attempts", "initial_interval", "backoff", "maximum_interval", "non_retryable")
    assert Retry(**{name: getattr(one, name) for name in fields}) == one
    with pytest.raises(AttributeError):
        one.max_attempts = 1  # type: ignore[misc]


# management without a worker


def test_start_describe_and_list(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            handle = await client.start("Order", {"n": 1}, workflow_id="o-1", search_attributes={"env": "prod"})
            assert (handle.workflow_id, handle.started, handle.status) == ("o-1", True, "PENDING")
            record = await client.describe("o-1")
            same = await handle.describe()
            assert record is not None
            assert {**record, "waiting_on": None} == {**same, "waiting_on": None}  # which tells the time as well
            assert (record.run_id, record.search_attributes) == (handle.run_id, {"env": "prod"})
            assert await client.describe("o-2") is None
            assert await client.get_state("o-1") is None
            assert [run.id for run in await client.list(search_attrs={"env": "prod"})] == ["o-1"]
            assert handle.record() == {
                "workflow_id": "o-1",
                "run_id": handle.run_id,
                "status": "PENDING",
                "started": True,
                "pid": "wf://main/o-1",
            }
            with pytest.raises(NotFound):
                await handle.query("stage")
            with pytest.raises(NotFound, match="o-2 not found or already terminal") as caught:
                await client.cancel("o-2")
            assert caught.value.workflow_id == "o-2"
            with pytest.raises(TypeError, match="list has no filter"):
                await client.list(colour="red")  # type: ignore[call-arg]

    asyncio.run(main())


def test_an_id_in_use_is_refused_or_used_as_the_policy_says(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            first = await client.start("Order", workflow_id="o-1")
            with pytest.raises(AlreadyExists) as caught:
                await client.start("Order", workflow_id="o-1")
            assert caught.value.existing.run_id == first.run_id  # type: ignore[attr-defined]
            second = await client.start(
                "Order", workflow_id="o-1", id_conflict_policy="use_existing", signals=[("add", 1)]
            )
            assert (second.run_id, second.started) == (first.run_id, False)
            third = await client.start("Order", workflow_id="o-1", id_conflict_policy="terminate_existing")
            assert third.run_id != first.run_id
            with pytest.raises(WorkflowTerminated):
                await first.result()
            assert [run.run_id for run in await client.list_runs("o-1")] == [first.run_id, third.run_id]

    asyncio.run(main())


def test_a_start_repeated_with_its_request_id_is_the_same_start(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            first = await client.start("Order", input={"n": 1}, request_id="r-1")
            await client.terminate(first.workflow_id)
            again = await client.start("Order", input={"n": 1}, request_id="r-1")
            assert again.record() == first.record()
            assert len(await client.list()) == 1
            for kind, content in (("Refund", {"n": 1}), ("Order", {"n": 2})):
                with pytest.raises(Invalid) as caught:
                    await client.start(kind, input=content, request_id="r-1")
                assert (caught.value.code, caught.value.field) == ("request_id_reused", "request_id")

    asyncio.run(main())


def test_pages_follow_each_other(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            for number in range(5):
                await client.start("Order", workflow_id=f"o-{number}")
            page = await client.list(limit=2)
            seen = [run.id for run in page]
            while page.next_cursor is not None:
                page = await client.list(limit=2, cursor=page.next_cursor)
                seen.extend(run.id for run in page)
            assert seen == ["o-4", "o-3", "o-2", "o-1", "o-0"]
            assert (await client.list(limit=5)).next_cursor is None  # a full page with nothing after it
            since = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
            assert len(await client.list(created_after=since)) == 5
            with pytest.raises(Invalid, match="time zone"):
                await client.list(created_after=datetime.datetime(2020, 1, 1))  # noqa: DTZ001

    asyncio.run(main())


def test_signals_and_their_history(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            handle = await client.start("Order", workflow_id="o-1", signals=["first"])
            await handle.signal("second", {"big": 2**70})
            events = await client.get_events("o-1")
            assert [event.event_type for event in events] == ["WorkflowStarted", "SignalReceived", "SignalReceived"]
            assert events[2].payload["payload"] == {"big": 2**70}
            with pytest.raises(NotFound):
                await client.signal("o-2", "second")
            with pytest.raises(NotFound):
                await client.get_events("o-2")
            with pytest.raises(NotFound):
                await client.list_children("o-2")
            with pytest.raises(NotFound):
                await client.list_runs("o-2")

    asyncio.run(main())


def test_a_run_that_nobody_claimed_is_cancelled_at_once(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            handle = await client.start("Order", workflow_id="o-1")
            await handle.cancel("changed my mind")
            with pytest.raises(WorkflowCancelled, match="changed my mind") as caught:
                await handle.result()
            assert (caught.value.workflow_id, caught.value.run_id) == ("o-1", handle.run_id)
            with pytest.raises(NotFound):
                await handle.cancel()

    asyncio.run(main())


def test_terminate_closes_and_result_says_so(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            handle = await client.start("Order", workflow_id="o-1")
            waiting = asyncio.ensure_future(client.result("o-1"))
            await handle.terminate("enough")
            with pytest.raises(WorkflowTerminated, match="enough"):
                await waiting
            record = await handle.describe()
            assert (record.status, record.close_reason, record.error) == ("FAILED", "terminated", "enough")

    asyncio.run(main())


def test_a_run_that_takes_too_long_times_out(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            handle = await client.start("Order", workflow_id="o-1", run_timeout=0.01)
            with pytest.raises(WorkflowTimedOut) as caught:
                await handle.result()
            assert caught.value.timeout_type == "run"
            assert caught.value.kind == "TIMEOUT"

    asyncio.run(main())


def test_continue_as_new_opens_the_next_run_and_result_follows_it(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            first = await client.start("Order", {"n": 1}, workflow_id="o-1")
            assert [run.id for run in await client.list(status="open", type="Order")] == ["o-1"]
            assert await client.list(status="closed") == []
            assert await client.list(stuck=True, workflow_type="Order") == []
            second = await client.continue_as_new("o-1", {"n": 2})
            record = await first.describe()
            assert (record.run_id, record.input, record.previous_run_id) == (second.run_id, {"n": 2}, first.run_id)
            closed = await client.describe("o-1", first.run_id)
            assert closed is not None
            assert (closed.status, closed.close_reason) == ("COMPLETED", "continued_as_new")
            await client.terminate("o-1", "end of the chain")
            with pytest.raises(WorkflowTerminated) as caught:
                await first.result()
            assert caught.value.run_id == second.run_id
            third = await client.continue_as_new("o-1")
            record = await third.describe()
            assert (record.status, record.input) == ("PENDING", {"n": 2})  # kept, and none only if none is given
            assert (await (await client.continue_as_new("o-1", None)).describe()).input is None

    asyncio.run(main())


def test_a_deadline_ends_a_cancel_that_is_ignored(tmp_path: Path):
    app, begun = App(), asyncio.Event()

    @app.workflow
    async def Stubborn(ctx: Any) -> None:
        begun.set()
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await ctx.wait_for_signal("never")

    async def main() -> None:
        async with connected(tmp_path, app) as client, serving(client):
            handle = await client.start(Stubborn, workflow_id="s-1")
            await begun.wait()
            await handle.cancel("please", deadline=0.05)
            with pytest.raises(WorkflowTerminated, match="deadline"):
                await handle.result()

    asyncio.run(main())


def test_namespaces_are_apart(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            mine = await client.start("Order", workflow_id="o-1")
            other = await client.start("Order", workflow_id="o-1", namespace="other")
            assert mine.run_id != other.run_id
            assert [run.run_id for run in await client.list(namespace="other")] == [other.run_id]
            await other.terminate()
            assert (await mine.describe()).status == "PENDING"

    asyncio.run(main())


def test_a_start_needs_a_registered_function_or_a_name(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            with pytest.raises(Invalid, match="workflow_type"):
                await client.start()
            with pytest.raises(NotFound, match="not registered"):
                await client.start(lambda ctx: None)

    asyncio.run(main())


def test_a_result_of_an_unknown_workflow_is_not_found(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path) as client:
            with pytest.raises(NotFound):
                await client.result("o-1")
            with pytest.raises(NotFound):
                await client.result("o-1", "no-such-run")

    asyncio.run(main())


# with a worker


@contextlib.asynccontextmanager
async def serving(client: Client, **options: Any) -> AsyncIterator[Worker]:
    worker = Worker(client, **options)
    running = asyncio.ensure_future(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await running


def recorded(client: Client, event_type: str) -> asyncio.Event:
    """Set when the next event of this type is durable."""
    found = asyncio.Event()
    engine = client.transport._engine  # type: ignore[attr-defined]

    def note(committed: Committed) -> None:
        if any(type(one.event).__name__ == event_type for _, events in committed.events for one in events):
            found.set()

    engine.on_commit(note)
    return found


@dataclasses.dataclass
class Receipt:
    number: int
    at: datetime.datetime


def shop() -> App:
    app = App()

    @app.workflow
    async def Sell(ctx: Any, number: int) -> Receipt:
        stage = {"at": "begin"}
        ctx.register_query("stage", lambda: stage["at"])
        stage["at"] = await ctx.wait_for_signal("pay") if number > 100 else "paid"
        return await ctx.execute_activity(receipt, number)

    @app.activity
    def receipt(number: int) -> Receipt:
        return Receipt(number, datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC))

    @app.workflow
    async def Break(ctx: Any) -> None:
        raise ValueError("broken beyond repair")

    @app.workflow
    async def Family(ctx: Any) -> str:
        for name in ("kid-1", "kid-2"):
            await ctx.start_child_workflow("Sell", workflow_id=name, input=1)
        return "all grown up"

    return app


def test_run_serves_the_work_by_itself(tmp_path: Path):
    app = shop()

    async def main() -> None:
        async with connected(tmp_path, app) as client:
            sell = app.workflows["Sell"].function
            assert await client.run(sell, 5) == Receipt(5, datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC))
            assert await client.run("Sell", 6) == {"number": 6, "at": "2024-05-06T00:00:00Z"}
            assert (
                await asyncio.gather(*(client.run("Family", workflow_id="f-1") for _ in range(3)))
                == ["all grown up"] * 3
            )
            assert [child.id for child in await client.list_children("f-1")] == ["kid-1", "kid-2"]
            assert len(await client.list_runs("f-1")) == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_run_leaves_a_queue_to_the_worker_that_serves_it(tmp_path: Path):
    app = shop()

    async def main() -> None:
        async with connected(tmp_path, app) as client, serving(client):
            before = asyncio.all_tasks()
            assert (await client.run("Sell", 5))["number"] == 5
            assert not [task for task in asyncio.all_tasks() - before if "implicit_worker" in task.get_name()]

    asyncio.run(main())


def test_run_of_an_unknown_workflow_fails_instead_of_waiting(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path, shop()) as client:
            with pytest.raises(NotFound, match="'Sel' is registered"):
                await client.run("Sel", 5)

    asyncio.run(main())


def test_run_fails_when_its_worker_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def broken(worker: Worker) -> None:
        await asyncio.sleep(0)
        raise Unavailable("the worker fell over")

    monkeypatch.setattr(Worker, "run", broken)

    async def main() -> None:
        async with connected(tmp_path, shop()) as client:
            with pytest.raises(Unavailable, match="fell over"):
                await client.run("Sell", 5)

    asyncio.run(main())


def test_a_cancelled_run_call_stays_cancelled(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path, shop()) as client:
            awaiting = recorded(client, "WorkflowAwaitingSignal")
            waiting = asyncio.ensure_future(client.run("Sell", 500, workflow_id="s-1"))
            await awaiting.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            record = await client.describe("s-1")
            assert record is not None
            assert record.status == "RUNNING"

    asyncio.run(main())


def test_queries_signals_and_typed_results(tmp_path: Path):
    app = shop()

    async def main() -> None:
        async with connected(tmp_path, app) as client, serving(client):
            awaiting = recorded(client, "WorkflowAwaitingSignal")
            handle: Handle[Any] = await client.start(app.workflows["Sell"].function, 500, workflow_id="s-1")
            await awaiting.wait()
            assert (await handle.describe()).waiting_on.signal == "pay"
            assert await handle.query("stage") == "begin"
            state = await client.get_state("s-1", "stage")
            assert state is not None
            assert state.value == "begin"
            await handle.signal("pay", "paid")
            assert await handle.result() == Receipt(500, datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC))
            assert (await client.result("s-1"))["number"] == 500
            assert await handle.query("stage") == "paid"

    asyncio.run(main())


def test_a_failure_comes_back_with_its_fields(tmp_path: Path):
    async def main() -> None:
        async with connected(tmp_path, shop()) as client:
            with pytest.raises(WorkflowFailed, match="broken beyond repair") as caught:
                await client.run("Break", workflow_id="b-1")
            error = caught.value
            assert (error.workflow_id, error.type, error.kind) == ("b-1", "ValueError", "INTERNAL")
            assert error.stack is not None
            assert "broken beyond repair" in error.stack
            record = await client.describe("b-1")
            assert record is not None
            assert (record.status, record.failure["type"]) == ("FAILED", "ValueError")

    asyncio.run(main())
