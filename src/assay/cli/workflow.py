"""`assay workflow`: start, list, read, signal, end and wait for runs."""

import sys
from typing import Any, Final

import click
from click.core import ParameterSource

from assay.cli.arguments import (
    ATTRIBUTES,
    DEFAULT_QUEUE,
    JSON,
    JSON_FORMS,
    JSON_OBJECT,
    LISTED_STATUS,
    NAME,
    SECONDS,
    STATUS,
    STATUSES,
    merged,
)
from assay.cli.command_errors import FAILED, TIMED_OUT, CommandError, print_error
from assay.cli.explaining import ID, RUN_ID, explain
from assay.cli.listing import all_pages, hint, keep_showing, matching
from assay.cli.options import RemoteGroup, global_options
from assay.cli.sending import MESSAGES, signal, update
from assay.cli.session import CliSession, connected
from assay.cli.tables import CHAIN, CHILDREN, RUNS, EventNames
from assay.cli.waiting import RunWatcher, history
from assay.cli.watching import watch
from assay.core.model.errors import Invalid
from assay.sdk.client.requester import requester

DEFAULT_WAIT_SECONDS: Final = 300.0
CONFLICTS: Final = ("fail", "use_existing", "terminate_existing")
REUSES: Final = ("allow_duplicate", "allow_duplicate_failed_only", "reject_duplicate")

_id, _run_id = ID, RUN_ID


@click.group(cls=RemoteGroup)
@global_options
def workflow() -> None:
    """Start, watch and control workflows.

    \b
    Examples:
      assay workflow start --type Deploy --id deploy-7 --input '{"target": "staging"}'
      assay workflow list --status running
      assay workflow signal deploy-7 approve '{"by": "alice"}'
      assay workflow wait deploy-7 --timeout 5m
    """


workflow.add_command(explain)
workflow.add_command(watch)


# start


