"""Carries out one random program in one run; the operations are added by the modules that describe them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from assay.core.model.errors import AssayError
from assay.sdk.workflow.context import Context

Program = tuple[Any, ...]


class Interpreter:
    """Carries out one program in one run."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.trace: list[Any] = []
        self.spawned: list[asyncio.Task[Any]] = []
        self.children = 0

    async def execute(self, program: Program) -> Any:
        """Carry out an operation; its errors are the caller's."""
        operation, *arguments = program
        found: Any = await OPERATIONS[operation](self, *arguments)
        self.note(operation, found)
        return found

    def note(self, operation: str, found: Any) -> None:
        ctx = self.ctx
        self.trace.append([operation, found, ctx.now().isoformat(), ctx.history_length(), ctx.history_size()])

    def state(self) -> Any:
        """What commands carry."""
        return {"known": len(self.trace), "uuid": str(self.ctx.uuid4()), "die": self.ctx.random().randint(1, 6)}

    async def sequence(self, *programs: Program) -> int:
        for program in programs:
            await self.execute(program)
        return len(programs)

    async def activity(self, name: str) -> Any:
        return await self.ctx.execute_activity(name, self.state())

    async def parallel(self, count: int) -> Any:
        return await self.ctx.execute_parallel([("charge", self.state()) for _ in range(count)])

    async def sleep(self, seconds: float) -> None:
        await self.ctx.sleep(seconds)

    async def signal(self, name: str, timeout: float | None) -> Any:  # noqa: ASYNC109  # as in the API
        return await self.ctx.wait_for_signal(name, timeout)

    async def effect(self, name: str) -> Any:
        known = len(self.trace)
        return await self.ctx.side_effect(name, lambda: f"{name}-{known}" if known % 3 else None)

    async def step(self, name: str) -> Any:
        return await self.ctx.run(name, lambda: name)

    async def child(self, again: bool) -> Any:
        self.children += not again or not self.children
        return await self.ctx.start_child_workflow("Child", workflow_id=f"child-{self.children}", input=self.state())

    async def version(self, name: str) -> Any:
        """The version of a change; the newest one is the same in all executions of a program."""
        return [self.ctx.version(name, -1, 1 + len(name)), self.ctx.patched(f"{name}?")]

    async def upsert(self) -> None:
        await self.ctx.upsert_search_attributes({"known": len(self.trace)})

    async def gather(self, *programs: Program) -> Any:
        found = await asyncio.gather(*(self.execute(program) for program in programs), return_exceptions=True)
        return [_shown(one) for one in found]

    async def group(self, *programs: Program) -> Any:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.execute(program)) for program in programs]
        return [task.result() for task in tasks]

    async def race(self, *programs: Program) -> Any:
        tasks = [asyncio.create_task(self.execute(program)) for program in programs]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return [tasks.index(task) for task in done]

    async def limit(self, seconds: float, program: Program) -> Any:
        try:
            async with asyncio.timeout(seconds):
                return await self.execute(program)
        except TimeoutError:
            return "too late"

    async def wait_for(self, seconds: float, program: Program) -> Any:
        try:
            return await asyncio.wait_for(self.execute(program), seconds)
        except TimeoutError:
            return "too late"

    async def attempt(self, program: Program) -> Any:
        try:
            return await self.execute(program)
        except (AssayError, ExceptionGroup) as error:
            return _shown(error)

    async def shield(self, program: Program) -> Any:
        with self.ctx.shield():
            return await self.execute(program)

    async def clean(self, program: Program, clean_up: Program) -> Any:
        try:
            return await self.execute(program)
        except asyncio.CancelledError:
            await self.execute(clean_up)
            raise

    async def queue(self, *programs: Program) -> Any:
        jobs: asyncio.Queue[Any] = asyncio.Queue(1)
        for program in programs:
            self.spawned.append(asyncio.create_task(_deliver(self.execute(program), jobs)))
        return [await jobs.get() for _ in programs]

    async def lock(self, *programs: Program) -> Any:
        lock, open_for_all = asyncio.Lock(), asyncio.Event()

        async def guarded(program: Program) -> Any:
            await open_for_all.wait()
            async with lock:
                return await self.execute(program)

        tasks = [asyncio.create_task(guarded(program)) for program in programs]
        self.spawned += tasks
        open_for_all.set()
        return [_shown(one) for one in await asyncio.gather(*tasks, return_exceptions=True)]

    async def spawn(self, program: Program) -> None:
        self.spawned.append(asyncio.create_task(self.attempt(program)))


async def _deliver(work: Awaitable[Any], jobs: asyncio.Queue[Any]) -> None:
    try:
        await jobs.put(await work)
    except (AssayError, ExceptionGroup) as error:
        await jobs.put(_shown(error))


def _shown(found: Any) -> Any:
    return f"{type(found).__name__}: {found}" if isinstance(found, BaseException) else found


OPERATIONS: dict[str, Callable[..., Awaitable[Any]]] = {}
