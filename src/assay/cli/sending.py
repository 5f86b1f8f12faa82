"""`assay workflow signal` and `update`: messages to open workflows, and the messages of a start."""

import os
import time
from collections.abc import Sequence
from typing import Any, Final

import click

from assay.cli.arguments import JSON, JSON_FORMS, NAME, SECONDS
from assay.cli.command_errors import FAILED, TIMED_OUT, print_error
from assay.cli.explaining import ID, RUN_ID
from assay.cli.options import RemoteCommand
from assay.cli.session import CliSession, connected

ANSWER_HOLD_SECONDS: Final = 20.0
"""The longest time that one request waits for an answer; less than the time limit of a request."""
UPDATE_SECONDS: Final = 300.0
STAGES: Final = ("accepted", "completed")


class TopicMessage(click.ParamType[dict[str, Any]]):
    """A message: `TOPIC`, or `TOPIC=JSON`."""

    name = "message"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """Return the message as a start takes it."""
        topic, separator, text = str(value).partition("=")
        if not topic:
            self.fail("needs a topic: TOPIC, or TOPIC=JSON", param, ctx)
        return {"name": topic, "payload": JSON.convert(text, param, ctx)} if separator else {"name": topic}


class JsonList(click.ParamType[list[Any]]):
    """A JSON list."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        """Return the list."""
        found = JSON.convert(value, param, ctx)
        if not isinstance(found, list):
            self.fail("must be a JSON list", param, ctx)
        return found


def or_none(context: click.Context, parameter: click.Parameter, values: Sequence[Any]) -> Any:
    """Return the values of a repeated option as a list, or None without options."""
    return list(values) or None


MESSAGES: Final = click.option(
    "--message",
    "signals",
    metavar="TOPIC[=JSON]",
    type=TopicMessage(),
    multiple=True,
    callback=or_none,
    help="Message that the run has received when it starts; may be repeated.",
)
_args: Final = click.option("--args", metavar="JSON", type=JsonList(), help="Several payloads: a JSON list.")


@click.command(cls=RemoteCommand)
@ID
@click.argument("name", metavar="NAME", type=NAME, help="Name of the signal.")
@click.argument("payload", metavar="[PAYLOAD]", required=False, type=JSON, help=JSON_FORMS)
@_args
@click.option("--from", "sender", metavar="ADDR", type=NAME, help="Address of the sender, for replies.")
@RUN_ID
@connected
def signal(
    session: CliSession,
    workflow_id: str,
    name: str,
    payload: Any,
    args: list[Any] | None,
    sender: str | None,
    run_id: str | None,
) -> None:
    """Send a signal to an open workflow.

    \b
    Examples:
      assay workflow signal deploy-7 approve
      assay workflow signal deploy-7 approve '{"by": "alice"}'
      assay workflow signal deploy-7 order @order.json
      assay workflow signal counter-1 add --args '[3, "apples"]' --from wf://main/shop-1
    """
    _check_only_one(payload, args)
    body: dict[str, Any] = {"payload": payload} if args is None else {"args": args}
    if sender is not None:
        body["from"] = sender
    session.engine.post("workflows", workflow_id, "signal", name, body=body, run_id=run_id)
    session.printer.action(f"signal '{name}' sent to {workflow_id}")


@click.command(cls=RemoteCommand)
@ID
@click.argument("name", metavar="NAME", type=NAME, help="Name of the update.")
@click.argument("payload", metavar="[PAYLOAD]", required=False, type=JSON, help=JSON_FORMS)
@_args
@click.option(
    "--wait",
    "stage",
    metavar="STAGE",
    type=click.Choice(STAGES, case_sensitive=False),
    default="completed",
    show_default=True,
    help="Wait until the update is accepted, or completed.",
)
@click.option(
    "--timeout", metavar="TIME", type=SECONDS, default=UPDATE_SECONDS, help="Time limit of the wait.  [default: 300]"
)
@click.option(
    "--update-id", metavar="TEXT", type=NAME, help="Updates of a run with the same id are one.  [default: generated]"
)
@RUN_ID
@connected
def update(
    session: CliSession,
    /,
    workflow_id: str,
    name: str,
    payload: Any,
    args: list[Any] | None,
    timeout: float,
    update_id: str | None,
    **options: Any,
) -> None:
    """Send an update to an open workflow, and print its answer.

    An update is a message with an answer: the workflow accepts or rejects it, and then completes or fails it.

    \b
    Examples:
      assay workflow update counter-1 increment 3
      assay workflow update counter-1 increment 3 --output json | jq .result
      assay workflow update order-1 change '{"address": "Rome"}' --wait accepted
      assay workflow update order-1 change @address.json --update-id change-17 --timeout 1m

    Exit codes: 0 completed, or accepted with --wait accepted; 1 rejected or failed; 2 no answer at the time limit, and
    the same --update-id waits again.
    """
    _check_only_one(payload, args)
    found = args if args is not None else [] if payload is None else [payload]
    body = {"args": found, "update_id": update_id or f"u-{os.urandom(12).hex()}", "wait": options["stage"]}
    answer = _answer(session, (workflow_id, "update", name), body, timeout, options["run_id"])
    if answer is None:
        print_error(f"timed out after {timeout:g} s waiting for update {body['update_id']} of {workflow_id}")
        raise click.exceptions.Exit(TIMED_OUT)
    session.printer.record(answer)
    if answer["status"] not in STAGES:
        raise click.exceptions.Exit(FAILED)


def _answer(
    session: CliSession, path: tuple[str, ...], body: dict[str, Any], timeout: float, run_id: str | None
) -> dict[str, Any] | None:
    """Send an update until the engine has the answer; return None at the time limit."""
    end = time.monotonic() + timeout
    while True:
        left = max(0.0, min(ANSWER_HOLD_SECONDS, end - time.monotonic()))
        found = session.engine.post("workflows", *path, body=body, run_id=run_id, wait_secs=left)
        answer: dict[str, Any] = found.document
        if found.status == 200:
            return answer
        if time.monotonic() >= end:
            return None


def _check_only_one(payload: Any, args: list[Any] | None) -> None:
    if payload is not None and args is not None:
        raise click.UsageError("give a payload or --args, not both", click.get_current_context())
