"""`assay workflow`: start runs, look at them, talk to them, end them, wait for them."""

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
from assay.cli.listing import all_pages, hint, keep_showing, matching
from assay.cli.options import RemoteGroup, global_options
from assay.cli.session import CliSession, connected
from assay.cli.suggestions import workflow_ids
from assay.cli.tables import CHAIN, CHILDREN, RUNS, EventNames
from assay.cli.waiting import RunWatcher, history
from assay.core.model.errors import Invalid
from assay.sdk.client.requester import requester

DEFAULT_WAIT_SECONDS: Final = 300.0
CONFLICTS: Final = ("fail", "use_existing", "terminate_existing")
REUSES: Final = ("allow_duplicate", "allow_duplicate_failed_only", "reject_duplicate")

_id = click.argument("workflow_id", metavar="ID", type=NAME, shell_complete=workflow_ids, help="Workflow id.")
_run_id = click.option("--run-id", metavar="RUN", help="Another run of the id than the newest one; see `runs`.")


@click.group(cls=RemoteGroup)
@global_options
def workflow() -> None:
    """Start, watch and steer workflows.

    \b
    Examples:
      assay workflow start --type Deploy --id deploy-7 --input '{"target": "staging"}'
      assay workflow list --status running
      assay workflow signal deploy-7 approve '{"by": "alice"}'
      assay workflow wait deploy-7 --timeout 5m
    """


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
@click.option("--memo", metavar="JSON", type=JSON_OBJECT, help="Notes that are shown, but not searched.")
@click.option("--delay", "start_delay", metavar="TIME", type=SECONDS, help="Begin later: 90, or 1h30m.")
@click.option("--run-timeout", metavar="TIME", type=SECONDS, help="Longest time for one run.")
@click.option("--execution-timeout", metavar="TIME", type=SECONDS, help="Longest time for the whole chain of runs.")
@click.option("--task-timeout", metavar="TIME", type=SECONDS, help="Longest time for one workflow task.")
@click.option(
    "--conflict",
    "id_conflict_policy",
    metavar="POLICY",
    type=click.Choice(CONFLICTS, case_sensitive=False),
    help=f"If the id has an open run: {', '.join(CONFLICTS)}.  [default: fail]",
)
@click.option(
    "--reuse",
    "id_reuse_policy",
    metavar="POLICY",
    type=click.Choice(REUSES, case_sensitive=False),
    help=f"If the id has a closed run: {', '.join(REUSES)}.  [default: allow_duplicate]",
)
@click.option("--retry", "retry_policy", metavar="JSON", type=JSON_OBJECT, help="Retry policy of the whole workflow.")
@click.option("--cron", "cron_schedule", metavar="EXPR", help="Run again and again, as one chain.")
@click.option("--summary", metavar="TEXT", help="One line for people.")
@click.option("--request-id", metavar="TEXT", help="The same start twice with the same text starts once.")
@click.option("--wait", is_flag=True, help="Stay until it has closed, and print its result.")
@click.option(
    "--timeout", metavar="TIME", type=SECONDS, default=DEFAULT_WAIT_SECONDS, help="Longest --wait.  [default: 300]"
)
@connected
def start(session: CliSession, /, wait: bool, timeout: float, **fields: Any) -> None:
    """Start a workflow, and print its ids.

    \b
    Examples:
      assay workflow start --type Report
      assay workflow start --type Deploy --id deploy-7 --queue deploys --input @order.json
      assay workflow start --type Order --id order-1 --conflict use_existing --run-timeout 1h
      echo '{"n": 1}' | assay workflow start --type Count --input - --wait

    With --wait the exit code is 0 if the workflow completed, 1 if it did not, 2 if it was still open.
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
    help=f"Only runs that are {', '.join(STATUSES).lower()}; open or closed.",
)
@click.option("--stuck", is_flag=True, help="Only runs that wait for a fix.")
@click.option("--since", metavar="TIME", type=SECONDS, help="Only runs that were started in this time: 90, or 1h30m.")
@click.option("--type", "workflow_type", metavar="TYPE", help="Only runs of this type.")
@click.option("--queue", metavar="QUEUE", help="Only runs of this queue.")
@click.option("--parent", metavar="ID", help="Only children of this workflow.")
@click.option("--text", metavar="TEXT", help="Only runs with this text in their id, run id or type.")
@click.option(
    "--search-attrs",
    metavar="ATTRS",
    type=ATTRIBUTES,
    multiple=True,
    callback=merged,
    help="Only runs with all these: key=value, which may be repeated, or JSON.",
)
@click.option("--limit", metavar="N", type=click.IntRange(1), default=20, show_default=True, help="How many at most.")
@click.option("--offset", metavar="N", type=click.IntRange(0), help="How many to leave out.")
@click.option("--watch", is_flag=True, help="Stay, and show the list anew every 2 seconds, until Ctrl-C.")
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
    """Show all that is known of a run: a page on a terminal, JSON elsewhere.

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
@click.argument("name", metavar="[NAME]", required=False, type=NAME, help="One query.  [default: all]")
@_run_id
@connected
def state(session: CliSession, workflow_id: str, name: str | None, run_id: str | None) -> None:
    """Show what the queries of a workflow answer.

    \b
    Examples:
      assay workflow state deploy-7
      assay workflow state deploy-7 pipeline_state
    """
    query = () if name is None else (name,)
    session.printer.record(session.engine.get("workflows", workflow_id, "state", *query, run_id=run_id).document)


