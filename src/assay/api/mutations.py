"""Changes over HTTP: decided once per `Idempotency-Key`, with the same response for each repetition."""

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
    """Render any reply as success without a body."""
    return 200, b""


async def report(
    backend: Backend, call: ApiCall, namespace: str, request: Request, render: Render = nothing
) -> HttpResponse:
    """Submit a worker's request, and return the response when the outcome is durable. Workers are never rejected."""
    key = await key_of(call, namespace, render)
    reply = await backend.engine.submit(request, key)
    return _answer(Rendered(*render(reply)) if key is None else cast(Rendered, reply))


async def change(
    backend: Backend, call: ApiCall, namespace: str, request: Request, render: Render = nothing
) -> HttpResponse:
    """Submit a caller's request, and return the response when the outcome is durable.

    Raises:
        NamespaceBusy: The namespace has reached its limit of waiting requests.
    """
    key = await key_of(call, namespace, render)
    # A request rejected here is not recorded under its key: the same key has its effect when sent again later.
    audit = None if backend.auditor is None else backend.auditor.note(call, namespace, request)
    with backend.admission.admit(namespace):
        reply = await backend.engine.submit(request, key, caller=namespace, audit=audit)
    return _answer(Rendered(*render(reply)) if key is None else cast(Rendered, reply))


def _answer(rendered: Rendered) -> HttpResponse:
    answer = answers.rendered(rendered.body, rendered.status)
    return answer.with_header(b"idempotent-replay", b"true") if rendered.replayed else answer


def answer_of(rendered: Rendered) -> HttpResponse:
    """Return the response for a rendered outcome."""
    return _answer(rendered)


async def key_of(call: ApiCall, namespace: str, render: Render) -> IdempotencyKey | None:
    """Return the caller's idempotency key with a digest of the request, or None without a key.

    The digest lets the engine refuse a key that is used again for a different request.
    """
    text = call.header(b"idempotency-key")
    if text is None:
        return None
    if not 0 < len(text) <= MAX_KEY_CHARACTERS or not text.isprintable():
        raise Invalid(f"an idempotency key has 1 to {MAX_KEY_CHARACTERS} printable characters", field="Idempotency-Key")
    target = [call.operation, *(f"{name}={value}" for name, value in sorted(call.parameters.items()))]
    target += [call.namespace, call.text("run_id") or ""]
    request_hash = hashlib.sha256("\n".join(target).encode() + b"\n" + await call.body())
    return IdempotencyKey(namespace, text, request_hash.digest(), _refusing(render))


def _refusing(render: Render) -> Render:
    """Return a function that also renders errors: an error is an outcome, and is repeated like a success."""

    def answered(reply: object) -> tuple[int, bytes]:
        if isinstance(reply, AssayError):
            return status_of(reply), answers.encoded(error_body(reply))
        return render(reply)

    return answered
