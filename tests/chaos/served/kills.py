"""Kill engines or workers at random moments while a client runs programs over HTTP."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import assay
from tests.chaos.evidence import Evidence, gather
from tests.chaos.ledger import acks_file
from tests.chaos.plan import Program, programs, slowed
from tests.chaos.program import Customer, Progress
from tests.chaos.report import Report, judged
from tests.chaos.served.site import Site
from tests.chaos.workflows import app

PAUSES = {"engine": (0.5, 3.0), "worker": (0.2, 1.0)}
"""Seconds between two kills."""

STARTING = 0.25
"""Share of engines that are killed while they still start."""

LEASE = 10.0
REDISPATCH = LEASE + 2.0
"""Seconds until another worker must have the work of a killed one."""


@dataclass(frozen=True)
class Assault:
    """Who is killed, how often, and how much work goes on meanwhile."""

    victims: Literal["engine", "worker"]
    store: str
    database: str
    folder: Path
    kills: int
    workflows: int
    seed: int
    workers: int = 3
    patience: float = 150.0
    """Seconds after the last kill until the work has to be done."""

    @property
    def title(self) -> str:
        return f"{self.store} {self.victims} kill-9 over HTTP"

    def plans(self) -> list[Program]:
        """The programs; where workers die, activities take long enough to die with them."""
        made = programs(self.seed, self.workflows)
        return slowed(made, self.seed, 0.1, 2.0) if self.victims == "worker" else made


class Campaign:
    """Kills, and new work after each kill, so that every one of them interrupts some."""

    def __init__(self, assault: Assault, site: Site, customer: Customer) -> None:
        self._assault = assault
        self._site = site
        self._customer = customer
        self._chance = random.Random(f"{assault.victims} {assault.seed}")  # noqa: S311  # repeatable on purpose
        self._plans = assault.plans()
        self._served: list[asyncio.Task[None]] = []

    async def run(self) -> bool:
        """Is all the work done in time?"""
        kill = self._kill_engine if self._assault.victims == "engine" else self._kill_worker
        for number in range(1, self._assault.kills + 1):
            self._hand_out(number)
            await kill()
        self._hand_out(self._assault.kills + 1)
        done, late = await asyncio.wait(self._served, timeout=self._assault.patience)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for task in done:
            task.result()
        return not late

    def _hand_out(self, number: int) -> None:
        share = self._assault.workflows * number // (self._assault.kills + 1)
        for index in range(len(self._served), share):
            self._served.append(asyncio.create_task(self._customer.serve(index, self._plans[index])))

    async def _kill_engine(self) -> None:
        place = self._chance.randrange(len(self._site.engines))
        pause = self._chance.uniform(*PAUSES["engine"])
        if self._chance.random() < STARTING:
            await asyncio.sleep(pause / 3)
        else:
            await self._site.ready(self._site.engines[place].process)
            await asyncio.sleep(pause)
        self._site.kill_engine(place)

    async def _kill_worker(self) -> None:
        place = self._chance.randrange(len(self._site.workers))
        await self._site.ready(self._site.workers[place])
        await asyncio.sleep(self._chance.uniform(*PAUSES["worker"]))
        self._site.kill_worker(place)


def run(assault: Assault) -> Report:
    """Run a scenario and judge what it left behind."""
    began = time.monotonic()
    with site_of(assault) as site:
        finished = asyncio.run(_campaign(assault, site))
    evidence = asyncio.run(gather(assault.database, assault.folder, 1))
    report = judged(assault.title, evidence, assault.plans(), assault.database)
    report.facts = {"kills": len(site.chronicle.killed), **report.facts}
    report.wrong["unfinished"] = [] if finished else ["the work was not done in time"]
    report.wrong["refused_restarts"] = site.chronicle.refused
    report.wrong["slow_stops"] = site.chronicle.slow_stops
    report.measure("recovery", site.chronicle.recoveries)
    if assault.victims == "worker":
        gaps = list(takeovers(evidence, site.chronicle.killed))
        report.facts["taken_over"] = len(gaps)
        report.wrong["slow_takeovers"] = [f"after {gap:.1f} s" for gap in gaps if gap > REDISPATCH]
        report.measure("takeover", gaps, (50, 100))
    report.measures |= {"seconds": f"{time.monotonic() - began:.0f}", "seed": str(assault.seed)}
    return report


@contextmanager
def site_of(assault: Assault) -> Iterator[Site]:
    """The processes for the time of the block: several engines where a store can be shared."""
    engines = 1 if assault.store == "sqlite" else 2
    site = Site(assault.folder, assault.database, engines, assault.workers)
    try:
        yield site
    finally:
        site.abandon()


async def _campaign(assault: Assault, site: Site) -> bool:
    site.watch()
    async with await assay.Client.connect(site.url, app=app) as client:
        customer = Customer(client, Progress(acks_file(assault.folder, 0)))
        finished = await Campaign(assault, site, customer).run()
    await site.ready()
    await site.stop()
    return finished


def takeovers(evidence: Evidence, killed: dict[int, float]) -> Iterator[float]:
    """Seconds from the death of a worker until each activity that died with it was begun elsewhere."""
    attempts: defaultdict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    for line in evidence.effects:
        if line["kind"] == "activity":
            attempts[line["activity_id"]][line["attempt"]] = line
    for tried in attempts.values():
        for number, line in tried.items():
            died, following = killed.get(line["pid"]), tried.get(number + 1)
            if died is not None and following is not None and following["at"] > died:
                yield following["at"] - died