@workflow.command()
@_id
@click.option("--follow", is_flag=True, help="Stay, and print events as they come, until the run has closed.")
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
    """List its child workflows, oldest first.

    \b
    Example:
      assay workflow children order-1
    """
    session.printer.list(all_pages(session, workflow_id, "children", run_id=run_id), CHILDREN)


@workflow.command()
@_id
@connected
def runs(session: CliSession, workflow_id: str) -> None:
    """List the runs of an id, newest first.

    A new start of the id makes one, and so do retries, cron and continue-as-new.

    \b
    Example:
      assay workflow runs nightly
    """
    session.printer.list(all_pages(session, workflow_id, "runs"), CHAIN)


@workflow.command()
@_id
@click.option("--wait", "seconds", metavar="TIME", type=SECONDS, help="If it is open, wait so long for it to close.")
@_run_id
@connected
def result(session: CliSession, workflow_id: str, seconds: float | None, run_id: str | None) -> None:
    """Show how a workflow ended: status, result, error.

    \b
    Examples:
      assay workflow result report-3 --output json | jq .result
      assay workflow result report-3 --wait 1m

    Exit codes: 0 it completed, or is still open and there is no --wait; 1 it ended in any other way; 2 --wait was
    too short. See also `wait`.
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
    help="Longest wait: seconds, or 1h30m.  [default: 300]",
)
@click.option("--target", metavar="STATUS", type=STATUS, help="Wait for this status, whatever else happens.")
@connected
def wait(session: CliSession, workflow_id: str, timeout: float, target: str | None) -> None:
    """Stay until a workflow has closed.

    \b
    Examples:
      assay workflow wait deploy-7 --timeout 300 && echo deployed
      assay workflow wait deploy-7 --target running --timeout 10

    Exit codes: 0 it completed, or has the --target; 1 it failed, was cancelled or timed out; 2 the wait was too short.
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
    """With the exit code of a run that ended so."""
    if status != "COMPLETED":
        raise click.exceptions.Exit(FAILED)


# steer


