"""`assay workflow explain`: what a run waits for, in sentences."""

from collections.abc import Iterator
from typing import Final

import click

from assay.cli.arguments import NAME
from assay.cli.render import Record, line_of
from assay.cli.session import CliSession, connected
from assay.cli.suggestions import workflow_ids
from assay.cli.tables import duration_of, first_line

ID: Final = click.argument("workflow_id", metavar="ID", type=NAME, shell_complete=workflow_ids, help="Workflow id.")
RUN_ID: Final = click.option("--run-id", metavar="RUN", help="Run id; see `runs`.  [default: the newest run]")
EXPLAINED: Final = ("workflow_id", "run_id", "status", "waiting_on")
"""Fields of the output as JSON or YAML."""


@click.command()
@ID
@RUN_ID
@connected
def explain(session: CliSession, workflow_id: str, run_id: str | None) -> None:
    """Explain what a run waits for, or how it ended.

    \b
    Examples:
      assay workflow explain deploy-7
      assay workflow explain deploy-7 --output json | jq -r .waiting_on.kind
    """
    found = session.engine.get("workflows", workflow_id, "waiting", run_id=run_id).document
    if session.printer.output != "table":
        session.printer.record({name: found[name] for name in EXPLAINED})
        return
    waiting = found["waiting_on"]
    if waiting is None:
        run = session.engine.get("workflows", workflow_id, run_id=found["run_id"]).document
        session.printer.page([line_of(ending_of(run))])
        return
    session.printer.page(map(line_of, _sentences(waiting)))


def _sentences(waiting: Record) -> Iterator[str]:
    yield from (wait["sentence"] for wait in waiting["waits"])
    if waiting["more"]:
        yield f"and {waiting['more']} more"


def ending_of(run: Record) -> str:
    """Return a sentence about the end of a closed run."""
    word = {"COMPLETED": "Completed", "FAILED": "Failed", "CANCELLED": "Cancelled", "TIMED_OUT": "Timed out"}
    ended = word.get(str(run.get("status")), str(run.get("status")))
    if run.get("close_reason") == "terminated":
        ended = "Terminated"
    if run.get("close_reason") == "continued_as_new":
        ended = "Continued as new"
    reason = first_line(str(run["error"])) if run.get("error") else ""
    after = f"{ended} after {duration_of(run)}"
    following = f" The next run is {run['next_run_id']}." if run.get("next_run_id") else ""
    return f"{after}: {reason}{following}" if reason else f"{after}.{following}"
