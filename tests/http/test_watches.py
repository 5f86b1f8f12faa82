"""Monitors, links, control and trapped cancels; embedded and served, on both stores."""

import asyncio
import uuid
from typing import Any

import pytest

import assay
from assay import App, BlockingContext, Client, Context, EventKind, LinkedFailure
from tests.http.scenarios import on, serving


def shown(event: Any) -> list[Any]:
    """An event without its time."""
    error = None if event.error is None else [event.error.kind, event.error.message, type(event.error).__name__]
    return [event.kind, event.from_, event.value, error]


def society() -> App:
    """An app with a queue of its own."""
    app = App(queue=f"q-{uuid.uuid4().hex[:8]}")

    @app.workflow
    async def Peer(ctx: Context, name: str = "") -> Any:
        """Ends as a signal says."""
        order = await ctx.wait_for_signal("end")
        if order == "fail":
            raise assay.Failure("broken", kind="CONFLICT", details={"n": 1}, retryable=False)
        if order == "again":
            ctx.continue_as_new("again")
        return order

    @app.workflow
    async def Monitors(ctx: Context, pids: list[str]) -> list[Any]:
        for pid in pids:
            await ctx.monitor(pid)
            await ctx.monitor(pid)
        ctx.upsert_memo({"stage": "watching"})
        return [shown(await ctx.events().receive()) for _ in pids]

    @app.workflow
    def MonitorsBlocking(ctx: BlockingContext, pids: list[str]) -> list[Any]:
        for pid in pids:
            ctx.monitor(pid)
        ctx.upsert_memo({"stage": "watching"})
        return [shown(ctx.events().receive()) for _ in pids]

    @app.workflow
    async def Links(ctx: Context, input: dict[str, Any]) -> Any:
        ctx.set_options(trap_links=bool(input.get("trap")))
        await ctx.link(input["pid"])
        if input.get("monitor"):
            await ctx.monitor(input["pid"])
        ctx.upsert_memo({"stage": "watching"})
        if input.get("fails"):
            raise assay.Failure("linker fails", kind="INTERNAL")
        try:
            return [shown(await ctx.events().receive()) for _ in range(input.get("events", 1))]
        except LinkedFailure as error:
            if not input.get("catch"):
                raise
            cause = error.__cause__
            return [error.kind, error.message, error.details, type(cause).__name__, asyncio.current_task().cancelling()]

    @app.workflow
    async def Unwatches(ctx: Context, pid: str) -> Any:
        await ctx.monitor(pid)
        await ctx.link(pid)
        await ctx.unmonitor(pid)
        await ctx.unlink(pid)
        await ctx.unmonitor("wf://main/never")
        await ctx.unlink("no address")
        ctx.upsert_memo({"stage": "watching"})
        found = await ctx.select(ctx.events(), ctx.listen("done"))
        return "an event" if found.index == 0 else "nothing"

    @app.workflow
    async def Controls(ctx: Context, input: dict[str, Any]) -> list[Any]:
        found: list[Any] = []
        await ctx.monitor(input["first"])
        await ctx.monitor(input["second"])
        await ctx.terminate(input["first"], reason="stuck")
        found.append(shown(await ctx.events().receive()))
        await ctx.request_cancel(input["second"], reason="user asked")
        found.append(shown(await ctx.events().receive()))
        for verb in (ctx.terminate, ctx.request_cancel):
            for target in (input["first"], "wf://main/never-there", "wf://nowhere/x", "no address"):
                try:
                    await verb(target)
                except assay.NotFound:
                    found.append("not found")
        return found

    @app.workflow
    async def Stubborn(ctx: Context) -> None:
        ctx.upsert_memo({"stage": "watching"})
        while True:
            try:
                await ctx.sleep("1h")
            except asyncio.CancelledError:
                continue

    @app.workflow
    async def Deadline(ctx: Context, pid: str) -> Any:
        await ctx.monitor(pid)
        await ctx.request_cancel(pid, deadline=0.1)
        return shown(await ctx.events().receive())

    @app.workflow
    async def Traps(ctx: Context) -> Any:
        ctx.set_options(trap_cancel=True)
        child = await ctx.spawn(Peer, id=f"{ctx.workflow_id}-c", parent_close_policy="abandon")
        ctx.upsert_memo({"stage": "watching"})
        event = await ctx.events().receive()
        return [event.kind, event.from_, event.reason, event.deadline is not None, child.workflow_id]

    @app.workflow
    async def Fails(ctx: Context, message: str) -> None:
        raise assay.Failure(message, kind="INVALID")

    @app.workflow
    async def Echo(ctx: Context, value: Any) -> Any:
        return value

    @app.workflow
    async def Family(ctx: Context) -> Any:
        """Ends of spawned children are events; a child of `exec` gives none, and links raise unless trapped."""
        good = await ctx.spawn_monitored(Echo, 5)
        assert await good.result() == 5
        await ctx.exec(Echo, 6)
        bad = await ctx.spawn(Fails, "one")
        found = [shown(await ctx.events().receive()) for _ in range(2)]
        assert [event[1] for event in found] == [good.pid, bad.pid]
        quiet = await ctx.spawn(Echo, 7)
        await ctx.unmonitor(quiet)
        assert await quiet.result() == 7
        try:
            await ctx.spawn_linked(Fails, "two")
            await ctx.sleep("1h")
        except LinkedFailure as error:
            found.append(["raised", error.kind, error.message])
        ctx.set_options(trap_links=True)
        both = await ctx.spawn_linked_monitored(Fails, "three")
        events = [await ctx.events().receive() for _ in range(3)]
        found.extend([event.kind, event.error.message] for event in events)
        assert events[-1].from_ == both.pid
        try:
            ctx.set_options(trap_links="yes")
        except assay.Invalid:
            found.append("invalid")
        return found

    @app.workflow
    async def Itself(ctx: Context) -> list[str]:
        found = []
        for call in (ctx.monitor(ctx.pid), ctx.link(ctx.pid), ctx.link("wf://elsewhere/x")):
            try:
                await call
            except assay.Invalid as error:
                found.append(str(error))
        return found

    @app.workflow
    async def Mover(ctx: Context, input: dict[str, Any]) -> Any:
        """Watches, then continues as new: the watch goes along, and an unread event too."""
        if input["run"] == 1:
            await ctx.monitor(input["pid"])
            await ctx.spawn(Echo, "unread")
            await ctx.wait_for_signal("move")
            ctx.continue_as_new({"run": 2, "pid": input["pid"]})
        found = [shown(await ctx.events().receive())]
        ctx.upsert_memo({"stage": "watching"})
        found.append(shown(await ctx.events().receive()))
        return [[event[0], event[2], event[3]] for event in found]

    return app


