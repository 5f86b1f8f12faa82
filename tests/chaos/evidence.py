"""What is left when the killing is over: the ledgers of clients and activities, and everything the store says."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import assay
from assay.testing.replay import History, fetch_history
from tests.chaos.ledger import acks_file, effects_file, read
from tests.chaos.workflows import app

PAGE = 1_000

Line = dict[str, Any]


@dataclass(frozen=True)
class RunStory:
    """A run with its history."""

    record: assay.Record
    events: list[assay.Record]
    history: History
    """The same events in the form in which they can be replayed."""

    def of(self, *kinds: str) -> list[assay.Record]:
        """The events of some kinds."""
        return [event for event in self.events if event.event_type in kinds]


@dataclass(frozen=True)
class Evidence:
    """All that can be known."""

    acks: list[Line]
    effects: list[Line]
    chains: dict[str, list[RunStory]]
    """The runs of each workflow id, oldest first."""

    @property
    def stories(self) -> list[RunStory]:
        """Every run."""
        return [story for chain in self.chains.values() for story in chain]

    def acked(self, what: str) -> list[Line]:
        """Answers to one kind of question, other than refusals."""
        return [line for line in self.acks if line["what"].split()[0] == what and not line.get("refused")]


async def gather(url: str, folder: Path, processes: int) -> Evidence:
    """Read ledgers and store."""
    acks = [line for place in range(processes) for line in read(acks_file(folder, place))]
    async with await assay.Client.connect(url, app=app) as client:
        chains = await _chains(client)
    return Evidence(acks, list(read(effects_file(folder))), chains)


async def _chains(client: assay.Client) -> dict[str, list[RunStory]]:
    chains: defaultdict[str, list[RunStory]] = defaultdict(list)
    cursor: str | None = None
    while True:
        page = await client.list(limit=PAGE, cursor=cursor)
        for record in page:
            events = await client.get_events(record.id, record.run_id)
            history = await fetch_history(client, record.id, record.run_id)
            chains[record.id].append(RunStory(record, events, history))
        cursor = page.next_cursor
        if cursor is None:
            break
    return {workflow: _in_order(chain) for workflow, chain in chains.items()}


def _in_order(chain: list[RunStory]) -> list[RunStory]:
    """A chain by its links, so that equal times do not matter; what is not linked comes last."""
    following = {story.record.previous_run_id: story for story in chain}
    ordered: list[RunStory] = []
    story = following.get(None)
    while story is not None and story not in ordered:
        ordered.append(story)
        story = following.get(story.record.run_id)
    return ordered + [story for story in chain if story not in ordered]
