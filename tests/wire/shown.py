"""The builders of answers, with the records that users get for what they build."""

from collections.abc import Callable
from typing import Any

from assay.embedded.records import user_record
from assay.wire import render


def _shown(build: Callable[..., Any]) -> Callable[..., Any]:
    def record(*arguments: Any) -> Any:
        answer = build(*arguments)
        return None if answer is None else user_record(answer)

    return record


event_record = _shown(render.event_record)
failure_record = _shown(render.failure_record)
run_record = _shown(render.run_record)
start_record = _shown(render.start_record)
state_record = _shown(render.state_record)
