"""The handlers that simulated workers serve: one workflow that takes any program, and the activities it needs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from assay.core.model.errors import ActivityError, Failure
from assay.sdk.app import App
from assay.sdk.workflow.activity_context import ActivityContext
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.commands import DEFAULT_VERSION
from assay.sdk.workflow.replay.exceptions import CancelRequested
from assay.sdk.workflow.replay.runtime import Execution
from assay.sdk.workflow.replay_context import ReplayContext
from simulation.programs import DROPPED, FAILED, SAME, SWAPPED, TIMED_OUT, PlannedBug, Step

if TYPE_CHECKING:
    from simulation.world import World

FOREVER = 100_000.0


def execution_of(ctx: Context) -> Execution:
    """Return the replayed run behind a context."""
    return cast("ReplayContext", ctx)._run  # the only engine of the simulation is ours


class Programs:
    """Bodies that leave their marks in the ledger."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._effects = 0
        self._deployed = 0
        self._versions: dict[tuple[str, str], int] = {}
        self._tries: dict[tuple[str, str], int] = {}
        self._swapped: set[tuple[str, str]] = set()
        self.swapping = True
        """Is code of another version about? Not any more when histories are checked at the end."""

    def app(self) -> App:
        """All of them, registered."""
        app = App()
        app.workflow("program", interpret(self), errors="wait")
        app.activity("work", self.work)
        app.activity("beat", self.beat)
        app.activity("echo", self.echo)
        return app

    async def work(self, ctx: ActivityContext, input: Any) -> Any:
        """Fails as often as it is told to, hangs as often as it is told to, then returns its value."""
        attempt = self._began(ctx)
        brief = attempt <= input["fails"] or attempt > input.get("tight", attempt)
        await asyncio.sleep(min(input["secs"], 0.1) if brief else input["secs"])
        if attempt <= input["fails"]:
            raise RuntimeError(f"attempt {attempt} fails")
        if attempt <= input.get("hangs", 0):
            await asyncio.sleep(FOREVER)
        return input["value"]

    async def beat(self, ctx: ActivityContext, input: Any) -> Any:
        """Heartbeats while it works; hangs without a sign of life as often as it is told to."""
        attempt = self._began(ctx)
        if attempt <= input["hangs"]:
            ctx.heartbeat({"at": "hanging"})
            await asyncio.sleep(FOREVER)
        for beat in range(int(input["secs"] * 2)):
            ctx.heartbeat({"at": beat})
            await asyncio.sleep(0.5)
        return input["value"]

    async def echo(self, ctx: ActivityContext, input: Any) -> Any:
        """What it was given."""
        self._began(ctx)
        return input

    def _began(self, ctx: ActivityContext) -> int:
        info = ctx.info()
        self._world.ledger.executions[info.run_id, info.activity_id].append(info.attempt)  # type: ignore[index]
        return info.attempt

    def effect(self, ctx: Context, step: Step) -> Any:
        """A value that is never the same twice, unless it is None."""
        self._world.checks.effect_runs(execution_of(ctx), step["name"])
        self._effects += 1
        return None if step["none"] else f"{step['name']}#{self._effects}"

    def newest_version(self, ctx: Context, name: str) -> int:
        """Return the newest version of a change in the code that is deployed at this moment: another one at each call.

        When histories are checked at the end, it is the one of the code that came to the place first.
        """
        run = execution_of(ctx)
        place = run.key.run_id, name
        if not self.swapping:
            return self._versions.get(place, self._deployed)
        self._deployed += 1
        if name not in run.commands.journal.versions:
            self._versions[place] = self._deployed
        return self._deployed

    def swaps(self, ctx: Context, step: Step) -> bool:
        """Is this the replay of a step by code of another version? Each run meets it once."""
        place = ctx.info().run_id, step["name"]
        if not (self.swapping and ctx.is_replaying()) or place in self._swapped:
            return False
        self._swapped.add(place)
        self._world.ledger.swapped.add(ctx.workflow_id)
        return True

    def meet_bug(self, ctx: Context, step: Step) -> None:
        """Raise a bug, as often in one run as the step says."""
        place = execution_of(ctx).key.run_id, step["name"]
        self._tries[place] = self._tries.get(place, 0) + 1
        if self._tries[place] <= step["times"]:
            raise PlannedBug(step["name"])

    def inline(self, ctx: Context, step: Step) -> "Callable[[], Coroutine[Any, Any, Any]]":
        """Return the function of an inline step, which checks that all earlier commands are durable when it starts."""
        run, ordered = execution_of(ctx), dict(execution_of(ctx).commands.counters)

        async def body() -> Any:
            self._world.checks.step_runs(run, ordered, step["name"])
            await asyncio.sleep(step["secs"])
            tries = self._tries[run.key.run_id, step["name"]] = self._tries.get((run.key.run_id, step["name"]), 0) + 1
            if tries <= step["fails"]:
                raise RuntimeError(f"try {tries} fails")
            return step["value"]

        return body


