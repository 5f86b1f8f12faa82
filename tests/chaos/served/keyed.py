"""Operations with an idempotency key, repeated until they are answered; afterwards each is asked for once more (I3)."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

PREFIX: Final = "/api/v1"
QUEUE: Final = "keyed"
SIGNALS: Final = 2
PATIENCE: Final = aiohttp.ClientTimeout(total=15)
AT_ONCE: Final = 40
PAUSE: Final = 0.02

Task = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """A change that was asked for, and the first answer that was heard."""

    path: str
    body: Any
    key: str
    status: int
    answer: bytes
    tries: int


class Caller:
    """Asks through the proxy; what is only asked, not changed, goes straight to the engine."""

    def __init__(self, session: aiohttp.ClientSession, engine: str, proxy: str) -> None:
        self._session = session
        self._engine = engine + PREFIX
        self._proxy = proxy + PREFIX
        self.operations: list[Operation] = []

    async def change(self, path: str, body: Any) -> int:
        """Ask for a change until it is answered; the status."""
        key = uuid.uuid4().hex
        tries = 0
        while True:
            tries += 1
            try:
                status, answer, _ = await self._post(self._proxy + path, body, key)
            except (aiohttp.ClientError, TimeoutError, OSError):
                await asyncio.sleep(PAUSE)
                continue
            self.operations.append(Operation(path, body, key, status, answer, tries))
            return status

    async def ask(self, path: str, body: Any) -> Any:
        """Ask directly."""
        _, answer, _ = await self._post(self._engine + path, body, None)
        return json.loads(answer)

    async def _post(self, url: str, body: Any, key: str | None) -> tuple[int, bytes, bool]:
        headers = {} if key is None else {"idempotency-key": key}
        async with self._session.post(url, json=body, headers=headers, timeout=PATIENCE) as response:
            return response.status, await response.read(), response.headers.get("idempotent-replay") == "true"

    async def changed_answers(self) -> list[str]:
        """Operations that are not answered now as they were then, or whose key is good for something else."""
        slots = asyncio.Semaphore(AT_ONCE)
        found = await asyncio.gather(*(self._again(operation, slots) for operation in self.operations))
        return [sentence for sentences in found for sentence in sentences]

    async def _again(self, operation: Operation, slots: asyncio.Semaphore) -> list[str]:
        url = self._engine + operation.path
        async with slots:
            status, answer, replayed = await self._post(url, operation.body, operation.key)
            other, _, _ = await self._post(url, {**operation.body, "another": "body"}, operation.key)
        wrong = []
        if (status, answer) != (operation.status, operation.answer) or not replayed:
            wrong.append(f"{operation.path}: {operation.status} {operation.answer!r} then, {status} {answer!r} now")
        if other != 422:
            wrong.append(f"{operation.path}: the same key with another body was answered {other}")
        return wrong


class Errands:
    """Workflows that are started, signalled and carried out by the original protocol, one change at a time."""

    def __init__(self, caller: Caller, count: int) -> None:
        self._caller = caller
        self._count = count
        self._open = set(names(count))
        self._worker = ""

    async def run(self) -> None:
        """Start them all and bring them to their end."""
        registered = await self._caller.ask("/workers/register", {"identity": "keyed", "queue": QUEUE})
        self._worker = registered["worker_id"]
        serving = [asyncio.create_task(work()) for work in (self._turns, self._attempts) for _ in range(AT_ONCE)]
        slots = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._order(name, slots) for name in names(self._count)))
        await asyncio.gather(*serving)

    async def _order(self, name: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            start = {"workflow_type": "Keyed", "workflow_id": name, "task_queue": QUEUE}
            await self._expect(201, "/workflows", start)
            for number in range(SIGNALS):
                signal = {"payload": {"nonce": f"{name}/{number}"}}
                await self._expect(200, f"/workflows/{name}/signal/go", signal)

    async def _expect(self, status: int, path: str, body: Any) -> None:
        found = await self._caller.change(path, body)
        assert found == status, f"{path} was answered {found}"

    async def _turns(self) -> None:
        while self._open:
            task = await self._caller.ask("/workflow-tasks/poll", self._poll())
            if task is not None:
                await self._turn(task)

    def _poll(self) -> Any:
        return {"queue": QUEUE, "worker_id": self._worker, "wait_secs": 1}

    async def _turn(self, task: Task) -> None:
        kinds = [event["event_type"] for event in task["history"]]
        commands: list[Any] = []
        if "ActivityScheduled" not in kinds:
            commands = [{"type": "ScheduleActivity", "seq": 1, "name": "errand", "task_queue": QUEUE}]
        elif "ActivityCompleted" in kinds and kinds.count("SignalReceived") == SIGNALS:
            commands = [{"type": "CompleteWorkflow", "result": "done"}]
        name, body = task["workflow_id"], {"worker_id": self._worker, "commands": commands}
        body["task_token"] = task["task_token"]
        status = await self._caller.change(f"/workflow-tasks/{name}/commands", body)
        assert status in (200, 409), f"the commands of {name} were answered {status}"
        if status == 200 and commands and commands[0]["type"] == "CompleteWorkflow":
            self._open.discard(name)

    async def _attempts(self) -> None:
        while self._open:
            task = await self._caller.ask("/tasks/poll", self._poll())
            if "id" in task:
                body = {"result": task["workflow_id"], "task_token": task["task_token"]}
                await self._expect(200, f"/tasks/{task['id']}/complete", body)


def names(count: int) -> Iterator[str]:
    """The ids of the errands."""
    return (f"keyed-{number}" for number in range(count))
