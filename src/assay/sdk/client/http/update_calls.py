"""Updates over HTTP."""

from typing import Any

import msgspec

from assay.core.model.errors import Kind
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId
from assay.core.model.payload import NULL, Payload
from assay.core.model.update_states import UpdateState
from assay.sdk.client.http.calls import Calls
from assay.sdk.client.http.http1 import path_of, query_of
from assay.sdk.ports import Target

_encode = msgspec.json.Encoder().encode


class FailureBody(msgspec.Struct):
    """The failure in the answer to an update."""

    kind: str = "UNKNOWN"
    message: str = ""
    retryable: bool | None = None
    details: Payload = NULL
    type: str | None = None


class UpdateAnswerBody(msgspec.Struct):
    """The answer to an update."""

    update_id: str
    status: str
    result: Payload = NULL
    failure: FailureBody | None = None


async def send_update(
    calls: Calls, target: Target, name: str, args: tuple[Payload, ...], update_id: str, seconds: float
) -> UpdateState:
    """Send an update and wait some seconds for its outcome; a repetition is the same update by its id."""
    query = query_of({"namespace": target.namespace, "run_id": target.run_id, "wait_secs": f"{seconds:g}"})
    body: dict[str, Any] = {"args": list(args), "update_id": update_id}
    path = f"{path_of('workflows', target.workflow_id, 'update', name)}{query}"
    answer = msgspec.json.decode(await calls.call("POST", path, _encode(body)), type=UpdateAnswerBody)
    found = answer.failure
    failure = None
    if found is not None:
        failure = FailureInfo(
            kind=Kind.parse(found.kind),
            message=found.message,
            retryable=found.retryable,
            details=found.details,
            type=found.type,
        )
    return UpdateState(RunId(target.run_id or ""), answer.update_id, answer.status, answer.result, failure)