def interpret(handlers: Programs) -> "Callable[[Context, Any], Coroutine[Any, Any, Any]]":
    """The workflow function."""

    async def program(ctx: Context, input: Any) -> Any:
        interpreter = Interpreter(ctx, handlers, input["id"])
        try:
            return await interpreter.program(input)
        except CancelRequested:
            if input.get("cleanup"):
                with ctx.shield():
                    await ctx.execute_activity("echo", "clean-up", max_attempts=0)
            raise

    return program


class Interpreter:
    """Takes the steps of one run."""

    def __init__(self, ctx: Context, handlers: Programs, workflow_id: str) -> None:
        self._ctx = ctx
        self._handlers = handlers
        self._id = workflow_id
        self._orphans: list[asyncio.Task[Any]] = []
        self._events: dict[tuple[str, str], Any] = {}
        self._came: asyncio.Event | None = None
        self._twice: list[str] = []

    async def program(self, input: Step) -> list[Any]:
        """All steps, one after the other; `again` goes on with the rest in a new run."""
        results = list(input["done"])
        for place, step in enumerate(input["steps"]):
            if step["do"] == "again":
                self._ctx.continue_as_new({**input, "steps": input["steps"][place + 1 :], "done": results})
            results.append(await self.take(step))
        return results

    async def take(self, step: Step) -> Any:
        """One step."""
        return await STEPS[step["do"]](self, step)

    async def act(self, step: Step) -> Any:
        """An activity; how it failed for good is its result."""
        name = "beat" if step["do"] == "beat" else "work"
        try:
            return await self._ctx.execute_activity(name, step, **step["opts"])
        except ActivityError as error:
            return FAILED if step["do"] in ("limited", "final", "late") else f"{error.kind}: {error.message}"

    async def sleep(self, step: Step) -> str:
        """A timer, which must not be early as this run sees it."""
        began = self._ctx.now()
        await self._ctx.sleep(step["secs"])
        slept = (self._ctx.now() - began).total_seconds()
        return SAME if slept >= step["secs"] - 1e-6 else f"slept {slept} of {step['secs']}"

    async def clocks(self, step: Step) -> list[str]:
        """Several timers at once, each to its own time."""
        return list(await asyncio.gather(*(self.sleep({"secs": secs}) for secs in step["each"])))

    async def flash(self, _: Step) -> str:
        """Two activities, of which one never ends and is given up as soon as the other is done."""
        endless = {"secs": 0.0, "fails": 0, "hangs": 1_000, "value": 0}
        options: dict[str, Any] = {"max_attempts": 0, "start_to_close_secs": 60.0}
        tasks = [
            asyncio.create_task(self._echoed("flash")),
            asyncio.create_task(self._ctx.execute_activity("work", endless, **options)),
        ]
        try:
            done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        return str(next(task for task in tasks if task in done).result())

    async def signal(self, step: Step) -> list[int]:
        """So many different messages, however often each of them comes."""
        found: set[int] = set()
        while len(found) < step["count"]:
            message = await self._ctx.wait_for_signal(step["name"])
            found.add(message["id"])
        return sorted(found)

    async def perhaps(self, step: Step) -> Any:
        """A message, if it comes in time."""
        message = await self._ctx.wait_for_signal(step["name"], step["secs"])
        return None if message is None else message["id"]

    async def effect(self, step: Step) -> str:
        """A side effect, held against what the history makes of it."""
        value = await self._ctx.side_effect(step["name"], lambda: self._handlers.effect(self._ctx, step))
        return await self._echoed(value)

    async def version(self, step: Step) -> str:
        """The version of a change, asked for by code whose newest version is another one at each call."""
        first = self._ctx.version(step["name"], DEFAULT_VERSION, self._handlers.newest_version(self._ctx, step["name"]))
        echoed = await self._echoed(first)
        second = self._ctx.version(
            step["name"], DEFAULT_VERSION, self._handlers.newest_version(self._ctx, step["name"])
        )
        start = execution_of(self._ctx).start
        if first == DEFAULT_VERSION and (start is None or start.reopening is None):
            return "a new run has the default version"
        return echoed if first == second else f"version {first} became {second}"

    async def _echoed(self, value: Any) -> str:
        echo = await self._ctx.execute_activity("echo", value, max_attempts=0, initial_interval_secs=0.2)
        return SAME if echo == value else f"{value} became {echo}"

    async def swapped(self, step: Step) -> list[str]:
        """Two activities at once; code of another version orders them the other way round (I19)."""
        values = [f"{step['name']}.{place}" for place in range(2)]
        if self._handlers.swaps(self._ctx, step):
            values.reverse()
        return list(await asyncio.gather(*map(self._echoed, values)))

    async def inline(self, step: Step) -> Any:
        """An inline step."""
        body = self._handlers.inline(self._ctx, step)
        options = {"max_attempts": 0, "initial_interval": step["interval"], "backoff_coefficient": 1}
        return await self._ctx.run(step["name"], body, **options)

    async def walk(self, step: Step) -> list[Any]:
        """One inline step after the other."""
        each = {"secs": step["secs"], "fails": 0, "interval": 0.1}
        return [
            await self.inline({**each, "name": f"{step['name']}.{place}", "value": place})
            for place in range(step["count"])
        ]

    async def stamp(self, _: Step) -> str:
        """The run's time."""
        return await self._echoed(self._ctx.now().isoformat())

    async def chance(self, _: Step) -> str:
        """The run's random numbers."""
        return await self._echoed([self._ctx.random().random(), str(self._ctx.uuid4())])

    async def attributes(self, step: Step) -> str:
        """A search attribute."""
        await self._ctx.upsert_search_attributes({step["name"]: "yes"})
        return SAME

    async def break_(self, step: Step) -> str:
        """Fails the run, in the first runs of its chain."""
        if self._ctx.info().attempt <= step["times"]:
            raise Failure("this run fails")
        return SAME

    async def bug(self, step: Step) -> str:
        """Raises so many times, for which the run waits; then the code is fixed."""
        self._handlers.meet_bug(self._ctx, step)
        return SAME

    async def child(self, step: Step) -> Any:
        """A child, waited for."""
        program = step["program"]
        return await self._ctx.start_child_workflow(
            "program", workflow_id=program["id"], input=program, parent_close_policy=step["policy"]
        )

    async def spawn(self, step: Step) -> Any:
        """A child that is spawned: its end is an event, with the same result."""
        program = step["program"]
        child = await self._ctx.spawn("program", program, id=program["id"], parent_close_policy=step["policy"])
        event = await self._event("pid.exit", child.pid)
        return self._agreed(await child.result(), event)

    async def watched(self, step: Step) -> Any:
        """A child that is monitored like any other workflow: its end is an event, with the same result."""
        child = asyncio.create_task(self.child(step))
        await asyncio.sleep(0)
        pid = f"wf://{self._ctx.info().namespace}/{step['program']['id']}"
        await self._ctx.monitor(pid)
        try:
            event = await self._event("pid.exit", pid)
        finally:
            if not child.done():
                child.cancel()
        return self._agreed(await child, event)

    def _agreed(self, result: Any, event: Any) -> Any:
        if self._twice:
            return f"events came twice: {self._twice}"
        return result if event.error is None and event.value == result else f"the event says {event}"

    async def linked(self, step: Step) -> str:
        """A linked workflow that is terminated: the link goes down."""
        ctx = self._ctx
        ctx.set_options(trap_links=True)
        sleeper: Step = {"id": f"{self._id}.{step['name']}", "steps": [{"do": "sleep", "secs": 50_000.0}], "done": []}
        child = await ctx.spawn("program", sleeper, id=sleeper["id"], parent_close_policy="terminate")
        await ctx.link(child)
        await ctx.terminate(child, reason="simulated")
        event = await self._event("pid.link.down", child.pid)
        return f"twice: {self._twice}" if self._twice else str(event.error.kind)

    async def _event(self, kind: str, pid: str) -> Any:
        """Wait for the event of one workflow; a task of the run takes all events."""
        if self._came is None:
            self._came = asyncio.Event()
            self._ctx.go(self._take_events(self._came))
        while (kind, pid) not in self._events:
            await self._came.wait()
        return self._events[kind, pid]

    async def _take_events(self, came: asyncio.Event) -> None:
        async for event in self._ctx.events():
            key = str(event.kind), str(event.from_)
            if key in self._events:
                self._twice.append(f"{key}")
            self._events[key] = event
            came.set()
            came.clear()

    async def orphan(self, step: Step) -> str:
        """A child that nobody waits for."""
        self._orphans.append(asyncio.create_task(self.child(step)))
        await asyncio.sleep(0)
        return SAME

    async def all(self, step: Step) -> list[Any]:
        """Several at once."""
        return list(await asyncio.gather(*(self.take(one) for one in step["steps"])))

    async def group(self, step: Step) -> list[Any]:
        """Several at once, in a group."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.take(one)) for one in step["steps"]]
        return [task.result() for task in tasks]

    async def race(self, step: Step) -> list[Any]:
        """The first of several; the others are given up."""
        tasks = [asyncio.create_task(self.take(one)) for one in step["steps"]]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        winner = next(place for place, task in enumerate(tasks) if task in done)
        result = [winner, tasks[winner].result()]
        await self._echoed(result)
        return result

    async def limit(self, step: Step) -> Any:
        """A step with a time limit."""
        try:
            async with asyncio.timeout(step["secs"]):
                return await self.take(step["step"])
        except TimeoutError:
            return TIMED_OUT

    async def drop(self, step: Step) -> Any:
        """A step that is given up after a while."""
        task = asyncio.create_task(self.take(step["step"]))
        try:
            await asyncio.wait([task], timeout=step["secs"])
        finally:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return DROPPED


STEPS: dict[str, Callable[[Interpreter, Step], Coroutine[Any, Any, Any]]] = {
    **dict.fromkeys(("act", "long", "limited", "final", "hang", "tight", "late", "beat"), Interpreter.act),
    "sleep": Interpreter.sleep,
    "clocks": Interpreter.clocks,
    "flash": Interpreter.flash,
    "signal": Interpreter.signal,
    "perhaps": Interpreter.perhaps,
    "effect": Interpreter.effect,
    "version": Interpreter.version,
    SWAPPED: Interpreter.swapped,
    "inline": Interpreter.inline,
    "stamp": Interpreter.stamp,
    "chance": Interpreter.chance,
    "attributes": Interpreter.attributes,
    "walk": Interpreter.walk,
    "break": Interpreter.break_,
    "bug": Interpreter.bug,
    "child": Interpreter.child,
    "orphan": Interpreter.orphan,
    "spawn": Interpreter.spawn,
    "watched": Interpreter.watched,
    "linked": Interpreter.linked,
    "all": Interpreter.all,
    "group": Interpreter.group,
    "race": Interpreter.race,
    "limit": Interpreter.limit,
    "drop": Interpreter.drop,
}
