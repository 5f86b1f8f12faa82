"""The slot of a poll: free until work is on its way to it, or until it is told that there is none."""

import asyncio
from collections.abc import Callable

import pytest

from assay.api.polls import PollingWorker
from assay.core.model.ids import Namespace, WorkerId
from assay.engine.worker_registry import Registration

REGISTRATION = Registration(WorkerId("w-1"), Namespace("main"), None, None)


def seated(test: Callable[[PollingWorker], None], *, held: bool) -> None:
    async def main() -> None:
        test(PollingWorker(REGISTRATION, "default", None, tasks=False, held=held))

    asyncio.run(main())


@pytest.mark.parametrize("held", [True, False])
def test_a_poll_that_was_told_that_there_is_nothing_has_no_slot_free(held: bool) -> None:
    """Its caller has not heard of it yet: work that it were given in between would be lost."""

    def polled(poller: PollingWorker) -> None:
        assert poller.slots.activities == 1
        poller.release()
        assert poller.answer.result() is None
        assert poller.slots.activities == 0

    seated(polled, held=held)


def test_a_poll_that_work_is_on_its_way_to_waits_for_it() -> None:
    def promised(poller: PollingWorker) -> None:
        poller.slots.reserve("any")
        poller.release()
        assert not poller.answer.done()

    seated(promised, held=True)
