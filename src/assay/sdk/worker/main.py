"""The main coroutine of a run: decode the input, create the ctx, call the handler."""

from typing import Any

from assay.core.model.payload import Payload
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.replay.blocking import run_blocking
from assay.sdk.workflow.replay.runtime import Execution
from assay.sdk.workflow.replay_context import ReplayContext


async def main(execution: Execution, input: Payload) -> Any:
    """Run the handler; its end ends the turn, so that no other task of the run executes afterwards."""
    try:
        return await _call(execution, input)
    finally:
        execution.loop.pause()


async def _call(execution: Execution, input: Payload) -> Any:
    definition = execution.definition
    signature = definition.signature
    value = signature.value_of(input, execution.converter)
    context = ReplayContext(execution)
    if signature.is_async:
        args, named = signature.arguments(context, value)
        return await definition.function(*args, **named)
    args, named = signature.arguments(BlockingContext(context), value)
    return await run_blocking(definition.function, *args, **named)
