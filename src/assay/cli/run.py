"""`assay run`: load a program, and run a worker for its workflows and activities."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli.command_errors import FAILED, warn_about_key
from assay.cli.options import verbose_of, verbose_option

if TYPE_CHECKING:
    from assay.cli.program import LoadedProgram
    from assay.sdk.app import App
    from assay.sdk.client.blocking import BlockingClient

URL: Final = "http://127.0.0.1:8080"
DATABASES: Final = ("sqlite", "postgres", "postgresql")


@click.command(short_help="Run a worker for the workflows and activities of a program.")
@click.argument("target", metavar="PROGRAM")
@click.option("--engine-url", metavar="URL", help=f"URL of the engine.  [env: ASSAY_ENGINE_URL; default: {URL}]")
@click.option(
    "--api-key", metavar="KEY", help="API key or JWT.  [env: ASSAY_API_KEY, or ASSAY_API_KEY_FILE for a file]"
)
@click.option("--queue", help="Task queue to serve.  [default: the queue in PROGRAM, or `default`]")
@click.option("--namespace", help="Namespace to serve.  [default: the namespace in PROGRAM, or `main`]")
@click.option(
    "--max-concurrent-workflows", type=click.IntRange(1), help="Maximum of concurrent workflow tasks.  [default: 256]"
)
@click.option(
    "--max-concurrent-activities", type=click.IntRange(1), help="Maximum of concurrent activities.  [default: 256]"
)
@click.option(
    "--max-processes", type=click.IntRange(1), help="Maximum of processes for activities.  [default: one per CPU]"
)
@click.option(
    "--errors",
    type=click.Choice(("fail", "wait")),
    help="If workflow code raises an exception other than Failure: fail the run, or wait for fixed code."
    "  [default: fail]",
)
@click.option(
    "--strict",
    is_flag=True,
    default=None,
    help="Raise in workflow code that calls time.time, random or another source of values that differ on replay.",
)
@verbose_option
@click.pass_context
def run(context: click.Context, /, target: str, engine_url: str | None, api_key: str | None, **options: Any) -> None:
    """Run a worker for the workflows and activities of a program.

    PROGRAM is a Python file, a module (shop.flows), or an app of a module (shop.flows:app). The worker serves all
    functions with @workflow.define and @workflow.activity, until SIGTERM or Ctrl-C. PROGRAM does not need to connect
    or listen. If it contains `workflow.listen(queue="reports")`, the worker serves that queue. PROGRAM is imported:
    put calls that start or read workflows under `if __name__ == "__main__":`.

    The worker waits for an engine that is not running yet, or that restarts. When the worker is stopped, it finishes
    its current tasks, returns other tasks to the engine, and ends within ten seconds.

    Exit codes: 0 stopped, 1 could not start, 64 wrong usage of the command, 70 killed code that did not stop, 75 too
    many threads did not return.

    \b
    Examples:
      assay run worker.py
      assay run shop.flows:app
      ASSAY_ENGINE_URL=https://engine.example assay run worker.py --queue reports
    """
    from assay.server import logs

    warn_about_key(api_key)
    logs.install("DEBUG" if verbose_of(context) else "INFO")
    raise click.exceptions.Exit(serve(target, engine_url, api_key, options))


def serve(program: str, url: str | None, key: str | None, options: Mapping[str, Any]) -> int:
    """Run a worker for a program until a signal ends it; return the exit code."""
    from assay import workflow
    from assay.cli.settings import plain_key
    from assay.sdk.client.blocking import Redirect

    target = _target(url or os.environ.get("ASSAY_ENGINE_URL") or URL)
    given = {name: value for name, value in options.items() if value is not None}
    blocking_client = workflow._blocking_client()
    blocking_client.redirect = Redirect(target, plain_key(key or ""), given)
    try:
        return _serve_program(program, blocking_client, target, given)
    finally:
        blocking_client.redirect = None


def _serve_program(program: str, blocking_client: BlockingClient, target: str, given: dict[str, Any]) -> int:
    """Load a program and serve its handlers; calls of the program go to the engine of the command line."""
    from assay.cli.program import listening, load_named
    from assay.sdk.worker.worker import has_served
    from assay.server.garbage_collection import freeze_startup_objects

    loaded = load_named(program)
    if loaded is None:
        return FAILED
    if has_served():
        return 0  # the program itself ran a worker, and that worker has ended
    app = _app(loaded)
    of_program = listening(loaded.module, given) if loaded.listened is None else loaded.listened
    chosen = {**of_program, **given}
    announce(app, target, chosen.get("queue") or app.queue)
    blocking_client.connect(target, None, chosen.pop("namespace", None) or "main")
    freeze_startup_objects()
    blocking_client.listen(app=app, **chosen)
    return 0


def _app(program: LoadedProgram) -> App:
    """Return the app to serve."""
    from assay.cli.program import registered

    if program.app is not None:
        return program.app
    apps = registered(program.module)
    if not apps:
        raise click.ClickException(
            f"{program.name} registers no workflow and no activity: decorate functions with @workflow.define and"
            " @workflow.activity, or put an assay.App into a variable"
        )
    if len(apps) > 1:
        names = ", ".join(sorted(name for name, _ in apps))
        raise click.ClickException(
            f"{program.name} has several apps ({names}): name one, as in {program.name}:{apps[0][0]}"
        )
    return apps[0][1]


def _target(url: str) -> str:
    """Return the URL of an engine, or of a database for an engine in this process; raise for other texts."""
    from assay.cli.settings import checked_url

    scheme, separator, _ = url.partition("://")
    return url if separator and scheme.lower() in DATABASES else checked_url(url)


def announce(app: App, url: str, queue: str) -> None:
    """Print the names of the workflows and activities, the queue and the URL."""
    words = [_counted(app.workflows, "workflow", "workflows"), _counted(app.activities, "activity", "activities")]
    click.echo(f"serving {' and '.join(word for word in words if word)} on queue {queue} at {url}", err=True)


def _counted(names: Mapping[str, Any], one: str, many: str) -> str:
    return "" if not names else f"{one if len(names) == 1 else many} {', '.join(sorted(names))}"