@workflow.command()
@click.option("--type", "workflow_type", metavar="TYPE", type=NAME, required=True, help="Workflow type.")
@click.option("--id", "workflow_id", metavar="ID", type=NAME, help="Workflow id.  [default: generated]")
@click.option("--input", "input", metavar="JSON", type=JSON, help=f"Input. {JSON_FORMS}")
@click.option("--queue", "task_queue", metavar="QUEUE", default=DEFAULT_QUEUE, show_default=True, help="Task queue.")
@click.option(
    "--search-attrs",
    "search_attributes",
    metavar="ATTRS",
    type=ATTRIBUTES,
    multiple=True,
    callback=merged,
    help="Search attributes: key=value, or JSON.",
)
@click.option("--memo", metavar="JSON", type=JSON_OBJECT, help="Memo: shown, but not searchable.")
@click.option("--args", metavar="JSON", type=JSON, help="Several arguments, in place of --input: a JSON list.")
@MESSAGES
@click.option("--context", metavar="JSON", type=JSON_OBJECT, help="Values that all work of the run can read.")
@click.option("--priority", metavar="N", type=click.IntRange(1, 5), help="From 1, the first, to 5.  [default: 3]")
@click.option("--delay", "start_delay", metavar="TIME", type=SECONDS, help="Delay of the start: 90, or 1h30m.")
@click.option("--run-timeout", metavar="TIME", type=SECONDS, help="Time limit of a run.")
@click.option("--execution-timeout", metavar="TIME", type=SECONDS, help="Time limit of the whole chain of runs.")
@click.option("--task-timeout", metavar="TIME", type=SECONDS, help="Time limit of a workflow task.")
@click.option(
    "--conflict",
    "id_conflict_policy",
    metavar="POLICY",
    type=click.Choice(CONFLICTS, case_sensitive=False),
    help=f"Policy if the id has an open run: {', '.join(CONFLICTS)}.  [default: fail]",
)
@click.option(
    "--reuse",
    "id_reuse_policy",
    metavar="POLICY",
    type=click.Choice(REUSES, case_sensitive=False),
    help=f"Policy if the id has a closed run: {', '.join(REUSES)}.  [default: allow_duplicate]",
)
@click.option("--retry", "retry_policy", metavar="JSON", type=JSON_OBJECT, help="Retry policy of the whole workflow.")
@click.option("--cron", "cron_schedule", metavar="EXPR", help="Repeat the workflow at these times, as a chain of runs.")
@click.option("--summary", metavar="TEXT", help="Short description of the run.")
@click.option("--request-id", metavar="TEXT", help="Starts with the same request id start only one run.")
@click.option("--wait", is_flag=True, help="Wait until the workflow is closed, and print its result.")
@click.option(
    "--timeout",
    metavar="TIME",
    type=SECONDS,
    default=DEFAULT_WAIT_SECONDS,
    help="Time limit of --wait.  [default: 300]",
)
@connected
def start(session: CliSession, /, wait: bool, timeout: float, **fields: Any) -> None:
    """Start a workflow, and print its ids.

    \b
    Examples:
      assay workflow start --type Report
      assay workflow start --type Deploy --id deploy-7 --queue deploys --input @order.json
      assay workflow start --type Order --id order-1 --conflict use_existing --run-timeout 1h
      assay workflow start --type Counter --message increment=3 --message finish
      echo '{"n": 1}' | assay workflow start --type Count --input - --wait

    Exit codes with --wait: 0 completed, 1 closed in another way, 2 still open at the time limit.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    started = session.engine.post("workflows", body={"namespace": session.namespace, **given}).document
    if not wait:
        session.printer.record(started)
        return
    name = started["workflow_id"]
    outcome = RunWatcher(session.engine, name, timeout).outcome(started["run_id"])
    if outcome is None:
        raise _timed_out(name, timeout)
    session.printer.record(outcome)
    _leave(outcome["status"])


# look


@workflow.command("list")
@click.option(
    "--status",
    metavar="STATUS",
    type=LISTED_STATUS,
    help=f"Only runs with this status: {', '.join(STATUSES).lower()}, open or closed.",
)
@click.option("--stuck", is_flag=True, help="Only stuck runs, which wait for fixed code.")
@click.option("--since", metavar="TIME", type=SECONDS, help="Only runs started in the last TIME: 90, or 1h30m.")
@click.option("--type", "workflow_type", metavar="TYPE", help="Only runs of this type.")
@click.option("--queue", metavar="QUEUE", help="Only runs of this queue.")
@click.option("--parent", metavar="ID", help="Only children of this workflow.")
@click.option("--text", metavar="TEXT", help="Only runs with this text in their id, run id or type.")
@click.option(
    "--change-version", metavar="CHANGE[:N]", help="Only runs that recorded a version of this change, or version N."
)
@click.option(
    "--search-attrs",
    metavar="ATTRS",
    type=ATTRIBUTES,
    multiple=True,
    callback=merged,
    help="Only runs with these search attributes: key=value, may be repeated, or JSON.",
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of runs."
)
@click.option("--offset", metavar="N", type=click.IntRange(0), help="Number of runs to skip.")
@click.option("--watch", is_flag=True, help="Update the list every 2 seconds, until Ctrl-C.")
@connected
def list_runs(session: CliSession, /, limit: int, offset: int | None, watch: bool, **filters: Any) -> None:
    """List runs, newest first.

    \b
    Examples:
      assay workflow list
      assay workflow list --status failed --type Deploy --limit 100
      assay workflow list --status open --since 1h --watch
      assay workflow list --stuck
      assay workflow list --search-attrs customer=cust1 --search-attrs n=5
      assay workflow list --search-attrs '{"env": "prod"}' --output jsonl | jq .id
      assay workflow list --text order- --offset 20
      assay workflow list --status open --change-version payment-v2:1
    """
    if watch:
        keep_showing(session, lambda: matching(session, limit, offset, filters)[0])
        return
    found, total = matching(session, limit, offset, filters)
    session.printer.list(found, RUNS)
    hint(session, len(found) + (offset or 0), total)


@workflow.command()
@_id
@_run_id
@connected
def describe(session: CliSession, workflow_id: str, run_id: str | None) -> None:
    """Show a run: a page on a terminal, JSON otherwise.

    \b
    Examples:
      assay workflow describe deploy-7
      assay workflow describe deploy-7 --output json | jq -r .status
    """
    record = session.engine.get("workflows", workflow_id, run_id=run_id).document
    if not session.printer.for_people:
        session.printer.record(record)
        return
    from assay.cli.pages import run_page

    session.printer.page(run_page(record, session.printer))


@workflow.command()
@_id
@click.argument("name", metavar="[NAME]", required=False, type=NAME, help="Name of a query.  [default: all queries]")
@_run_id
@connected
def state(session: CliSession, workflow_id: str, name: str | None, run_id: str | None) -> None:
    """Show the latest results of a workflow's queries.

    \b
    Examples:
      assay workflow state deploy-7
      assay workflow state deploy-7 pipeline_state
    """
    query = () if name is None else (name,)
    session.printer.record(session.engine.get("workflows", workflow_id, "state", *query, run_id=run_id).document)


@workflow.command()
@_id
@click.option("--follow", is_flag=True, help="Print new events until the run is closed.")
@_run_id
@connected
def events(session: CliSession, workflow_id: str, follow: bool, run_id: str | None) -> None:
    """Show the history of a run.

    \b
    Examples:
      assay workflow events deploy-7
      assay workflow events deploy-7 --follow
      assay workflow events deploy-7 --follow --output jsonl | jq -r .event_type
    """
    if not follow:
        session.printer.list(history(session.engine, workflow_id, run_id), EventNames().columns)
        return
    columns = EventNames().columns
    for event in RunWatcher(session.engine, workflow_id).events(run_id):
        session.printer.event(event, columns)


@workflow.command()
@_id
@_run_id
@connected
def children(session: CliSession, workflow_id: str, run_id: str | None) -> None:
    """List the child workflows of a workflow, oldest first.

    \b
    Example:
      assay workflow children order-1
    """
    session.printer.list(all_pages(session, workflow_id, "children", run_id=run_id), CHILDREN)


@workflow.command()
@_id
@connected
def runs(session: CliSession, workflow_id: str) -> None:
    """List the runs of a workflow id, newest first.

    An id has a new run after each start, retry, cron time and continue-as-new.

    \b
    Example:
      assay workflow runs nightly
    """
    session.printer.list(all_pages(session, workflow_id, "runs"), CHAIN)


@workflow.command()
@_id
@click.option("--wait", "seconds", metavar="TIME", type=SECONDS, help="Wait at most this time until it is closed.")
@_run_id
@connected
def result(session: CliSession, workflow_id: str, seconds: float | None, run_id: str | None) -> None:
    """Show the status, result and error of a workflow.

    \b
    Examples:
      assay workflow result report-3 --output json | jq .result
      assay workflow result report-3 --wait 1m

    Exit codes: 0 completed, or still open without --wait; 1 closed in another way; 2 still open after --wait. See also
    `wait`.
    """
    follow = None if run_id is None else "false"
    if seconds is None:
        answer = session.engine.get("workflows", workflow_id, "result", run_id=run_id, follow=follow)
        session.printer.record(answer.document)
        if answer.status == 200:
            _leave(answer.document["status"])
        return
    outcome = RunWatcher(session.engine, workflow_id, seconds).outcome(run_id, follow=run_id is None)
    if outcome is None:
        raise _timed_out(workflow_id, seconds)
    session.printer.record(outcome)
    _leave(outcome["status"])


@workflow.command()
@_id
@click.option(
    "--timeout",
    metavar="TIME",
    type=SECONDS,
    default=DEFAULT_WAIT_SECONDS,
    help="Time limit of the wait: seconds, or 1h30m.  [default: 300]",
)
@click.option("--target", metavar="STATUS", type=STATUS, help="Wait until the workflow has this status.")
@connected
def wait(session: CliSession, workflow_id: str, timeout: float, target: str | None) -> None:
    """Wait until a workflow is closed.

    \b
    Examples:
      assay workflow wait deploy-7 --timeout 300 && echo deployed
      assay workflow wait deploy-7 --target running --timeout 10

    Exit codes: 0 completed, or the --target is reached; 1 failed, cancelled or timed out; 2 the time limit was reached.
    """
    watch = RunWatcher(session.engine, workflow_id, timeout)
    if target is not None:
        record = watch.status(target)
    else:
        outcome = watch.outcome()
        record = outcome and session.engine.get("workflows", workflow_id, run_id=outcome["run_id"]).document
    if record is None:
        raise _timed_out(workflow_id, timeout)
    if session.printer.output == "table":
        session.printer.sentence(f"{workflow_id} {record['status']}")
    else:
        session.printer.record(record)
    if target is None:
        _leave(record["status"])


def _timed_out(workflow_id: str, seconds: float) -> click.exceptions.Exit:
    print_error(f"timed out after {seconds:g} s waiting for {workflow_id}")
    return click.exceptions.Exit(TIMED_OUT)


def _leave(status: str) -> None:
    """Exit with code 1 for a run that closed with another status than COMPLETED."""
    if status != "COMPLETED":
        raise click.exceptions.Exit(FAILED)


# control


workflow.add_command(signal)
workflow.add_command(update)


@workflow.command()
@_id
@click.option("--reason", metavar="TEXT", help="Reason, which the workflow can read.")
@click.option("--deadline", metavar="TIME", type=SECONDS, help="Terminate the run if it is still open after this time.")
@_run_id
@connected
def cancel(
    session: CliSession, workflow_id: str, reason: str | None, deadline: float | None, run_id: str | None
) -> None:
    """Cancel a workflow. Its code may clean up first.

    \b
    Examples:
      assay workflow cancel deploy-7
      assay workflow cancel deploy-7 --reason 'wrong branch' --deadline 1m
    """
    given = {name: value for name, value in (("reason", reason), ("deadline", deadline)) if value is not None}
    session.engine.post("workflows", workflow_id, "cancel", body=given or None, run_id=run_id)
    session.printer.action(f"cancel requested for {workflow_id}")


@workflow.command()
@_id
@click.option("--reason", metavar="TEXT", help="Reason, which becomes the error of the run.")
@_run_id
@connected
def terminate(session: CliSession, workflow_id: str, reason: str | None, run_id: str | None) -> None:
    """End a workflow at once. Its code does not run again.

    \b
    Example:
      assay workflow terminate deploy-7 --reason 'worker is gone for good'
    """
    session.engine.post("workflows", workflow_id, "terminate", body={"reason": reason}, run_id=run_id)
    session.printer.action(f"{workflow_id} terminated")


@workflow.command("continue-as-new")
@_id
@click.option(
    "--input", "input", metavar="JSON", type=JSON, help=f"Input of the new run. {JSON_FORMS}  [default: same input]"
)
@click.option("--new-id", metavar="ID", type=NAME, help="Id of the new run, which starts a new chain.")
@_run_id
@connected
def continue_as_new(session: CliSession, workflow_id: str, input: Any, new_id: str | None, run_id: str | None) -> None:
    """Start a new run with an empty history.

    The new run has the type, queue, search attributes and input of the old run. --input gives it another input. If the
    old run is open, it is closed.

    \b
    Examples:
      assay workflow continue-as-new poller
      assay workflow continue-as-new poller --input '{"cursor": 42}'
    """
    source = click.get_current_context().get_parameter_source("input")
    body: dict[str, Any] = {"input": input}
    if input is None and source is ParameterSource.COMMANDLINE:  # `--input null` is not the same as no --input
        body["keep_input"] = False
    if new_id is not None:
        body["workflow_id"] = new_id
    answer = session.engine.post("workflows", workflow_id, "continue-as-new", body=body, run_id=run_id)
    session.printer.record(answer.document)


@workflow.command()
@_id
@click.option("--reason", metavar="TEXT", type=NAME, required=True, help="Reason, which is recorded.")
@click.option("--requested-by", metavar="WHO", type=NAME, help="Name that is recorded.  [default: user@host]")
@click.option("--from-seq", metavar="N", type=int, help="The last event to keep; see `events`.")
@click.option("--yes", is_flag=True, help="Drop activities and steps without confirmation.")
@_run_id
@connected
def retry(
    session: CliSession,
    workflow_id: str,
    reason: str,
    requested_by: str | None,
    from_seq: int | None,
    yes: bool,
    run_id: str | None,
) -> None:
    """Continue a workflow that failed, timed out or was cancelled.

    A new run copies the history of the closed run, and continues from its last event with the current code. An activity
    whose failure ended the run is tried again. Children that ended with the run continue, too.

    \b
    Examples:
      assay workflow retry order-1 --reason 'payment service is back'
      assay workflow retry order-1 --reason 'wrong price' --from-seq 12
    """
    found = session.engine.get("workflows", workflow_id, run_id=run_id).document
    if found.get("retryable"):
        run_id = found["run_id"]
        names = _dropped(history(session.engine, workflow_id, run_id), found["status"], from_seq)
        if names:
            print_error(f"dropped, and repeated only if the code schedules them again: {', '.join(names)}")
        asks = bool(names) and not yes and sys.stdin.isatty() and sys.stderr.isatty()
        if asks and not click.confirm(f"Retry {workflow_id}?", err=True):
            raise CommandError("nothing was retried")
    body = {"requested_by": requested_by or requester(), "reason": reason, "from_seq": from_seq}
    session.printer.record(session.engine.post("workflows", workflow_id, "retry", body=body, run_id=run_id).document)


def _dropped(events: list[dict[str, Any]], status: str, from_seq: int | None) -> list[str]:
    """Return the names of the activities and steps that the new run drops; none for an invalid `from_seq`."""
    # Imported for this command only: without these modules, other commands start in half the time.
    from assay.core.codec import decode
    from assay.core.model.events import Recorded
    from assay.core.rules.retry_cut import cut_of, dropped_names
    from assay.wire.parse import parse_event

    recorded = [
        Recorded(event.seq, event.time, decode(event.kind, event.payload, event.data))
        for event in map(parse_event, events)
    ]
    try:
        return dropped_names(recorded, cut_of(status, recorded, from_seq))
    except Invalid:
        return []
