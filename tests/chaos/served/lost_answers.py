"""A proxy drops responses, and doubles and delays requests, between the engine and all its clients.

Programs run through it, by a client and by workers of our SDK over both carriers; and errands run through it, by the
original protocol with an idempotency key for each change.
"""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

import assay
from tests.chaos.evidence import Evidence, gather
from tests.chaos.ledger import acks_file
from tests.chaos.plan import programs
from tests.chaos.program import Customer, Progress
from tests.chaos.report import Report, judged
from tests.chaos.served.keyed import SIGNALS, Caller, Errands, names
from tests.chaos.served.site import Site
from tests.chaos.verdict import duplicated, stuck, two_outcomes
from tests.chaos.workflows import app
from tests.http.proxy import Faults, proxy

USUAL = Faults(cut=0.1, duplicate=0.05, delay=0.05)
PROGRAM_SHARE = 5
"""One program for so many operations."""
ERRAND_SHARE = 8
"""One errand, with six operations at least, for so many operations."""
EVENTS = {
    "WorkflowStarted": 1,
    "SignalReceived": SIGNALS,
    "ActivityScheduled": 1,
    "ActivityCompleted": 1,
    "WorkflowCompleted": 1,
}
"""What the history of an errand has, each so often."""


@dataclass(frozen=True)
class Weather:
    """How much is done, and what is done to it."""

    store: str
    database: str
    folder: Path
    operations: int
    seed: int
    faults: Faults = USUAL
    patience: float = 240.0

    @property
    def programs(self) -> int:
        return self.operations // PROGRAM_SHARE

    @property
    def errands(self) -> int:
        return self.operations // ERRAND_SHARE


@dataclass
class Outcome:
    """What came of it."""

    changed: list[str]
    operations: int
    tries: int
    finished: bool = True


def run(weather: Weather) -> Report:
    """Run the scenario and judge what it left behind."""
    began = time.monotonic()
    site = Site(weather.folder, weather.database, engines=1, workers=0)
    try:
        with proxy(site.engines[0].port, weather.faults, weather.seed) as between:
            site.employ(between.url)
            site.employ(between.url, CHAOS_BY_POST="1")
            outcome = asyncio.run(_storm(weather, site, between.url))
    finally:
        site.abandon()
    report = _judged(weather, outcome, asyncio.run(gather(weather.database, weather.folder, 1)))
    report.facts = {"operations": outcome.operations + report.facts["acked"], **between.done, **report.facts}
    report.wrong["slow_stops"] = site.chronicle.slow_stops
    report.measures |= {"seconds": f"{time.monotonic() - began:.0f}", "seed": str(weather.seed)}
    return report


async def _storm(weather: Weather, site: Site, url: str) -> Outcome:
    site.watch()
    async with aiohttp.ClientSession() as session, await assay.Client.connect(url, app=app) as client:
        caller = Caller(session, site.url, url)
        customer = Customer(client, Progress(acks_file(weather.folder, 0)))
        plans = programs(weather.seed, weather.programs)
        work = [customer.serve(index, program) for index, program in enumerate(plans)]
        try:
            async with asyncio.timeout(weather.patience):
                await asyncio.gather(Errands(caller, weather.errands).run(), *work)
        except TimeoutError:
            return Outcome([], len(caller.operations), 0, finished=False)
        changed = await caller.changed_answers()
    await site.ready()
    await site.stop()
    return Outcome(changed, len(caller.operations), sum(operation.tries for operation in caller.operations))


def _judged(weather: Weather, outcome: Outcome, evidence: Evidence) -> Report:
    errands = set(names(weather.errands))
    chains_of_programs = {name: chain for name, chain in evidence.chains.items() if name not in errands}
    keyed = Evidence([], [], {name: chain for name, chain in evidence.chains.items() if name in errands})
    plans = programs(weather.seed, weather.programs)
    report = judged(
        f"{weather.store} lost answers", replace(evidence, chains=chains_of_programs), plans, weather.database
    )
    # a task that is delayed for longer than its lease is begun when another worker has done it: at least once
    del report.wrong["repeated"]
    report.facts |= {"errands": weather.errands, "tries": outcome.tries}
    report.wrong["unfinished"] = [] if outcome.finished else ["the work was not done in time"]
    report.wrong["changed_answers"] = outcome.changed
    report.wrong["lost"] += [f"{name} is not there" for name in errands - set(keyed.chains)]
    report.wrong["lost"] += _unlike(keyed)
    report.wrong["dup"] += list(duplicated(keyed, []))
    report.wrong["two_outcomes"] += list(two_outcomes(keyed, []))
    report.wrong["stuck"] += list(stuck(keyed, []))
    return report


def _unlike(keyed: Evidence) -> list[str]:
    found = []
    for story in keyed.stories:
        counted = {kind: len(story.of(kind)) for kind in EVENTS}
        if counted != EVENTS:
            found.append(f"{story.record.id}: {counted}")
    return found
