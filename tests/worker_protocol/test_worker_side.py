"""One worker's end of the exchange, without a network: numbers, tokens, hands, and what is said again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assay.core.model import requests as rq
from assay.core.model.commands import CompleteWorkflow, FailWorkflow, RecordSideEffect, WaitForSignal
from assay.core.model.errors import Invalid, Refused, Unavailable
from assay.core.model.failure import FailureInfo
from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import SECOND, Namespace, RunId, Time, WorkerId
from assay.core.model.payload import Payload
from assay.core.model.replies import Advanced, future_callback
from assay.core.model.slots import Slots
from assay.sdk.client.http.clock import LearnedClock
from assay.worker_protocol import messages as wire
from assay.worker_protocol.decode import decode_engine_message, decode_worker_message
from assay.worker_protocol.encode import encode_worker_message
from assay.worker_protocol.worker_side import WorkerEndpoint

WORKER = WorkerId("w-1")
RUN = RunId("run-1")
FIRST, SECOND_LEASE = "t-1", "t-2"


class Bench:
    """A worker that only takes note."""

    worker = WORKER
    namespace = Namespace("main")
    queue = "default"
    identity = "me"
    lease: Time | None = 10 * SECOND
    local = False
    workflows: frozenset[str] | None = frozenset({"W"})
    activities: frozenset[str] | None = None

    def __init__(self, tasks: int = 10, activities: int = 10) -> None:
        self.slots = Slots(tasks, activities)
        self.taken: list[TaskGrant | ActivityGrant] = []
        self.kept: set[str] = set()
        self.cancelled: list[int] = []
        self.over: list[int] = []

    def holds(self, run_id: RunId) -> bool:
        return run_id in self.kept

    def take(self, grant: TaskGrant | ActivityGrant) -> None:
        self.taken.append(grant)
        self.kept.add(grant.key.run_id)

    def news(self, run_id: RunId) -> None: ...

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        self.cancelled.append(attempt_id)
        if over:
            self.over.append(attempt_id)


def linked(test: Callable[[WorkerEndpoint, Bench], None], **free: int) -> None:
    async def main() -> None:
        bench = Bench(**free)
        endpoint = WorkerEndpoint(bench, LearnedClock().learn)
        endpoint.compose(hello=True)
        test(endpoint, bench)

    asyncio.run(main())


def linked_async(test: Callable[[WorkerEndpoint, Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        endpoint = WorkerEndpoint(bench, LearnedClock().learn)
        endpoint.compose(hello=True)
        await test(endpoint, bench)

    asyncio.run(main())


def composed(endpoint: WorkerEndpoint, **options: Any) -> wire.WorkerMessage:
    (body,) = encode_worker_message(endpoint, endpoint.compose(**options))
    endpoint.settle_refused()
    return decode_worker_message(body)


def deliver(endpoint: WorkerEndpoint, **fields: Any) -> None:
    endpoint.receive(decode_engine_message(wire.encode(wire.EngineMessage(time=1_000_000, **fields))))


def task(epoch: int = 1, token: str = FIRST, **fields: Any) -> wire.SentTask:
    events = (wire.SentEvent(1, 5, "WorkflowStarted", Payload(b"1")),)
    fields_of_task = {"seen_seq": 0, "last_seq": 1, "events": events, **fields}
    return wire.SentTask(token, "wf", RUN, "W", "default", epoch, **fields_of_task)


def attempt(number: int) -> wire.SentActivity:
    return wire.SentActivity(f"a-{number}", "wf", RUN, "W", number, number, number, 1, "act", "default")


def advance(epoch: int = 1, seen: int = 1, *outcomes: Any) -> rq.Advance:
    return rq.Advance(RUN, WORKER, epoch, seen, (), outcomes)


def unheard(_reply: Any, _error: Any) -> None:
    """The answer does not matter."""


async def history(endpoint: WorkerEndpoint, after: int) -> Any:
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    endpoint.read_history(RUN, after, future_callback(found))
    return await found


def refusal_of(endpoint: WorkerEndpoint, request: rq.ToRun) -> Any:
    received: list[Any] = []
    endpoint.send(request, lambda _, error: received.append(error))
    return received[0]


def test_a_report_is_said_under_its_number_until_it_is_answered():
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, tasks=[task()])
        received: list[Any] = []
        endpoint.send(advance(), lambda reply, _: received.append(reply))
        first = composed(endpoint).reports
        assert [(report.n, report.token) for report in first] == [(1, "t-1")]
        assert composed(endpoint).reports == ()
        again = composed(endpoint, hello=True)
        assert again.reports == first
        assert again.hello is not None
        assert (again.hello.again, again.hello.held) == (True, ("t-1",))
        reply = Advanced(accepted=True, last_seq=3, seen_seq=3, epoch=1)
        deliver(endpoint, answers=[wire.ReportAnswer(1, advanced=reply)])
        deliver(endpoint, answers=[wire.ReportAnswer(1, advanced=reply)])  # given twice, heard once
        assert received == [reply]
        assert composed(endpoint, hello=True).reports == ()
        assert composed(endpoint).answered == 2

    linked(test)


def test_a_token_goes_with_its_epoch():
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, tasks=[task(epoch=1)])
        endpoint.send(advance(epoch=1), unheard)
        pending = Advanced(accepted=True, last_seq=3, seen_seq=3, epoch=2, leased=True)
        deliver(endpoint, answers=[wire.ReportAnswer(1, advanced=pending, token=SECOND_LEASE)])
        assert isinstance(refusal_of(endpoint, advance(epoch=1)), Refused)
        endpoint.send(advance(epoch=2, seen=3), unheard)
        assert [report.token for report in composed(endpoint).reports] == ["t-1", "t-2"]
        greeting = composed(endpoint, hello=True).hello
        assert greeting is not None
        assert greeting.held == ("t-2",)

    linked(test)


def test_a_task_or_an_attempt_that_comes_twice_is_taken_once_and_its_hand_given_back():
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        for _ in range(2):
            deliver(endpoint, tasks=[task()], activities=[attempt(7)])
        assert len(bench.taken) == 2
        assert (bench.slots.tasks, bench.slots.activities) == (9, 9)
        assert composed(endpoint).freed == (1, 1)
        deliver(endpoint, tasks=[task(epoch=2, token=SECOND_LEASE)])
        assert len(bench.taken) == 3

    linked(test)


def test_what_is_over_is_no_longer_held():
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, tasks=[task()], activities=[attempt(7), attempt(8), attempt(9)])
        outcome = rq.ActivityOutcome(7, 7, 5)
        endpoint.send(advance(1, 1, outcome), unheard)
        endpoint.send(rq.CompleteActivity(RUN, 8, 8), unheard)
        endpoint.send(rq.FailTask(RUN, WORKER, 1, "x", "y"), unheard)
        closed = Advanced(accepted=True, epoch=1, closed=True, recorded=(True,))
        problem = wire.Problem("too late", "stale_attempt", "CONFLICT")
        deliver(endpoint, answers=[wire.ReportAnswer(1, advanced=closed), wire.ReportAnswer(2, problem)])
        greeting = composed(endpoint, hello=True).hello
        assert greeting is not None
        assert greeting.held == ("a-9",)
        assert not endpoint.idle
        deliver(endpoint, answers=[wire.ReportAnswer(3)])
        endpoint.send(rq.ReleaseActivity(RUN, 9, 9), unheard)
        deliver(endpoint, answers=[wire.ReportAnswer(4)])
        assert endpoint.idle

    linked(test)


def test_an_answer_that_leaves_the_outcome_open_leaves_the_lease():
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, activities=[attempt(7)])
        received: list[Any] = []
        endpoint.send(rq.CompleteActivity(RUN, 7, 7), lambda _, error: received.append(error))
        deliver(endpoint, answers=[wire.ReportAnswer(1, wire.Problem("no idea", "outcome_unknown", "UNAVAILABLE"))])
        assert [type(error) for error in received] == [Unavailable]
        endpoint.send(rq.CompleteActivity(RUN, 7, 7), unheard)
        assert [report.n for report in composed(endpoint).reports][-1] == 2

    linked(test)


def test_freed_hands_are_told_at_once_only_if_the_engine_may_wait_for_them():
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        composed(endpoint)
        deliver(endpoint, activities=[attempt(7)])
        bench.slots.activities += 1
        endpoint.offer_slots()
        assert not endpoint.wakeup.is_set
        assert composed(endpoint).freed == (0, 1)

    linked(test, tasks=100, activities=100)

    def scarce(endpoint: WorkerEndpoint, bench: Bench) -> None:
        composed(endpoint)
        deliver(endpoint, activities=[attempt(7)])
        bench.slots.activities += 1
        endpoint.offer_slots()
        assert endpoint.wakeup.is_set

    linked(scarce, tasks=1, activities=1)


def test_idle_processes_are_told_at_once_and_so_is_one_that_died():
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        bench.slots.process_activities, bench.slots.processes = frozenset({"act"}), 1
        hello = composed(endpoint, hello=True).hello
        assert hello is not None
        assert (hello.process_activities, hello.free_processes) == (("act",), 1)
        deliver(endpoint, activities=[attempt(7)])
        assert bench.slots.processes == 0
        endpoint.offer_slots()
        assert not endpoint.wakeup.is_set
        for change, total in ((2, 2), (-1, 1)):
            bench.slots.processes += change
            endpoint.offer_slots()
            assert endpoint.wakeup.is_set
            assert composed(endpoint).freed_processes == total
        bench.slots.processes -= 1
        hello = composed(endpoint, hello=True).hello
        assert hello is not None
        assert hello.free_processes == 0
        bench.slots.processes += 1
        assert composed(endpoint).freed_processes == 1

    linked(test)


def test_an_attempt_that_has_timed_out_is_told_from_one_that_is_cancelled():
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, cancelled=[7, 8], over=[8])
        assert (bench.cancelled, bench.over) == ([7, 8], [8])

    linked(test)


def test_the_engine_hears_which_runs_are_kept_no_longer():
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, tasks=[task()])
        endpoint.keep_alive()
        assert composed(endpoint).dropped == ()
        bench.kept.clear()
        endpoint.keep_alive()
        assert composed(endpoint).dropped == (RUN,)
        assert composed(endpoint).dropped == ()

    linked(test)


def test_a_history_that_came_with_its_task_is_not_asked_for():
    async def main() -> None:
        endpoint = WorkerEndpoint(Bench(), LearnedClock().learn)
        events = tuple(wire.SentEvent(n, n, "WorkflowStarted", Payload(b"1")) for n in range(1, 4))
        deliver(endpoint, tasks=[task(seen_seq=2, last_seq=3, events=events, after=0)])
        assert [event.seq for event in await history(endpoint, 0)] == [1, 2, 3]
        reading = asyncio.ensure_future(history(endpoint, 1))
        await asyncio.sleep(0)
        (report,) = composed(endpoint).reports
        assert isinstance(report, wire.ReadHistory)
        deliver(endpoint, answers=[wire.ReportAnswer(report.n, events=events[1:2], more=True)])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (report,) = composed(endpoint).reports
        assert isinstance(report, wire.ReadHistory)
        assert report.after == 2
        deliver(endpoint, answers=[wire.ReportAnswer(report.n, events=events[2:])])
        assert [event.seq for event in await reading] == [2, 3]

    asyncio.run(main())


def test_a_history_of_an_earlier_lease_is_not_taken_for_that_of_a_later_one():
    async def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, tasks=[task(seen_seq=1)])  # sent again after a reconnect: the worker keeps the run
        later = (wire.SentEvent(3, 5, "WorkflowStarted", Payload(b"1")),)
        deliver(endpoint, tasks=[task(epoch=2, token=SECOND_LEASE, seen_seq=2, last_seq=3, events=later, after=2)])
        found = asyncio.create_task(history(endpoint, 0))
        await asyncio.sleep(0)
        (report,) = composed(endpoint).reports
        assert isinstance(report, wire.ReadHistory)
        found.cancel()

    linked_async(test)


def test_a_message_is_split_at_the_limit_and_a_turn_above_it_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 2_000_000)

    async def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, activities=[attempt(n) for n in range(1, 7)], tasks=[task()])
        for number in range(1, 7):
            endpoint.send(rq.CompleteActivity(RUN, number, number, Payload(b'"' + b"x" * 400_000 + b'"')), unheard)
        big = tuple(RecordSideEffect(n, "s", Payload(b'"' + b"x" * 700_000 + b'"')) for n in range(2))
        received: list[Any] = []
        endpoint.send(
            rq.Advance(RUN, WORKER, 1, 1, (*big, CompleteWorkflow())), lambda _, error: received.append(error)
        )
        bodies = encode_worker_message(endpoint, endpoint.compose())
        endpoint.settle_refused()
        assert len(bodies) == 3
        assert all(len(body) <= 2_000_000 for body in bodies)
        numbers = [report.n for body in bodies for report in decode_worker_message(body).reports]
        assert numbers == [1, 2, 3, 4, 5, 6]
        await asyncio.sleep(0)
        assert [type(error) for error in received] == [Invalid]
        assert "more than a message can hold" in str(received[0])

    linked_async(test)


def test_a_report_that_cannot_be_written_is_refused_and_the_others_are_said():
    async def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, activities=[attempt(7)], tasks=[task()])
        received: list[Any] = []
        bad: Any = object()
        endpoint.send(rq.Advance(RUN, WORKER, 1, 1, (WaitForSignal(bad),)), lambda _, error: received.append(error))
        endpoint.send(rq.CompleteActivity(RUN, 7, 7), unheard)
        assert [report.n for report in composed(endpoint).reports] == [2]
        assert [report.n for report in composed(endpoint, hello=True).reports] == [2]
        await asyncio.sleep(0)
        assert [type(error) for error in received] == [Invalid]
        assert "cannot be written" in str(received[0])
        endpoint.send(rq.Advance(RUN, WORKER, 1, 1, (FailWorkflow("a bad command"),)), unheard)
        assert [(report.n, report.token) for report in composed(endpoint).reports] == [(3, "t-1")]

    linked_async(test)


@pytest.mark.parametrize("kind", ["INVALID", "INTERNAL"])
def test_what_is_refused_for_what_it_says_leaves_the_lease_for_another_word(kind: str):
    def test(endpoint: WorkerEndpoint, bench: Bench) -> None:
        deliver(endpoint, tasks=[task()], activities=[attempt(7)])
        endpoint.send(advance(), unheard)
        endpoint.send(rq.CompleteActivity(RUN, 7, 7), unheard)
        problem = wire.Problem("not like this", "invalid", kind)
        deliver(endpoint, answers=[wire.ReportAnswer(1, problem), wire.ReportAnswer(2, problem)])
        endpoint.send(rq.Advance(RUN, WORKER, 1, 1, (FailWorkflow("a bad command"),)), unheard)
        endpoint.send(rq.FailActivity(RUN, 7, 7, FailureInfo()), unheard)
        assert [report.n for report in composed(endpoint).reports] == [1, 2, 3, 4]
        deliver(endpoint, answers=[wire.ReportAnswer(3, problem), wire.ReportAnswer(4, problem)])
        assert isinstance(refusal_of(endpoint, rq.FailActivity(RUN, 7, 7, FailureInfo())), Refused)
        endpoint.send(rq.FailTask(RUN, WORKER, 1, "task_failed", "the engine takes nothing"), unheard)
        deliver(endpoint, answers=[wire.ReportAnswer(5, problem)])
        assert isinstance(refusal_of(endpoint, advance()), Refused)
        assert endpoint.idle

    linked(test)


def test_the_learned_clock_never_goes_back_a_little(monkeypatch: pytest.MonkeyPatch):
    now = 50 * SECOND
    monkeypatch.setattr("assay.sdk.client.http.clock._steady", lambda: now)
    clock = LearnedClock()
    assert clock.now() == 0
    clock.learn(1_000 * SECOND)
    assert clock.now() == 1_000 * SECOND
    now += SECOND
    clock.learn(1_000 * SECOND + SECOND // 2)  # it was under way for half a second
    assert clock.now() == 1_001 * SECOND
    clock.learn(900 * SECOND)  # the engine's clock was set back
    assert clock.now() == 900 * SECOND


def test_messages_are_numbered_each_one_more_than_the_last():
    def check(endpoint: WorkerEndpoint, _: Bench) -> None:
        first, second = composed(endpoint), composed(endpoint, hello=True)
        waiting = endpoint.poll(5.0)
        assert [message.number for message in (first, second, waiting)] == [2, 3, 4]
        assert waiting.wait_secs == 5.0

    linked(check)
