"""`assay schedule`: workflows that start by the clock."""

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from typing import Any, Final, TypeVar

import click

from assay.cli.arguments import (
    ATTRIBUTES,
    DEFAULT_QUEUE,
    JSON,
    JSON_FORMS,
    JSON_OBJECT,
    MOMENT,
    NAME,
    OVERLAPS,
    SECONDS,
    merged,
)
from assay.cli.options import RemoteGroup, global_options
from assay.cli.render import Column
from assay.cli.session import CliSession, connected
from assay.cli.suggestions import schedule_names

SCHEDULES: Final = (
    Column("NAME", "name"),
    Column("TYPE", "workflow_type"),
    Column("CRON", "cron_expr"),
    Column("TZ", "timezone"),
    Column("PAUSED", "paused"),
    Column("NEXT", "next_run_at", is_time=True),
    Column("LAST", "last_run_at", is_time=True),
)
FIRES: Final = (
    Column("DUE", "due_at", is_time=True, zone=UTC),  # the distance alone would not tell two fires apart
    Column("OUTCOME", "outcome"),
    Column("WORKFLOW", "workflow_id"),
    Column("REASON", "reason"),
)

MISSED: Final = ("skip", "last", "all")
DST: Final = ("skip", "shift", "both")
CLEARABLE: Final = ("input", "end_at", "remaining", "search_attributes", "memo")

F = TypeVar("F", bound=Callable[..., Any])


def _choice(*names: str, choices: Sequence[str], help: str, metavar: str = "POLICY", **more: Any) -> Callable[[F], F]:
    kind = click.Choice(choices, case_sensitive=False)
    return click.option(*names, metavar=metavar, type=kind, help=f"{help}: {', '.join(choices)}.", **more)


_name = click.argument("name", metavar="NAME", type=NAME, shell_complete=schedule_names, help="Name of the schedule.")
_overlap = _choice("--overlap", "overlap_policy", choices=OVERLAPS, help="If the last run is still open")
_DETAILS: Final = (
    click.option("--timezone", metavar="ZONE", help="IANA time zone.  [default: UTC]"),
    click.option("--input", "input", metavar="JSON", type=JSON, help=f"Input of each run. {JSON_FORMS}"),
    _overlap,
    _choice("--missed", choices=MISSED, help="Which fires to make up for after an outage"),
    click.option("--window", "window_secs", metavar="TIME", type=SECONDS, help="How late they may be.  [default: 1h]"),
    click.option("--jitter", "jitter_secs", metavar="TIME", type=SECONDS, help="Spread the fires over this time."),
    _choice("--dst", choices=DST, help="Local times that a change of the clocks drops or repeats"),
    click.option("--end-at", metavar="TIME", type=MOMENT, help="No fire after it: 2026-01-31T12:00:00Z."),
    click.option("--remaining", metavar="N", type=click.IntRange(0), help="How many more runs to start."),
    click.option(
        "--search-attrs",
        "search_attributes",
        metavar="ATTRS",
        type=ATTRIBUTES,
        multiple=True,
        callback=merged,
        help="Of each run: key=value, or JSON.",
    ),
    click.option("--memo", metavar="JSON", type=JSON_OBJECT, help="Notes that each run shows."),
)


def _definition(command: F) -> F:
    """The options of a whole definition."""
    for option in reversed(
        (
            click.option(
                "--type", "workflow_type", metavar="TYPE", type=NAME, required=True, help="Workflow type to start."
            ),
            click.option("--cron", "cron_expr", metavar="EXPR", required=True, help="When: cron, @daily, @every 10m."),
            click.option(
                "--queue", "task_queue", metavar="QUEUE", default=DEFAULT_QUEUE, show_default=True, help="Task queue."
            ),
            *_DETAILS,
            click.option("--paused", is_flag=True, default=None, help="Fire only once it is resumed."),
        )
    ):
        command = option(command)
    return command


def _details(command: F) -> F:
    """The options that a schedule is created with, and changed by."""
    for option in reversed(_DETAILS):
        command = option(command)
    return command


@click.group(cls=RemoteGroup)
@global_options
def schedule() -> None:
    """Start workflows by the clock.

    \b
    Examples:
      assay schedule create nightly --type Report --cron '0 0 2 * * *' --timezone Europe/Berlin
      assay schedule list
      assay schedule pause nightly

    A cron expression has 5 fields (minute hour day month weekday), or 6 or 7 with seconds first and years last.
    """


@schedule.command("list")
@connected
def list_schedules(session: CliSession) -> None:
    """List the schedules of a namespace, by name.

    \b
    Example:
      assay schedule list
    """
    session.printer.list(session.engine.get("schedules").document, SCHEDULES)


@schedule.command()
@_name
@connected
def describe(session: CliSession, name: str) -> None:
    """Show all that is known of a schedule: a page on a terminal, JSON elsewhere.

    \b
    Example:
      assay schedule describe nightly
    """
    record = session.engine.get("schedules", name).document
    if not session.printer.for_people:
        session.printer.record(record)
        return
    from assay.cli.pages import schedule_page

    session.printer.page(schedule_page(record, session.printer))


@schedule.command()
@click.argument("name", metavar="NAME", type=NAME, help="Name of the schedule.")
@_definition
@connected
def create(session: CliSession, /, name: str, **fields: Any) -> None:
    """Create a schedule.

    \b
    Examples:
      assay schedule create nightly --type Report --cron '0 0 2 * * *' --timezone Europe/Berlin \\
          --input '{"lookback_hours": 24}'
      assay schedule create poll --type Poll --cron '@every 30s' --overlap skip
    """
    body = {"name": name, "namespace": session.namespace, **_given(fields)}
    session.printer.record(session.engine.post("schedules", body=body).document)


