"""The route of the SDK's worker protocol: messages by POST, or over a WebSocket at the same path."""

import asyncio
import contextlib
from typing import Final

from assay.api import answers
from assay.api.access import WORK
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall, Receive, Send
from assay.api.exchange import MESSAGE_SOCKET
from assay.api.router import Route
from assay.api.routes.workflows import NAMESPACE
from assay.worker_protocol.messages import MAX_MESSAGE_BYTES, EngineMessage, WorkerMessage

CREDENTIAL_ENDED: Final = 4401
"""The code with which the socket of a worker is closed whose key was revoked."""


async def exchange(backend: Backend, call: ApiCall) -> HttpResponse:
    """Receive a message of an SDK worker, and return tasks and replies for the worker."""
    call.limit = MAX_MESSAGE_BYTES
    call.check_type()
    body = await call.body()
    answer = await backend.exchange.post(
        call.namespace, call.parameters["worker_id"], body, call.watch(), call.principal
    )
    return HttpResponse(200, answer, answers.PLAIN)


async def connect(backend: Backend, call: ApiCall, receive: Receive, send: Send) -> None:
    """Exchange messages with an SDK worker over a WebSocket."""
    socket = call.scope["extensions"][MESSAGE_SOCKET]
    serving = backend.exchange.websocket(
        call.namespace, call.parameters["worker_id"], receive, send, socket, call.principal
    )
    if not backend.auth.settings.is_on:
        await serving
        return
    await _serve_while_valid(backend, call, send, asyncio.ensure_future(serving))


async def _serve_while_valid(backend: Backend, call: ApiCall, send: Send, serving: "asyncio.Future[None]") -> None:
    """Serve a connection until one side ends it, or the credential of the worker does."""
    ended = asyncio.ensure_future(backend.auth.wait_until_invalid(call.principal))
    try:
        await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving
            await send({"type": "websocket.close", "code": CREDENTIAL_ENDED})
    finally:
        ended.cancel()
        serving.cancel()


ROUTES: Final = (
    Route(
        method="POST",
        path="/workers/{worker_id}/exchange",
        operation_id="exchangeMessages",
        summary="Exchange messages with a worker of the SDK",
        tag="workers",
        reaction=exchange,
        connection=connect,
        body=WorkerMessage,
        query=(NAMESPACE,),
        answers={200: EngineMessage},
        access=WORK,
    ),
)
