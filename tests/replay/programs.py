"""The programs whose histories are kept in `histories/`. Each must follow what it recorded for ever: never change one.

A course says what happens to a program while it is recorded. To keep a new history, add a workflow and its course here
and run `python -m tests.replay.record NAME`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from assay.core.model import events as ev
from assay.core.model.errors import ActivityError, ChildError, Failure, Kind, LinkedFailure, NotFound
from assay.sdk.app import App
from assay.sdk.values.retry import Retry
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.exceptions import CancelRequested
from tests.sdk.end_to_end import Place

Course = Callable[[Place], Awaitable[None]]

app = App()
COURSES: dict[str, Course] = {}
"""By the name of a history, which is the id of its workflow."""


def course(function: Course) -> Course:
    COURSES[function.__name__] = function
    return function


# activities


@app.activity
async def echo(value: Any) -> Any:
    return value


@app.activity
def shout(text: str) -> str:
    return text.upper()


@app.activity
async def fails(message: str) -> None:
    raise Failure(message, kind=Kind.INVALID, retryable=False, details={"said": message})


@app.activity
async def hangs() -> None:
    await asyncio.sleep(60)


# the examples' shapes


@app.workflow
async def Hello(ctx: Context, name: str) -> str:
    return await ctx.execute_activity(shout, f"hello, {name}")


@course
async def hello(here: Place) -> None:
    await here.run(Hello, "hello", "world")


@app.workflow
async def Sequence(ctx: Context, length: int) -> int:
    total = 0
    for number in range(length):
        total += await ctx.execute_activity(echo, number, max_attempts=5)
    return total


@course
async def sequence(here: Place) -> None:
    await here.run(Sequence, "sequence", 12)


@dataclasses.dataclass
class Decision:
    approved: bool
    by: str


@app.workflow
async def ApproveExpense(ctx: Context, expense: dict[str, Any]) -> str:
    status = "waiting"
    ctx.register_query("status", lambda: status)
    decision = await ctx.wait_for_signal("decision", timeout=datetime.timedelta(days=3), type=Decision)
    if decision is None:
        status = "nobody decided in time"
    elif decision.approved:
        await ctx.execute_activity(echo, expense)
        status = f"approved by {decision.by}"
        ctx.upsert_search_attributes({"approver": decision.by})
    else:
        status = f"turned down by {decision.by}"
    return status


@course
async def approval(here: Place) -> None:
    handle = await here.start(ApproveExpense, "approval", {"amount": 25})
    await here.recorded(ev.WorkflowAwaitingSignal, "approval")
    await handle.signal("decision", Decision(True, "Grace"))
    await handle.result()


@course
async def approval_forgotten(here: Place) -> None:
    handle = await here.start(ApproveExpense, "approval_forgotten", {"amount": 40})
    await here.recorded(ev.WorkflowAwaitingSignal, "approval_forgotten")
    here.skip(4 * 86_400)
    await handle.result()


@app.workflow
async def CountWords(ctx: Context, documents: list[str]) -> int:
    counts = await asyncio.gather(*(ctx.execute_activity(echo, len(text.split())) for text in documents))
    return await ctx.run("merge", lambda: sum(counts))


@course
async def fan_out(here: Place) -> None:
    await here.run(CountWords, "fan_out", ["the quick brown fox", "the dog sleeps", "a fox is not a dog"] * 5)


@app.workflow
async def NightlyReport(ctx: Context, region: str) -> dict[str, Any]:
    report_id = await ctx.side_effect("issue_report_id", lambda: f"rep-{uuid.uuid4()}")
    anomalies = await ctx.execute_activity(echo, ["stale_lock", "missing_index"], max_attempts=5)
    for number, anomaly in enumerate(anomalies, 1):
        await ctx.start_child_workflow(Hello, workflow_id=f"{report_id}-{number}", input=anomaly)
    return {"report_id": report_id, "region": region, "handled": len(anomalies)}


@course
async def nightly_report(here: Place) -> None:
    await here.run(NightlyReport, "nightly_report", "eu-west-1")


@app.workflow
async def AwaitExport(ctx: Context, polls: int) -> str:
    ctx.register_query("polls", lambda: polls)
    for _ in range(3):
        ready = await ctx.execute_activity(echo, polls >= 4)
        polls += 1
        if ready:
            return f"ready after {polls} polls"
        await ctx.sleep("100ms")
    ctx.continue_as_new(polls)


@course
async def poller(here: Place) -> None:
    handle = await here.start(AwaitExport, "poller", 0)
    for number in range(1, 5):
        await here.recorded(ev.TimerScheduled, "poller", times=number)
        here.skip(0.2)
    await handle.result()


@app.workflow
async def BookTrip(ctx: Context, traveller: str) -> str:
    undo: list[str] = []
    try:
        for name in ("flight", "hotel"):
            undo.append(name)
            await ctx.execute_activity(echo, f"book {name} for {traveller}")
        await ctx.execute_activity(fails, "no driving licence")
    except (ActivityError, CancelRequested):
        with ctx.shield():
            for name in reversed(undo):
                await ctx.execute_activity(echo, f"cancel {name}", max_attempts=0)
        raise
    return "going"


@course
async def saga(here: Place) -> None:
    handle = await here.start(BookTrip, "saga", "Max")
    await here.recorded(ev.WorkflowFailed, handle.workflow_id)


@app.workflow
async def FulfilOrder(ctx: Context, order: str) -> dict[str, Any]:
    shelf = await ctx.execute_activity(echo, "shelf 12", retry=Retry(max_attempts=20, initial_interval=0.1))
    parcel = await ctx.side_effect("number parcel", lambda: str(uuid.uuid4()))
    await ctx.execute_activity(echo, parcel)
    await ctx.side_effect("courier called", lambda: None)
    await ctx.sleep(1.2)
    await ctx.side_effect("courier arrived", lambda: None)
    await ctx.run("send receipt", lambda: f"receipt for {order}")
    return {"parcel": parcel, "shelf": shelf}


@course
async def shop(here: Place) -> None:
    handle = await here.start(FulfilOrder, "shop", "order-1")
    await here.recorded(ev.TimerScheduled, "shop")
    here.skip(2)
    await handle.result()


# time


@app.workflow
async def Timers(ctx: Context) -> Any:
    began = ctx.now()
    await ctx.sleep("1m30s")
    found: list[Any] = [(ctx.now() - began).total_seconds() > 89]
    try:
        async with asyncio.timeout(5):
            await ctx.execute_activity(hangs)
    except TimeoutError:
        found.append("timeout")
    found.append(await asyncio.wait_for(ctx.execute_activity(echo, "in time"), 3600))
    await asyncio.gather(asyncio.sleep(0.001), ctx.sleep(0.002))
    return found


@course
async def timers(here: Place) -> None:
    handle = await here.start(Timers, "timers")
    await here.recorded(ev.TimerScheduled, "timers")
    here.skip(91)
    await here.recorded(ev.TimerScheduled, "timers", times=2)
    here.skip(6)
    await handle.result()


@app.workflow
async def Race(ctx: Context) -> Any:
    tasks = [
        asyncio.create_task(ctx.execute_activity(hangs), name="hangs"),
        asyncio.create_task(ctx.wait_for_signal("paid"), name="signal"),
        asyncio.create_task(ctx.sleep(3600), name="timer"),
        asyncio.create_task(ctx.execute_activity(echo, 1, task_queue="nobody"), name="nobody"),
    ]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return [task.get_name() for task in done]


@course
async def race(here: Place) -> None:
    handle = await here.start(Race, "race")
    await here.recorded(ev.WorkflowAwaitingSignal, "race")
    await handle.signal("paid", 5)
    await handle.result()


# signals


@app.workflow
async def Signals(ctx: Context) -> Any:
    first = await ctx.wait_for_signal("early")
    await ctx.execute_activity(echo, first)
    late = [await ctx.wait_for_signal("late") for _ in range(2)]
    nothing = await ctx.wait_for_signal("never", timeout="1h")
    both = await asyncio.gather(ctx.wait_for_signal("left"), ctx.wait_for_signal("right"))
    return [first, late, nothing, both]


@course
async def signals(here: Place) -> None:
    handle = await here.start(Signals, "signals", signals=[("early", {"n": 1}), "early"])
    await here.recorded(ev.WorkflowAwaitingSignal, "signals")
    await handle.signal("late", "a")
    await handle.signal("right", "r")
    await handle.signal("late", "b")
    await here.recorded(ev.TimerScheduled, "signals")
    here.skip(3700)
    await here.recorded(ev.TimerFired, "signals")
    await handle.signal("left")
    await handle.result()


# values and steps


@app.workflow
async def Effects(ctx: Context) -> Any:
    found = [await ctx.side_effect("nothing", lambda: None), await ctx.side_effect("number", lambda: 7)]
    found.append(await ctx.execute_activity(echo, found))
    found.append(await ctx.side_effect("after", lambda: str(uuid.uuid4())))
    try:
        await ctx.side_effect("broken", lambda: 1 / 0)
    except Failure as error:
        found.append(error.type)
    found.append(await ctx.execute_activity(echo, found[-1]))
    return found


@course
async def effects(here: Place) -> None:
    await here.run(Effects, "effects")


@app.workflow
async def Steps(ctx: Context) -> Any:
    one, two = await asyncio.gather(ctx.run("one", lambda: 1), ctx.run("two", lambda: 2))
    try:
        await ctx.run("broken", lambda: 1 / 0, max_attempts=1)
    except ActivityError as error:
        broken = error.type
    activity = await ctx.execute_activity(echo, "activity")
    return [one, two, broken, activity, await ctx.run("last", lambda: "last")]


@course
async def steps(here: Place) -> None:
    await here.run(Steps, "steps")


@app.workflow
async def StepLater(ctx: Context) -> Any:
    step = asyncio.create_task(ctx.run("step", _second_time, retry=Retry(initial_interval="1m", max_attempts=3)))
    signal = await ctx.wait_for_signal("meanwhile")
    return [signal, await step]


_TRIED: list[bool] = []


def _second_time() -> str:
    _TRIED.append(True)
    if len(_TRIED) == 1:
        raise ConnectionError("not yet")
    return "at last"


@course
async def step_later(here: Place) -> None:
    handle = await here.start(StepLater, "step_later")
    await handle.signal("meanwhile", 1)
    await here.recorded(ev.TimerScheduled, "step_later")
    here.skip(61)
    await handle.result()


# children


@app.workflow
async def Broken(ctx: Context) -> None:
    raise ValueError("this child is broken")


@app.workflow
async def Children(ctx: Context) -> Any:
    found = [await ctx.start_child_workflow(Hello, workflow_id="children-ok", input="child")]
    try:
        await ctx.start_child_workflow(Broken, workflow_id="children-broken")
    except ChildError as error:
        found.append(error.message)
    try:
        await ctx.start_child_workflow(Hello, workflow_id="children", input="myself")
    except ChildError as error:
        found.append(error.kind)
    twice = [ctx.start_child_workflow(Hello, workflow_id="children-twice", input=number) for number in ("1", "2")]
    found.extend(await asyncio.gather(*twice))
    return found


@course
async def children(here: Place) -> None:
    await here.run(Children, "children")


# concurrency


@app.workflow
async def Concurrency(ctx: Context) -> Any:
    jobs: asyncio.Queue[int] = asyncio.Queue(2)
    log: list[Any] = []
    lock, few, ready = asyncio.Lock(), asyncio.Semaphore(2), asyncio.Event()

    async def serve(name: str) -> None:
        await ready.wait()
        while (job := await jobs.get()) >= 0:
            async with few:
                found = await ctx.execute_activity(echo, job)
            async with lock:
                log.append([name, found, await ctx.execute_activity(echo, -found)])

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b", "c"):
            group.create_task(serve(name))
        ready.set()
        for job in [*range(6), -1, -1, -1]:
            await jobs.put(job)
    return sorted(log, key=lambda entry: entry[1])


@course
async def concurrency(here: Place) -> None:
    await here.run(Concurrency, "concurrency")


@app.workflow
async def Parallel(ctx: Context) -> Any:
    good = await ctx.execute_parallel([(echo, 1), {"name": "echo", "input": 2, "opts": {"max_attempts": 2}}])
    try:
        await ctx.execute_parallel([(echo, 1), (fails, "second"), (fails, "third")])
    except ActivityError as error:
        return [good, error.message]


@course
async def parallel(here: Place) -> None:
    await here.run(Parallel, "parallel")


@app.workflow
def Blocking(ctx: BlockingContext, name: str) -> Any:
    ctx.register_query("name", lambda: name)
    found = [ctx.execute_activity(shout, name), ctx.side_effect("number", lambda: 5), ctx.run("step", lambda: 6)]
    ctx.sleep(60)
    found.append(ctx.wait_for_signal("go", timeout="1h"))
    found.append(ctx.start_child_workflow(Hello, workflow_id="blocking-child", input=name))
    ctx.upsert_memo({"name": name})
    return [*found, ctx.execute_parallel([(echo, 1), (echo, 2)]), ctx.random().randint(1, 6) > 0]


@course
async def blocking(here: Place) -> None:
    handle = await here.start(Blocking, "blocking", "ada")
    await here.recorded(ev.TimerScheduled, "blocking")
    here.skip(61)
    await here.recorded(ev.WorkflowAwaitingSignal, "blocking")
    await handle.signal("go", "went")
    await handle.result()


# values


class Money(msgspec.Struct):
    amount: int
    currency: str = "EUR"


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    at: datetime.datetime
    total: Money


@app.activity
def check(order: Order) -> Order:
    return order


@app.workflow
async def Typed(ctx: Context, order: Order) -> Order:
    checked = await ctx.execute_activity(check, order)
    paid: Money = await ctx.wait_for_signal("paid", type=Money)
    return dataclasses.replace(checked, total=paid)


@course
async def typed(here: Place) -> None:
    order = Order(uuid.UUID(int=7), datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC), Money(5))
    handle = await here.start(Typed, "typed", order)
    await handle.signal("paid", Money(6, "USD"))
    await handle.result()


@app.workflow
async def Chance(ctx: Context) -> Any:
    found = []
    for _ in range(3):
        name = str(ctx.uuid4())
        found.append(await ctx.execute_activity(echo, [name, ctx.random().random(), ctx.now().isoformat()]))
        await ctx.start_child_workflow(Hello, workflow_id=f"chance-{name}", input=name)
    return [*found, ctx.history_length(), ctx.history_size()]


@course
async def chance(here: Place) -> None:
    await here.run(Chance, "chance")


# endings


@app.workflow
async def Patient(ctx: Context) -> Any:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.execute_activity(hangs))
            group.create_task(ctx.execute_activity(echo, 1, task_queue="nobody"))
            await ctx.wait_for_signal("never")
    finally:
        with ctx.shield():
            await ctx.execute_activity(echo, "clean")
        await ctx.sleep(0.001)


@course
async def cancelled(here: Place) -> None:
    handle = await here.start(Patient, "cancelled")
    await here.recorded(ev.WorkflowAwaitingSignal, "cancelled")
    await handle.cancel("not needed")
    await here.recorded(ev.WorkflowCancelled, "cancelled")


@app.workflow
async def Shielded(ctx: Context) -> Any:
    try:
        with ctx.shield():
            await ctx.wait_for_signal("go")
            await ctx.execute_activity(echo, "kept")
        await ctx.sleep(3600)
    except CancelRequested as request:
        return f"kept its word, then: {request.reason}"


@course
async def shielded(here: Place) -> None:
    handle = await here.start(Shielded, "shielded")
    await here.recorded(ev.WorkflowAwaitingSignal, "shielded")
    await handle.cancel("enough")
    await handle.signal("go")
    await handle.result()


@app.workflow
async def Rejects(ctx: Context) -> None:
    if not await ctx.execute_activity(echo, False):
        ctx.cancel("rejected")


@course
async def rejects(here: Place) -> None:
    await here.start(Rejects, "rejects")
    await here.recorded(ev.WorkflowCancelled, "rejects")


@course
async def terminated(here: Place) -> None:
    handle = await here.start(Patient, "terminated")
    await here.recorded(ev.WorkflowAwaitingSignal, "terminated")
    await handle.terminate("by hand")


@course
async def still_open(here: Place) -> None:
    handle = await here.start(Signals, "still_open", signals=[("early", 1)])
    await here.recorded(ev.WorkflowAwaitingSignal, "still_open")
    await handle.signal("late", 1)
    await here.recorded(ev.WorkflowAwaitingSignal, "still_open", times=2)
    await handle.signal("unread", 2)


@app.workflow
async def Busy(ctx: Context) -> Any:
    """Signals and results come while turns are on their way: echoes stand after inputs that code had not seen."""
    log: list[Any] = []

    async def hear() -> None:
        while (said := await ctx.wait_for_signal("say")) != "end":
            log.append(await ctx.execute_activity(echo, said))
            ctx.upsert_search_attributes({"heard": len(log)})

    hearing = asyncio.create_task(hear())
    await asyncio.gather(*(ctx.execute_activity(shout, f"word {number}") for number in range(8)))
    await hearing
    return len(log)


@course
async def busy(here: Place) -> None:
    handle = await here.start(Busy, "busy")
    await asyncio.gather(*(handle.signal("say", number) for number in range(15)))
    await handle.signal("say", "end")
    await handle.result()


# versions


@app.workflow
async def Versions(ctx: Context) -> Any:
    found: list[Any] = [ctx.version("pay", 1, 2)]
    await ctx.execute_activity(echo, "new" if ctx.patched("fast") else "old")
    found += [await ctx.wait_for_signal("go"), ctx.version("pay", 1, 2), ctx.version("mail", 0, 0)]
    await ctx.execute_activity(echo, found)
    return [*found, ctx.patched("fast")]


@course
async def versions(here: Place) -> None:
    handle = await here.start(Versions, "versions")
    await here.recorded(ev.WorkflowAwaitingSignal, "versions")
    await handle.signal("go", 1)
    assert await handle.result() == [2, 1, 2, 0, True]


# inputs


@dataclasses.dataclass
class Parcel:
    weight: int
    to: dict[str, str]


@app.workflow
async def Inputs(ctx: Context) -> Any:
    """Arguments of steps and inputs of children, of which the history keeps a hash."""

    def weigh(parcel: Parcel, *more: Any) -> int:
        if parcel.weight < 0:
            raise Failure("no such weight", kind=Kind.INVALID, retryable=False)
        return parcel.weight + len(more)

    rome, bern = Parcel(2, {"town": "rome", "country": "it"}), Parcel(3, {"town": "bern", "country": "ch"})
    found: list[Any] = [
        await ctx.run("weigh", weigh, rome),
        await ctx.run("weigh", weigh, bern, {"b": 2, "a": 1}, {"x", "y"}, 10**30, None),
        await ctx.run("weigh", lambda: 0),
        await ctx.run("weigh", lambda function: function(), lambda: 1),
        await ctx.start_child_workflow(Hello, workflow_id="inputs-rome", input="rome"),
        await ctx.start_child_workflow(Hello, workflow_id="inputs-bern", input="bern"),
        await ctx.execute_activity(echo, bern),
    ]
    try:
        await ctx.run("weigh", weigh, Parcel(-1, {}))
    except ActivityError as error:
        found.append(error.message)
    return found


@course
async def inputs(here: Place) -> None:
    await here.run(Inputs, "inputs")


# spawned children


@app.workflow
async def Spawned(ctx: Context) -> Any:
    """Children by number: ids that are generated, used twice, or taken by another run."""
    found: list[Any] = []
    one = await ctx.spawn(Hello, "one")
    two = await ctx.spawn(Hello, "two", id="spawned-two")
    found.extend([await two.result(), await one.result(), one.workflow_id == f"{ctx.info().run_id}-1"])
    found.append(await ctx.exec(Hello, "three", id="spawned-two"))
    try:
        await ctx.spawn(Hello, "myself", name="spawned")
    except ChildError as error:
        found.append([error.kind, error.close_reason, error.workflow_type])
    broken = await ctx.spawn(Broken)
    try:
        await broken.result()
    except ChildError as error:
        found.append([error.kind, error.close_reason, error.workflow_type])
    return found


@course
async def spawned(here: Place) -> None:
    assert await here.run(Spawned, "spawned") == [
        *("HELLO, TWO", "HELLO, ONE", True, "HELLO, THREE"),
        *(["ALREADY_EXISTS", "not_started", "Hello"], ["INTERNAL", "failed", "Broken"]),
    ]


# messages


@app.workflow
async def Letters(ctx: Context) -> Any:
    """Sends to itself and to nobody, listens, replies, and reads its inbox."""
    notes, found = ctx.listen("note", message=True), []
    await ctx.send(ctx.pid, "note", {"n": 1})
    note = await notes.receive()
    found.append([note.topic, note.payload, note.from_ == ctx.pid, await note.ok("mine")])
    try:
        await ctx.send("wf://main/nobody", "note")
    except NotFound as error:
        found.append(str(error.kind))
    inbox = ctx.inbox()
    found.append((await inbox.receive()).payload)
    await ctx.send(ctx.pid, "several", 1, "two")
    several = await inbox.receive()
    found += [several.args, several.payload]
    ctx.unlisten(notes)
    await ctx.send(ctx.pid, "note", 3)
    found.append(await ctx.wait_for_signal("note"))
    return found


@course
async def letters(here: Place) -> None:
    await here.run(Letters, "letters")


# watches, and control of other workflows


@app.workflow
async def Lingers(ctx: Context, order: str = "") -> Any:
    """Ends as a signal says."""
    word = await ctx.wait_for_signal("end")
    if word == "fail":
        raise Failure("it lingers no more", kind=Kind.CONFLICT, retryable=False)
    return word


@app.workflow
async def Watches(ctx: Context) -> Any:
    """Every kind of watch, its end by the other side and by this one, and requests to other workflows."""
    found: list[Any] = []
    events, names = ctx.events(), [f"{ctx.workflow_id}-{letter}" for letter in "abc"]
    a, b, c = (f"wf://main/{name}" for name in names)
    children = [await ctx.spawn(Lingers, id=name, parent_close_policy="abandon") for name in names]
    await ctx.monitor("wf://main/never-there")
    found.append((await events.receive()).error.kind)
    ctx.set_options(trap_links=True, trap_cancel=True)
    await ctx.link(children[0])
    await ctx.send(a, "end", "fail")
    for event in [await events.receive() for _ in range(2)]:
        found.append([event.kind, event.from_ == a])
    await ctx.unmonitor(children[1])
    await ctx.terminate(b, reason="not needed")
    with contextlib.suppress(ChildError):
        await children[1].result()
    await children[2].cancel("enough")
    found.append((await events.receive()).error.kind)
    for call in (ctx.terminate(c), ctx.request_cancel("no address")):
        try:
            await call
        except NotFound:
            found.append("not found")
    ctx.set_options(trap_links=False)
    await ctx.monitor("wf://main/watches-other")
    await ctx.link("wf://main/watches-other")
    await ctx.unmonitor("wf://main/watches-other")
    try:
        await ctx.wait_for_signal("never")
    except LinkedFailure as error:
        found.append([error.kind, error.details])
    await ctx.monitor("wf://main/watches-last")
    await ctx.unmonitor("wf://main/watches-last")
    found.append((await events.receive()).kind)
    try:
        async with asyncio.timeout(0.05):
            await ctx.exec(Lingers, wait_for_cancellation=True)
    except TimeoutError:
        found.append("too late")
    return found


@course
async def watches(here: Place) -> None:
    for name in ("watches-other", "watches-last"):
        await here.start(Lingers, name)
    handle = await here.start(Watches, "watches")
    await here.recorded(ev.WorkflowAwaitingSignal, "watches")
    await here.client.signal("watches-other", "end", "fail")
    await here.recorded(ev.PeerExited, "watches", 2)
    await here.client.cancel("watches", reason="soon")
    assert await handle.result() == [
        *("NOT_FOUND", ["pid.exit", True], ["pid.link.down", True], "CANCELED", "not found", "not found"),
        *(["CONFLICT", {"linked_pid": "wf://main/watches-other"}], "pid.cancel", "too late"),
    ]


@app.workflow
async def Answers(ctx: Context) -> Any:
    """Accepts, rejects, completes and fails updates, and takes one as a payload."""
    found = []
    for _ in range(3):
        message = await ctx.inbox().receive()
        if message.payload is None:
            await message.nak()
            continue
        await message.ack()
        await (message.ok(message.args) if message.topic == "add" else message.error({"code": 1}))
        found.append([message.topic, message.payload])
    return [*found, await ctx.wait_for_signal("plain")]


@course
async def answers(here: Place) -> None:
    running = asyncio.create_task(here.run(Answers, "answers"))
    while await here.client.describe("answers") is None:
        await asyncio.sleep(0.01)
    assert await here.client.update("answers", "add", 1, 2, update_id="u-1") == [1, 2]
    for name, args in (("none", ()), ("bad", (7,))):
        with contextlib.suppress(Failure):
            await here.client.update("answers", name, *args, update_id=f"u-{name}")
    assert await here.client.update("answers", "plain", "p", update_id="u-4") is None
    await running


# tasks, channels and time


@app.workflow
async def Channels(ctx: Context) -> Any:
    """Channels of both kinds, a select over each kind of source, errors of tasks, a saga."""
    work, results = ctx.channel(2), ctx.channel()
    found: list[Any] = []

    async def worker(number: int) -> None:
        async for job in work:
            await ctx.sleep(0.002 * (job + 1))
            await results.send([number, await ctx.execute_activity(echo, job)])

    async def feed() -> None:
        for job in range(4):
            await work.send(job)
        work.close()

    for coroutine in (worker(0), worker(1), feed()):
        ctx.go(coroutine)
    found.append(sorted(job for _, job in [await results.receive() for _ in range(4)]))
    timer, ticker = ctx.timer("1h"), ctx.ticker(0.004)
    found.append([timer.reset(0.02), timer.stop(), timer.reset(0.01)])
    await timer.channel.receive()
    ticks = [await ticker.channel.receive() for _ in range(3)]
    ticker.stop()
    futures = [ctx.start_activity(echo, number) for number in range(3)]
    futures[2].cancel()
    taken = await ctx.select(results, futures[0].channel(), ctx.after("1h"))
    found.extend(
        [ticks == sorted(set(ticks)), [taken.index, taken.value], await futures[1], len(await ctx.random_bytes(8))]
    )
    try:
        async with ctx.saga() as saga:
            saga.add(echo, "undone")
            saga.add(fails, "cannot be undone")
            ctx.go(_fail(ctx))
            await ctx.channel().receive()
    except Failure as error:
        found.append([error.message, [one["message"] for one in error.details["compensation_errors"]]])
    return found


async def _fail(ctx: Context) -> None:
    await ctx.sleep(0.002)
    raise Failure("beside")


@course
async def channels(here: Place) -> None:
    assert await here.run(Channels, "channels") == [
        [0, 1, 2, 3],
        [True, True, False],
        *(True, [1, 0], 1, 8),
        ["beside", ["cannot be undone"]],
    ]


@app.workflow
def BlockingChannels(ctx: BlockingContext) -> Any:
    """The same verbs in a `def` workflow."""
    work, results = ctx.channel(), ctx.channel(3)

    def worker(number: int) -> int:
        done = 0
        for job in work:
            ctx.sleep(0.002)
            results.send([number, ctx.execute_activity(shout, job)])
            done += 1
        return done

    tasks = [ctx.go(worker, number) for number in range(2)]
    for job in ("a", "b", "c"):
        work.send(job)
    work.close()
    found: list[Any] = [sorted(job for _, job in (results.receive() for _ in range(3))), sum(ctx.gather(*tasks))]
    ticker = ctx.ticker(0.003)
    taken = ctx.select(results, ticker.channel)
    ticker.stop()
    found.extend([taken.index, ctx.gather(ctx.start_activity(echo, 1), ctx.start_activity(echo, 2))])
    quick = ctx.activities(start_to_close=60, max_attempts=1)
    try:
        with ctx.saga() as saga:
            saga.add(echo, "undone")
            quick.call(fails, "no")
    except ActivityError as error:
        found.append(error.message)
    return found


@course
async def blocking_channels(here: Place) -> None:
    assert await here.run(BlockingChannels, "blocking_channels") == [["A", "B", "C"], 3, 1, [1, 2], "no"]