def fresh(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


async def until(client: Client, workflow_id: str, stage: str = "watching") -> None:
    """Wait until the code has come to a stage."""
    while True:
        record = await client.describe(workflow_id)
        assert record is not None
        if record.memo == {"stage": stage} or record.completed_at is not None:
            return
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("workflow", ["Monitors", "MonitorsBlocking"])
def test_monitors_fire_once_at_the_end_of_the_chain(url: str, workflow: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            names = [fresh(kind) for kind in ("done", "failed", "moved", "closed")]
            done, failed, moved, closed = names
            for name in names:
                await client.start("Peer", workflow_id=name, task_queue=app.queue)
            await client.signal(closed, "end", "early")
            assert await client.result(closed) == "early"
            pids = [f"wf://main/{name}" for name in (*names, fresh("unknown"))]
            watcher = fresh("watcher")
            handle = await client.start(workflow, pids, workflow_id=watcher, task_queue=app.queue)
            await until(client, watcher)
            await client.signal(moved, "end", "again")
            while len(await client.list_runs(moved)) < 2:
                await asyncio.sleep(0.02)
            await client.signal(done, "end", {"n": 1})
            await client.signal(failed, "end", "fail")
            await client.signal(moved, "end", "finally")
            found = sorted(await handle.result(), key=lambda event: pids.index(event[1]))
            assert found == [
                ["pid.exit", pids[0], {"n": 1}, None],
                ["pid.exit", pids[1], None, ["CONFLICT", "broken", "Failure"]],
                ["pid.exit", pids[2], "finally", None],
                ["pid.exit", pids[3], "early", None],
                ["pid.exit", pids[4], None, ["NOT_FOUND", f"{pids[4]} not found", "Failure"]],
            ]
            kinds = [event.event_type for event in await client.get_events(watcher)]
            assert kinds.count("PeerExited") == 5
            assert not any("Watch" in event.event_type for event in await client.get_events(done))

    on(url, scenario)


@pytest.mark.parametrize(
    ("order", "input", "wanted"),
    [
        ("fail", {"trap": True}, [["pid.link.down", None, ["CONFLICT", "broken", "Failure"]]]),
        (
            "fail",
            {"trap": True, "monitor": True, "events": 2},
            [
                ["pid.exit", None, ["CONFLICT", "broken", "Failure"]],
                ["pid.link.down", None, ["CONFLICT", "broken", "Failure"]],
            ],
        ),
        ("well", {}, [["pid.exit", "well", None]]),
        ("well", {"monitor": True, "trap": True}, [["pid.exit", "well", None]]),
    ],
    ids=["link down", "exit first", "normal end", "one exit"],
)
def test_links(url: str, order: str, input: dict[str, Any], wanted: list[Any]):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            name, linker = fresh("peer"), fresh("linker")
            await client.start("Peer", workflow_id=name, task_queue=app.queue)
            handle = await client.start(
                "Links", {"pid": f"wf://main/{name}", **input}, workflow_id=linker, task_queue=app.queue
            )
            await until(client, linker)
            await client.signal(name, "end", order)
            found = await handle.result()
            assert [[event[0], event[2], event[3]] for event in found] == wanted
            assert {event[1] for event in found} == {f"wf://main/{name}"}

    on(url, scenario)


def test_an_untrapped_link_raises_where_main_waits(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            name, caught, failed = fresh("peer"), fresh("caught"), fresh("failed")
            pid = f"wf://main/{name}"
            await client.start("Peer", workflow_id=name, task_queue=app.queue)
            one = await client.start("Links", {"pid": pid, "catch": True}, workflow_id=caught, task_queue=app.queue)
            two = await client.start("Links", {"pid": pid}, workflow_id=failed, task_queue=app.queue)
            await until(client, caught)
            await until(client, failed)
            await client.terminate(name, reason="no more")
            text = "workflow terminated: no more"
            assert await one.result() == ["CANCELED", text, {"linked_pid": pid}, "Failure", 0]
            with pytest.raises(assay.WorkflowFailed) as raised:
                await two.result()
            assert (raised.value.kind, raised.value.details) == ("CANCELED", {"linked_pid": pid})

    on(url, scenario)


def test_links_are_mutual_also_if_the_linker_fails_in_the_same_turn(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            name, linker = fresh("peer"), fresh("linker")
            peer = await client.start("Peer", workflow_id=name, task_queue=app.queue)
            await client.start(
                "Links", {"pid": f"wf://main/{name}", "fails": True}, workflow_id=linker, task_queue=app.queue
            )
            with pytest.raises(assay.WorkflowFailed) as raised:
                await peer.result()
            assert raised.value.details == {"linked_pid": f"wf://main/{linker}"}
            assert raised.value.message == "linker fails"

    on(url, scenario)


def test_an_ended_watch_brings_nothing(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            name, watcher = fresh("peer"), fresh("watcher")
            await client.start("Peer", workflow_id=name, task_queue=app.queue)
            handle = await client.start("Unwatches", f"wf://main/{name}", workflow_id=watcher, task_queue=app.queue)
            await until(client, watcher)
            await client.signal(name, "end", "fail")
            with pytest.raises(assay.WorkflowFailed):
                await client.result(name)
            await client.signal(watcher, "done")
            assert await handle.result() == "nothing"

    on(url, scenario)


def test_terminate_and_request_cancel_of_other_workflows(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            first, second = fresh("first"), fresh("second")
            for name in (first, second):
                await client.start("Peer", workflow_id=name, task_queue=app.queue)
            pids = {"first": f"wf://main/{first}", "second": f"wf://main/{second}"}
            found = await client.run("Controls", pids, task_queue=app.queue)
            assert found == [
                ["pid.exit", pids["first"], None, ["CANCELED", "workflow terminated: stuck", "Failure"]],
                ["pid.exit", pids["second"], None, ["CANCELED", "workflow cancelled: user asked", "Failure"]],
                *["not found"] * 8,
            ]
            record = await client.describe(second)
            assert record is not None
            assert record.status == "CANCELLED"
            assert "nowhere" not in [space.name for space in await client.namespaces.list()]

    on(url, scenario)


def test_a_deadline_of_a_cancel_request_terminates(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            name = fresh("stubborn")
            await client.start("Stubborn", workflow_id=name, task_queue=app.queue)
            await until(client, name)  # a run that no worker has claimed closes at once
            pid = f"wf://main/{name}"
            text = "workflow terminated: cancel deadline passed"
            assert await client.run("Deadline", pid, task_queue=app.queue) == [
                "pid.exit",
                pid,
                None,
                ["CANCELED", text, "Failure"],
            ]

    on(url, scenario)


def test_a_trapped_cancel_is_an_event_and_nothing_else(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            name = fresh("traps")
            handle = await client.start("Traps", workflow_id=name, task_queue=app.queue)
            await until(client, name)
            await client.cancel(name, reason="please", deadline=60)
            assert await handle.result() == ["pid.cancel", None, "please", True, f"{name}-c"]
            child = await client.describe(f"{name}-c")
            record = await client.describe(name)
            assert child is not None
            assert record is not None
            assert (record.status, child.status, child.cancel_requested) == ("COMPLETED", "RUNNING", False)
            await client.terminate(f"{name}-c")

    on(url, scenario)


def test_children_are_watched_by_their_own_events(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            found = await client.run("Family", task_queue=app.queue)
            assert [event[:1] + event[2:] for event in found[:2]] == [
                ["pid.exit", 5, None],
                ["pid.exit", None, ["INVALID", "one", "ChildError"]],
            ]
            assert found[2] == ["raised", "INVALID", "two"]
            assert found[3:] == [["pid.exit", "two"], ["pid.exit", "three"], ["pid.link.down", "three"], "invalid"]

    on(url, scenario)


def test_a_workflow_cannot_watch_itself_nor_link_far_away(tmp_path: Any):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            assert await client.run("Itself", task_queue=app.queue) == [
                "a workflow cannot monitor itself",
                "a workflow cannot link itself",
                "a workflow can only be linked within its namespace",
            ]

    on(f"sqlite://{tmp_path}/own.db", scenario)


def test_watches_and_unread_events_go_along_to_the_next_run(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := society()):
            name, mover = fresh("peer"), fresh("mover")
            await client.start("Peer", workflow_id=name, task_queue=app.queue)
            handle = await client.start(
                "Mover", {"run": 1, "pid": f"wf://main/{name}"}, workflow_id=mover, task_queue=app.queue
            )
            while not await client.list_children(mover):
                await asyncio.sleep(0.02)
            (child,) = await client.list_children(mover)
            await client.result(child.id)
            await client.signal(mover, "move")
            await until(client, mover)
            await client.signal(name, "end", "late")
            assert await handle.result() == [["pid.exit", "unread", None], ["pid.exit", "late", None]]

    on(url, scenario)


def test_the_kinds_are_texts():
    assert [str(kind) for kind in EventKind] == ["pid.exit", "pid.link.down", "pid.cancel"]
