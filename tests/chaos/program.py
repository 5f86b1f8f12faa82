"""The process that is killed: an engine, a worker and a client in one, which goes on wherever its predecessor was.

`python -m tests.chaos.program URL FOLDER` with the share of the work that is its own. It says `ready` when it serves
and `done` when every workflow of its share has ended; then it serves on until SIGTERM.
"""

import argparse
import asyncio
import contextlib
import logging
import random
import signal
import sys
import uuid
from collections import defaultdict
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import assay
from tests.chaos.ledger import Ledger, acks_file, read
from tests.chaos.plan import Program, programs, signals_of
from tests.chaos.workflows import app, record_effects_in

IN_FLIGHT = 200
"""Workflows that a client looks after at once."""

SPREAD = 1.5
"""Seconds over which the starts of a life are spread, so that a kill at any moment interrupts some."""

HELD_BACK = 0.3
"""Seconds at most between two messages to one workflow."""


def workflow_id(index: int) -> str:
    """The id of the workflow that runs program number `index`."""
    return f"program-{index}"


class Progress:
    """What this client and its predecessors were told, read back from their ledger."""

    def __init__(self, path: Path) -> None:
        self._acked: dict[str, set[str]] = defaultdict(set)
        for line in read(path):
            if line["what"] != "asked":
                self._acked[line["id"]].add(line["what"])
        self._ledger = Ledger(path)

    def has(self, workflow: str, what: str) -> bool:
        """Was this acknowledged?"""
        return what in self._acked[workflow]

    async def ask(self, workflow: str, what: str, asking: Awaitable[Any], **facts: Any) -> None:
        """Note the question, and the answer if there is one; a refusal is an answer too."""
        self._ledger.note(what="asked", id=workflow, of=what)
        refused = False
        try:
            await asking
        except (assay.AlreadyExists, assay.NotFound):
            refused = True
        self.note(workflow, what, refused=refused, **facts)

    def note(self, workflow: str, what: str, **facts: Any) -> None:
        """Something is certain now."""
        self._ledger.append(what=what, id=workflow, **facts)
        self._acked[workflow].add(what)


class Customer:
    """Starts the workflows of its share, sends what they wait for, and watches how they end."""

    def __init__(self, client: assay.Client, progress: Progress) -> None:
        self._client = client
        self._progress = progress
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    async def serve(self, index: int, program: Program) -> None:
        """Bring one workflow to its end."""
        workflow = workflow_id(index)
        if self._progress.has(workflow, "closed"):
            return
        async with self._slots:
            await self._start(workflow, program)
            await self._send_signals(workflow, program)
            await self._send_ending(workflow, program["ending"])
            self._progress.note(workflow, "closed", outcome=await self._outcome(workflow))

    async def _start(self, workflow: str, program: Program) -> None:
        if not self._progress.has(workflow, "start"):
            await _moment(SPREAD)
            starting = self._client.start(
                "Program",
                program,
                workflow_id=workflow,
                task_queue="chaos",
                id_conflict_policy="use_existing",
                id_reuse_policy="reject_duplicate",
            )
            await self._progress.ask(workflow, "start", starting)

    async def _send_signals(self, workflow: str, program: Program) -> None:
        for name in signals_of(program):
            if not self._progress.has(workflow, f"signal {name}"):
                await _moment(HELD_BACK)
                nonce = uuid.uuid4().hex
                sending = self._client.signal(workflow, name, {"nonce": nonce})
                await self._progress.ask(workflow, f"signal {name}", sending, nonce=nonce)

    async def _send_ending(self, workflow: str, ending: str) -> None:
        if ending in ("cancel", "terminate") and not self._progress.has(workflow, ending):
            await _moment(HELD_BACK)
            asking = self._client.cancel(workflow) if ending == "cancel" else self._client.terminate(workflow)
            await self._progress.ask(workflow, ending, asking)

    async def _outcome(self, workflow: str) -> list[Any]:
        try:
            return ["COMPLETED", await self._client.result(workflow)]
        except assay.Failure as error:
            return [type(error).__name__, error.message]


async def _moment(longest: float) -> None:
    await asyncio.sleep(random.uniform(0, longest))  # noqa: S311  # not for secrets


async def _serve(arguments: argparse.Namespace) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    record_effects_in(arguments.folder)
    progress = Progress(acks_file(arguments.folder, arguments.place))
    async with await assay.Client.connect(arguments.url, app=app) as client:
        worker = assay.Worker(client)
        running = asyncio.ensure_future(worker.run())
        _say("ready")
        customer = Customer(client, progress)
        share = range(arguments.place, arguments.until, arguments.places)
        plans = programs(arguments.seed, arguments.until)
        await _unless(stopping, asyncio.gather(*(customer.serve(index, plans[index]) for index in share)))
        _say("done")
        await stopping.wait()
        worker.stop()
        await running


async def _unless(stopping: asyncio.Event, working: "asyncio.Future[Any]") -> None:
    stop = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({stop, working}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not working.done():
        working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main() -> None:
    """Run until killed or told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--until", type=int, required=True, help="programs to know of")
    parser.add_argument("--place", type=int, default=0, help="which of the processes this is")
    parser.add_argument("--places", type=int, default=1, help="how many processes share the work")
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