@schedule.command()
@click.argument("name", metavar="NAME", type=NAME, shell_complete=schedule_names, help="Name of the schedule.")
@_definition
@connected
def apply(session: CliSession, /, name: str, **fields: Any) -> None:
    """Create a schedule, or replace the definition of the one that has the name.

    Options that are left out have their defaults. What the schedule did before, its waiting fires and a pause stay.

    \b
    Example:
      assay schedule apply nightly --type Report --cron '0 0 2 * * *' --timezone Europe/Berlin
    """
    session.printer.record(session.engine.put("schedules", name, body=_given(fields)).document)


@schedule.command()
@_name
@click.option("--cron", "cron_expr", metavar="EXPR", help="When.")
@click.option("--queue", "task_queue", metavar="QUEUE", help="Task queue.")
@_details
@_choice("--clear", choices=CLEARABLE, metavar="FIELD", multiple=True, help="Field to empty, may be repeated")
@connected
def patch(session: CliSession, /, name: str, **fields: Any) -> None:
    """Change a schedule in place.

    What is not named stays as it is; the next fire is computed anew.

    \b
    Examples:
      assay schedule patch nightly --cron '0 0 3 * * *'
      assay schedule patch nightly --timezone UTC --overlap queue
    """
    changes = _given(fields) | _emptied(fields)
    if not changes:
        options = "--cron, --timezone, --input, --queue, --overlap, ..."
        raise click.UsageError(f"nothing to change: give at least one of {options}")
    session.printer.record(session.engine.patch("schedules", name, body=changes).document)


@schedule.command()
@_name
@click.option("--reason", metavar="TEXT", help="Why.")
@click.option("--by", metavar="WHO", help="Who wants it.")
@connected
def pause(session: CliSession, name: str, reason: str | None, by: str | None) -> None:
    """Stop a schedule until it is resumed.

    Runs that are open go on.

    \b
    Example:
      assay schedule pause nightly --reason maintenance
    """
    session.engine.post("schedules", name, "pause", body=_given({"reason": reason, "by": by}) or None)
    session.printer.action(f"{name} paused")


@schedule.command()
@_name
@connected
def resume(session: CliSession, name: str) -> None:
    """Let a paused schedule fire again, from now on.

    \b
    Example:
      assay schedule resume nightly
    """
    session.engine.post("schedules", name, "resume")
    session.printer.action(f"{name} resumed")


@schedule.command()
@_name
@connected
def delete(session: CliSession, name: str) -> None:
    """Delete a schedule; runs that it started go on.

    \b
    Example:
      assay schedule delete nightly
    """
    session.engine.delete("schedules", name)
    session.printer.action(f"{name} deleted")


@schedule.command()
@_name
@_overlap
@connected
def trigger(session: CliSession, name: str, overlap_policy: str | None) -> None:
    """Fire a schedule once, now, whatever its times.

    \b
    Example:
      assay schedule trigger nightly
    """
    body = _given({"overlap_policy": overlap_policy}) or None
    session.printer.record(session.engine.post("schedules", name, "trigger", body=body).document)


@schedule.command()
@_name
@click.option("--from", "start", metavar="TIME", type=MOMENT, required=True, help="First moment: 2026-01-31T00:00:00Z.")
@click.option("--to", "end", metavar="TIME", type=MOMENT, required=True, help="Last moment.")
@_overlap
@connected
def backfill(session: CliSession, name: str, start: float, end: float, overlap_policy: str | None) -> None:
    """Fire a schedule for the due times of a range.

    Without --overlap the runs start one after the other, each when the one before has closed.

    \b
    Example:
      assay schedule backfill nightly --from 2026-01-01 --to 2026-01-08 --overlap allow_all
    """
    body = {"start": start, "end": end, **_given({"overlap_policy": overlap_policy})}
    session.printer.list(session.engine.post("schedules", name, "backfill", body=body).document, FIRES)


@schedule.command()
@_name
@click.option("--count", metavar="N", type=click.IntRange(1), default=10, show_default=True, help="How many.")
@connected
def preview(session: CliSession, name: str, count: int) -> None:
    """Show when a schedule will fire next, in its own time zone.

    \b
    Example:
      assay schedule preview nightly --count 5
    """
    times = session.engine.get("schedules", name, "preview", count=count).document
    records = [{"due_at": due} for due in times]
    zone = _zone(session, name) if session.printer.output == "table" else None
    session.printer.list(records, (Column("DUE", "due_at", is_time=True, zone=zone),))


def _zone(session: CliSession, name: str) -> tzinfo:
    """Return the zone of a schedule, or UTC if this machine has no such zone."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(session.engine.get("schedules", name).document["timezone"])
    except (KeyError, ValueError, OSError):
        return UTC


@schedule.command()
@_name
@click.option("--limit", metavar="N", type=click.IntRange(1), default=20, show_default=True, help="How many at most.")
@connected
def fires(session: CliSession, name: str, limit: int) -> None:
    """Show what became of its due times, newest first.

    \b
    Example:
      assay schedule fires nightly --limit 5
    """
    session.printer.list(session.engine.get("schedules", name, "fires", limit=limit).document, FIRES)


def _emptied(fields: dict[str, Any]) -> dict[str, Any]:
    """What `--input null` says: no input. The engine takes null alone for a field that is to stay as it is."""
    source = click.get_current_context().get_parameter_source("input")
    if fields["input"] is not None or source is not click.core.ParameterSource.COMMANDLINE:
        return {}
    return {"input": None, "clear": list(dict.fromkeys([*fields["clear"], "input"]))}


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, ())}
