"""Changes asked for over HTTP: decided once per `Idempotency-Key`, answered alike each time (4.4)."""

import hashlib
from collections.abc import Callable
from typing import Final, cast

from assay.api import answers
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.core.model.errors import AssayError, Invalid
from assay.core.model.requests import Request
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
from assay.wire.errors import error_body, status_of

MAX_KEY_CHARACTERS: Final = 255

Render = Callable[[object], tuple[int, bytes]]


def nothing(_: object) -> tuple[int, bytes]:
    """Success with nothing to say."""
    return 200, b""


async def report(
    backend: Backend, call: ApiCall, namespace: str, request: Request, render: Render = nothing
) -> HttpResponse:
    """Have a worker's request decided, and answer when that is durable: workers are never told to come back later."""
    key = await key_of(call, namespace, render)
    reply = await backend.engine.submit(request, key)
    return _answer(Rendered(*render(reply)) if key is None else cast(Rendered, reply))


async def change(
    backend: Backend, call: ApiCall, namespace: str, request: Request, render: Render = nothing
) -> HttpResponse:
    """Have a caller's request decided, and answer when that is durable.

    Raises:
        NamespaceBusy: as many requests of the namespace wait as may.
    """
    key = await key_of(call, namespace, render)
    # Refused here, a request leaves no trace under its key: the same key has its effect when there is room again.
    with backend.admission.admit(namespace):
        reply = await backend.engine.submit(request, key, caller=namespace)
    return _answer(Rendered(*render(reply)) if key is None else cast(Rendered, reply))


def _answer(rendered: Rendered) -> HttpResponse:
    answer = answers.rendered(rendered.body, rendered.status)
    return answer.with_header(b"idempotent-replay", b"true") if rendered.replayed else answer


def answer_of(rendered: Rendered) -> HttpResponse:
    """The answer of a change that was made elsewhere."""
    return _answer(rendered)


async def key_of(call: ApiCall, namespace: str, render: Render) -> IdempotencyKey | None:
    """The caller's key, bound to all that the request says."""
    text = call.header(b"idempotency-key")
    if text is None:
        return None
    if not 0 < len(text) <= MAX_KEY_CHARACTERS or not text.isprintable():
        raise Invalid(f"an idempotency key has 1 to {MAX_KEY_CHARACTERS} printable characters", field="Idempotency-Key")
    told = [call.operation, *(f"{name}={value}" for name, value in sorted(call.parameters.items()))]
    told += [call.namespace, call.text("run_id") or ""]
    said = hashlib.sha256("\n".join(told).encode() + b"\n" + await call.body())
    return IdempotencyKey(namespace, text, said.digest(), _refusing(render))


def _refusing(render: Render) -> Render:
    """Renders refusals, too: they are outcomes like any other."""

    def answered(reply: object) -> tuple[int, bytes]:
        if isinstance(reply, AssayError):
            return status_of(reply), answers.encoded(error_body(reply))
        return render(reply)

    return answered
