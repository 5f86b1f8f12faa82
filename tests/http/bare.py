"""A worker without the SDK: messages by hand, over POST."""

import uuid
from typing import Any

import aiohttp
import msgspec

from assay.worker_protocol import messages as wire
from assay.worker_protocol.decode import decode_engine_message

JSON = {"Content-Type": "application/json"}


class Bare:
    """Says what it is told to say, and hears what comes."""

    def __init__(self, session: aiohttp.ClientSession, url: str, namespace: str = "main") -> None:
        self.worker = f"w-{uuid.uuid4().hex[:16]}"
        self._session = session
        self.url = f"{url}/api/v1/workers/{self.worker}/exchange?namespace={namespace}"
        self._namespace = namespace

    async def post_message(self, **fields: Any) -> tuple[int, wire.EngineMessage | dict[str, Any]]:
        body = wire.encode(wire.WorkerMessage(**fields))
        async with self._session.post(self.url, data=body, headers=JSON) as response:
            answer = await response.read()
            if response.status != 200:
                return response.status, msgspec.json.decode(answer)
            return 200, decode_engine_message(answer)

    async def greet(self, queue: str, **fields: Any) -> wire.EngineMessage:
        hello = wire.Hello(queue=queue, namespace=self._namespace, free_tasks=5, free_activities=5, **fields)
        return await self.exchange(hello=hello)

    async def exchange(self, **fields: Any) -> wire.EngineMessage:
        status, message = await self.post_message(**fields)
        assert status == 200
        assert isinstance(message, wire.EngineMessage)
        return message

    async def task(self) -> wire.SentTask:
        while True:
            message = await self.exchange(wait_secs=5)
            if message.tasks:
                return message.tasks[0]
