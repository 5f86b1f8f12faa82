"""The hand of a poll: free until work is on its way to it, or until it is told that there is none."""

import asyncio
from collections.abc import Callable

import pytest

from assay.api.polls import PollSeat
from assay.core.ids import Namespace, WorkerId
from assay.engine.roster import Registration

REGISTRATION = Registration(WorkerId("w-1"), Namespace("main"), None, None)


def seated(test: Callable[[PollSeat], None], *, held: bool) -> None:
    async def main() -> None:
        test(PollSeat(REGISTRATION, "default", None, tasks=False, held=held))

    asyncio.run(main())


@pytest.mark.parametrize("held", [True, False])
def test_a_poll_that_was_told_that_there_is_nothing_has_no_hand_free(held: bool) -> None:
    """Its caller has not heard of it yet: work that it were given in between would be lost."""

    def told(seat: PollSeat) -> None:
        assert seat.free_activities == 1
        seat.release()
        assert seat.answer.result() is None
        assert seat.free_activities == 0

    seated(told, held=held)


def test_a_poll_that_work_is_on_its_way_to_waits_for_it() -> None:
    def promised(seat: PollSeat) -> None:
        seat.free_activities -= 1
        seat.release()
        assert not seat.answer.done()

    seated(promised, held=True)
