"""A page of a history ends at its bytes, in both directions, and pages together are the whole history."""

import pytest

from assay.core.model.ids import Namespace, WorkflowId
from assay.core.model.payload import Payload
from assay.core.model.requests import Signal, StartWorkflow

MAIN = Namespace("main")
LARGE = Payload(b'"%s"' % (b"x" * 1_900_000))


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_of_a_large_history_end_at_their_bytes(with_engine, newest_first):
    async def body(engine, clock):
        name = WorkflowId("large")
        await engine.submit(StartWorkflow(namespace=MAIN, workflow_id=name, workflow_type="T"))
        for number in range(24):
            await engine.submit(Signal(MAIN, name, name="s", payload=LARGE if number % 2 else Payload(b"1")))
        run = (await engine.reads.run("main", "large")).run
        pages, cursor = [], None
        while not pages or len(pages[-1]):
            pages.append(await engine.reads.events(run, cursor, 1_000, newest_first=newest_first))
            cursor = pages[-1][-1].seq if pages[-1] else cursor
        seqs = [recorded.seq for page in pages for recorded in page]
        assert seqs == (list(range(25, 0, -1)) if newest_first else list(range(1, 26)))
        large = [sum(len(getattr(one.event, "payload", b"")) > 1_000_000 for one in page) for page in pages]
        assert large == [5, 5, 2, 0]
        assert [len(page) for page in await _pages_of_two(engine, run, newest_first)] == [2] * 12 + [1, 0]

    with_engine(body)


async def _pages_of_two(engine, run, newest_first):
    pages, cursor = [], None
    while not pages or len(pages[-1]):
        pages.append(await engine.reads.events(run, cursor, 2, newest_first=newest_first))
        cursor = pages[-1][-1].seq if pages[-1] else cursor
    return pages
