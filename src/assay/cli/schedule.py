"""`assay schedule`: schedules, which start workflows at certain times."""

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
    Column("DUE", "due_at", is_time=True, zone=UTC),  # a relative time alone is the same for several fires
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
_overlap = _choice("--overlap", "overlap_policy", choices=OVERLAPS, help="Policy if the last run is still open")
_DETAILS: Final = (
    click.option("--timezone", metavar="ZONE", help="IANA time zone.  [default: UTC]"),
    click.option("--input", "input", metavar="JSON", type=JSON, help=f"Input of each run. {JSON_FORMS}"),
    _overlap,
    _choice("--missed", choices=MISSED, help="Fires to repeat if the engine was down at their time"),
    click.option(
        "--window", "window_secs", metavar="TIME", type=SECONDS, help="Maximum delay of missed fires.  [default: 1h]"
    ),
    click.option("--jitter", "jitter_secs", metavar="TIME", type=SECONDS, help="Maximum random delay of each fire."),
    _choice("--dst", choices=DST, help="Policy for times that a clock change skips or repeats"),
    click.option("--end-at", metavar="TIME", type=MOMENT, help="No fires after this time: 2026-01-31T12:00:00Z."),
    click.option("--remaining", metavar="N", type=click.IntRange(0), help="Maximum number of further runs."),
    click.option(
        "--search-attrs",
        "search_attributes",
        metavar="ATTRS",
        type=ATTRIBUTES,
        multiple=True,
        callback=merged,
        help="Search attributes of each run: key=value, or JSON.",
    ),
    click.option("--memo", metavar="JSON", type=JSON_OBJECT, help="Memo of each run: shown, but not searchable."),
)


def _definition(command: F) -> F:
    """Add the options of a whole definition."""
    for option in reversed(
        (
            click.option(
                "--type", "workflow_type", metavar="TYPE", type=NAME, required=True, help="Workflow type to start."
            ),
            click.option("--cron", "cron_expr", metavar="EXPR", required=True, help="Times: cron, @daily, @every 10m."),
            click.option(
                "--queue", "task_queue", metavar="QUEUE", default=DEFAULT_QUEUE, show_default=True, help="Task queue."
            ),
            *_DETAILS,
            click.option("--paused", is_flag=True, default=None, help="Create it paused; `resume` starts it."),
        )
    ):
        command = option(command)
    return command


def _details(command: F) -> F:
    """Add the options that both `create` and `patch` have."""
    for option in reversed(_DETAILS):
        command = option(command)
    return command


@click.group(cls=RemoteGroup)
@global_options
def schedule() -> None:
    """Start workflows at certain times.

    \b
    Examples:
      assay schedule create nightly --type Report --cron '0 0 2 * * *' --timezone Europe/Berlin
      assay schedule list
      assay schedule pause nightly

    A cron expression has 5 fields (minute hour day month weekday), 6 fields with seconds first, or 7 fields with years
    last.
    """


@schedule.command("list")
@connected
def list_schedules(session: CliSession) -> None:
    """List the schedules of a namespace, ordered by name.

    \b
    Example:
      assay schedule list
    """
    session.printer.list(session.engine.get("schedules").document, SCHEDULES)


@schedule.command()
@_name
@connected
def describe(session: CliSession, name: str) -> None:
    """Show a schedule: a page on a terminal, JSON otherwise.

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
    """Create a schedule, or replace the definition of an existing schedule.

    Options that are not given have their defaults. The earlier fires, waiting fires and a pause are kept.

    \b
    Example:
      assay schedule apply nightly --type Report --cron '0 0 2 * * *' --timezone Europe/Berlin
    """
    session.printer.record(session.engine.put("schedules", name, body=_given(fields)).document)


@schedule.command()
@_name
@click.option("--cron", "cron_expr", metavar="EXPR", help="Times: cron, @daily, @every 10m.")
@click.option("--queue", "task_queue", metavar="QUEUE", help="Task queue.")
@_details
@_choice("--clear", choices=CLEARABLE, metavar="FIELD", multiple=True, help="Field to clear; may be repeated")
@connected
def patch(session: CliSession, /, name: str, **fields: Any) -> None:
    """Change fields of a schedule.

    Other fields stay unchanged. The next fire is computed again.

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
@click.option("--reason", metavar="TEXT", help="Reason for the pause.")
@click.option("--by", metavar="WHO", help="Name of the person who pauses it.")
@connected
def pause(session: CliSession, name: str, reason: str | None, by: str | None) -> None:
    """Pause a schedule: it does not fire until it is resumed.

    Open runs continue.

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
    """Resume a paused schedule: it fires again, from now on.

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
    """Delete a schedule. Its open runs continue.

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
    """Fire a schedule once, now.

    \b
    Example:
      assay schedule trigger nightly
    """
    body = _given({"overlap_policy": overlap_policy}) or None
    session.printer.record(session.engine.post("schedules", name, "trigger", body=body).document)


@schedule.command()
@_name
@click.option("--from", "start", metavar="TIME", type=MOMENT, required=True, help="Begin: 2026-01-31T00:00:00Z.")
@click.option("--to", "end", metavar="TIME", type=MOMENT, required=True, help="End of the range.")
@_overlap
@connected
def backfill(session: CliSession, name: str, start: float, end: float, overlap_policy: str | None) -> None:
    """Fire a schedule for all due times in a range of the past.

    Without --overlap the runs start in order: a run starts when the previous run is closed.

    \b
    Example:
      assay schedule backfill nightly --from 2026-01-01 --to 2026-01-08 --overlap allow_all
    """
    body = {"start": start, "end": end, **_given({"overlap_policy": overlap_policy})}
    session.printer.list(session.engine.post("schedules", name, "backfill", body=body).document, FIRES)


@schedule.command()
@_name
@click.option("--count", metavar="N", type=click.IntRange(1), default=10, show_default=True, help="Number of times.")
@connected
def preview(session: CliSession, name: str, count: int) -> None:
    """Show the next times of a schedule, in its time zone.

    \b
    Example:
      assay schedule preview nightly --count 5
    """
    times = session.engine.get("schedules", name, "preview", count=count).document
    records = [{"due_at": due} for due in times]
    zone = _zone(session, name) if session.printer.output == "table" else None
    session.printer.list(records, (Column("DUE", "due_at", is_time=True, zone=zone),))


def _zone(session: CliSession, name: str) -> tzinfo:
    """Return the zone of a schedule, or UTC if this machine does not have the zone."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(session.engine.get("schedules", name).document["timezone"])
    except (KeyError, ValueError, OSError):
        return UTC


@schedule.command()
@_name
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of fires."
)
@connected
def fires(session: CliSession, name: str, limit: int) -> None:
    """Show the latest fires of a schedule and their outcomes, newest first.

    \b
    Example:
      assay schedule fires nightly --limit 5
    """
    session.printer.list(session.engine.get("schedules", name, "fires", limit=limit).document, FIRES)


def _emptied(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the change for `--input null`, which clears the input. A null alone would leave the field unchanged."""
    source = click.get_current_context().get_parameter_source("input")
    if fields["input"] is not None or source is not click.core.ParameterSource.COMMANDLINE:
        return {}
    return {"input": None, "clear": list(dict.fromkeys([*fields["clear"], "input"]))}


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, ())}