@workflow.command()
@_id
@click.argument("name", metavar="NAME", type=NAME, help="Name of the signal.")
@click.argument("payload", metavar="[PAYLOAD]", required=False, type=JSON, help=JSON_FORMS)
@_run_id
@connected
def signal(session: CliSession, workflow_id: str, name: str, payload: Any, run_id: str | None) -> None:
    """Send a signal to an open workflow.

    \b
    Examples:
      assay workflow signal deploy-7 approve
      assay workflow signal deploy-7 approve '{"by": "alice"}'
      assay workflow signal deploy-7 order @order.json
    """
    session.engine.post("workflows", workflow_id, "signal", name, body={"payload": payload}, run_id=run_id)
    session.printer.action(f"signal '{name}' sent to {workflow_id}")


@workflow.command()
@_id
@click.option("--reason", metavar="TEXT", help="Why; the workflow can read it.")
@click.option("--deadline", metavar="TIME", type=SECONDS, help="Terminate it if it has not closed by then.")
@_run_id
@connected
def cancel(
    session: CliSession, workflow_id: str, reason: str | None, deadline: float | None, run_id: str | None
) -> None:
    """Ask a workflow to end: it may clean up first.

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
@click.option("--reason", metavar="TEXT", help="Why; it becomes the run's error.")
@_run_id
@connected
def terminate(session: CliSession, workflow_id: str, reason: str | None, run_id: str | None) -> None:
    """End a workflow at once, without asking its code.

    \b
    Example:
      assay workflow terminate deploy-7 --reason 'worker is gone for good'
    """
    session.engine.post("workflows", workflow_id, "terminate", body={"reason": reason}, run_id=run_id)
    session.printer.action(f"{workflow_id} terminated")


@workflow.command("continue-as-new")
@_id
@click.option(
    "--input", "input", metavar="JSON", type=JSON, help=f"Input of the new run. {JSON_FORMS}  [default: as before]"
)
@click.option("--new-id", metavar="ID", type=NAME, help="Begin a chain of its own under this id.")
@_run_id
@connected
def continue_as_new(session: CliSession, workflow_id: str, input: Any, new_id: str | None, run_id: str | None) -> None:
    """Begin a new run with an empty history.

    It has the type, queue and search attributes of this one, which ends if it is open, and its input unless
    there is --input.

    \b
    Examples:
      assay workflow continue-as-new poller
      assay workflow continue-as-new poller --input '{"cursor": 42}'
    """
    source = click.get_current_context().get_parameter_source("input")
    body: dict[str, Any] = {"input": input}
    if input is None and source is ParameterSource.COMMANDLINE:  # a null that was typed, unlike no input at all
        body["keep_input"] = False
    if new_id is not None:
        body["workflow_id"] = new_id
    answer = session.engine.post("workflows", workflow_id, "continue-as-new", body=body, run_id=run_id)
    session.printer.record(answer.document)


@workflow.command()
@_id
@click.option("--reason", metavar="TEXT", type=NAME, required=True, help="Why; it is recorded.")
@click.option("--requested-by", metavar="WHO", type=NAME, help="Who asks for it.  [default: user@host]")
@click.option("--from-seq", metavar="N", type=int, help="The last event to keep; see `events`.")
@click.option("--yes", is_flag=True, help="Do not ask before activities or steps are dropped.")
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
    """Let a workflow that failed, timed out or was cancelled go on.

    A new run takes over its history up to the end, and fixed code goes on from there. An activity whose failure
    ended the run is tried again. Children that ended with the run go on as well.

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
            print_error(f"dropped, and done again only if the code asks for it: {', '.join(names)}")
        asks = bool(names) and not yes and sys.stdin.isatty() and sys.stderr.isatty()
        if asks and not click.confirm(f"Retry {workflow_id}?", err=True):
            raise CommandError("nothing was retried")
    body = {"requested_by": requested_by or requester(), "reason": reason, "from_seq": from_seq}
    session.printer.record(session.engine.post("workflows", workflow_id, "retry", body=body, run_id=run_id).document)


def _dropped(events: list[dict[str, Any]], status: str, from_seq: int | None) -> list[str]:
    """Return the names of the activities and steps that the new run will not have; the engine checks the request."""
    # Imported for this command alone: the others start in half the time without them.
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
