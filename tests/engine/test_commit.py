"""The write path: one outcome per request, heard only when it is durable, and nobody fails for another's sake."""

import asyncio

import msgspec
import pytest

from assay.core.model.commands import ScheduleActivity
from assay.core.model.errors import AlreadyExists, Invalid, Kind, NotFound, Unavailable
from assay.core.model.ids import SECOND, Namespace, WorkerId, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.replies import Started
from assay.core.model.requests import Advance, LeaseTask, Signal, StartWorkflow, Terminate
from assay.engine.commit import attempt as attempt_module
from assay.engine.commit.committer import Undecidable
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
from assay.engine.timekeeper import DUE_RETRY_PAUSE
from assay.storage.ports import Broken, Changes, Conflict, OutcomeUnknown, Rejected
from tests.engine.noting_worker import NotingWorker

MAIN = Namespace("main")


def start(workflow_id: str, **options: object) -> StartWorkflow:
    return StartWorkflow(namespace=MAIN, workflow_id=WorkflowId(workflow_id), workflow_type="T", **options)  # type: ignore[arg-type]


def signal(workflow_id: str, name: str) -> Signal:
    return Signal(MAIN, WorkflowId(workflow_id), name=name)


def test_requests_of_one_batch_see_each_other(with_engine):
    async def body(engine, clock):
        pending = [engine.submit(request) for request in (start("a"), signal("a", "one"), signal("a", "two"))]
        await asyncio.gather(*pending)
        run_id = pending[0].result().key.run_id
        kinds = [type(recorded.event).__name__ for recorded in await engine.reads.history(run_id)]
        assert kinds == ["WorkflowStarted", "SignalReceived", "SignalReceived"]

    with_engine(body)


def test_a_run_whose_stored_history_is_too_large_fails(with_engine, monkeypatch):
    monkeypatch.setattr(attempt_module, "LIMITS", msgspec.structs.replace(LIMITS, history_bytes=10))

    async def body(engine, clock):
        key = (await engine.submit(start("long"))).key
        task = await engine.submit(LeaseTask(key.run_id, WorkerId("w"), None))
        command = ScheduleActivity(1, "charge")
        assert (await engine.submit(Advance(key.run_id, WorkerId("w"), task.epoch, 1, (command,)))).closed
        found = await engine.reads.run("main", "long")
        assert (found.run.status, found.closing.failure.type) == ("FAILED", "limit_exceeded")

    with_engine(body)


def test_a_refused_request_fails_alone(with_engine):
    async def body(engine, clock):
        pending = [engine.submit(request) for request in (start("a"), start("a"), signal("b", "x"), start("c"))]
        answers = await asyncio.gather(*pending, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Started, AlreadyExists, NotFound, Started]

    with_engine(body)


def test_equal_starts_at_once_make_one_run(with_engine):
    async def body(engine, clock):
        answers = await asyncio.gather(*(engine.submit(start("a")) for _ in range(50)), return_exceptions=True)
        assert sum(isinstance(answer, Started) for answer in answers) == 1

    with_engine(body)


@pytest.mark.parametrize("error", [Rejected("full"), OutcomeUnknown("who knows")])
def test_after_a_failed_write_nothing_is_believed(with_engine, monkeypatch, error):
    """I3: the caller hears that nothing was written, as the store shows, and the next decision rests on that."""

    async def body(engine, clock):
        key = (await engine.submit(start("a"))).key
        write = engine._store.write

        async def failing(changes: Changes):
            raise error

        monkeypatch.setattr(engine._store, "write", failing)
        with pytest.raises(Rejected):
            await engine.submit(signal("a", "lost"))
        monkeypatch.setattr(engine._store, "write", write)
        await engine.submit(signal("a", "kept"))
        history = await engine.reads.history(key.run_id)
        assert [recorded.seq for recorded in history] == [1, 2]
        assert history[1].event.signal == "kept"

    with_engine(body)


def test_a_broken_store_stops_the_engine(with_engine, monkeypatch):
    async def body(engine, clock):
        async def failing(changes: Changes):
            raise Broken("the disk is gone")

        monkeypatch.setattr(engine._store, "write", failing)
        with pytest.raises(Broken):
            await engine.submit(start("a"))
        with pytest.raises(Broken):
            await engine.submit(start("b"))

    with_engine(body)


def test_a_conflict_is_decided_again(with_engine, monkeypatch):
    async def body(engine, clock):
        write, tries = engine._store.write, []

        async def conflicting(changes: Changes):
            tries.append(len(changes.new_runs))
            if len(tries) == 1:
                raise Conflict("somebody was faster")
            return await write(changes)

        monkeypatch.setattr(engine._store, "write", conflicting)
        await asyncio.gather(engine.submit(start("a")), engine.submit(start("b")))
        assert tries == [2, 1, 1]

    with_engine(body)


def test_a_bug_fails_the_request_that_met_it_and_no_other_of_its_batch(with_engine, monkeypatch):
    """One request that raises in the engine fails alone, with an error that must not be retried."""

    async def body(engine, clock):
        decide = attempt_module.decide

        def poisoned(run, request, at):
            if getattr(request, "workflow_id", "") == "poison":
                raise KeyError("a bug")
            return decide(run, request, at)

        monkeypatch.setattr(attempt_module, "decide", poisoned)
        wanted = [start("a"), signal("a", "one"), start("poison"), signal("a", "two"), start("b")]
        pending = [engine.submit(request) for request in wanted]
        answers = await asyncio.gather(*pending, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Started, type(None), Undecidable, type(None), Started]
        assert (answers[2].code, answers[2].kind) == ("internal_error", Kind.INTERNAL)
        assert str(answers[2]) == "the engine could not decide this: KeyError('a bug')"
        history = await engine.reads.history(answers[0].key.run_id)
        assert [getattr(recorded.event, "signal", "") for recorded in history] == ["", "one", "two"]

    with_engine(body)


def test_what_cannot_be_written_fails_alone_too(with_engine, monkeypatch):
    async def body(engine, clock):
        write, sizes = engine._store.write, []

        async def choosy(changes: Changes):
            sizes.append(len(changes.new_runs))
            if any(run.workflow_id == "poison" for run in changes.new_runs):
                raise TypeError("Bad binding argument type supplied")
            return await write(changes)

        monkeypatch.setattr(engine._store, "write", choosy)
        pending = [engine.submit(start(name)) for name in ("a", "poison", "b")]
        answers = await asyncio.gather(*pending, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Started, Undecidable, Started]
        assert sizes == [3, 1, 1, 1]

    with_engine(body)


def test_a_worker_whose_lease_meets_a_bug_has_its_hand_free_again(with_engine, monkeypatch):
    async def body(engine, clock):
        decide = attempt_module.decide

        def poisoned(run, request, at):
            if isinstance(request, LeaseTask):
                raise KeyError("a bug")
            return decide(run, request, at)

        await engine.submit(start("a"))
        worker = NotingWorker()
        monkeypatch.setattr(attempt_module, "decide", poisoned)
        engine.add_worker(worker)
        await engine.find_work(worker)
        assert worker.slots.tasks == 0
        await engine._committer.drain()
        assert worker.slots.tasks == 1

    with_engine(body)


def test_a_deadline_that_meets_a_bug_is_not_asked_for_without_a_pause(with_engine, monkeypatch):
    async def body(engine, clock):
        await engine.submit(start("a", run_timeout=SECOND))
        monkeypatch.setattr(attempt_module, "decide", lambda run, request, at: 1 / 0)
        clock.advance(2 * SECOND)
        keeper = engine._timekeeper
        assert await keeper.run_once() == clock.now() + DUE_RETRY_PAUSE

    with_engine(body)


def test_answers_are_sent_even_if_a_worker_cannot_take_its_task(with_engine, monkeypatch):
    async def body(engine, clock):
        sent = []
        engine.on_replies(lambda: sent.append(engine.replying))
        with monkeypatch.context() as broken:
            broken.setattr(attempt_module.BatchAttempt, "_send_to_workers", lambda turn, lost: 1 / 0)
            await engine.submit(start("a"))
            await engine._committer.drain()
        assert sent == [False]
        await engine.submit(signal("a", "and it goes on"))

    with_engine(body)


@pytest.mark.timeout(20)
def test_draining_ends_also_in_the_moment_after_a_flush(with_engine, monkeypatch):
    """Whoever hears an answer may stop the engine at once: the flush is over then, and nobody knows it yet."""

    async def body(engine, clock):
        write = engine._store.write

        async def slow(changes: Changes):
            await asyncio.sleep(0)
            return await write(changes)

        monkeypatch.setattr(engine._store, "write", slow)
        await engine.submit(start("a"))
        await engine._committer.drain()

    with_engine(body)


def rendered(reply: object) -> tuple[int, bytes]:
    return (409, str(reply).encode()) if isinstance(reply, Exception) else (201, b"started")


def keyed(key: str, fingerprint: bytes = b"same") -> IdempotencyKey:
    return IdempotencyKey("main", key, fingerprint, rendered)


def test_a_key_has_one_effect_and_one_answer(with_engine):
    async def body(engine, clock):
        ask = engine._committer.submit
        first = await ask(start("a"), keyed("k"))
        assert first == Rendered(201, b"started")
        again = await asyncio.gather(*(ask(start("a"), keyed("k")) for _ in range(3)))
        assert again == [Rendered(201, b"started", replayed=True)] * 3
        with pytest.raises(Invalid, match="another request"):
            await ask(start("b"), keyed("k", b"other"))

    with_engine(body)


def test_a_refusal_is_remembered_too(with_engine):
    async def body(engine, clock):
        ask = engine._committer.submit
        await engine.submit(start("a"))
        refused = await ask(start("a"), keyed("k"))
        assert refused.status == 409
        await engine.submit(Terminate(MAIN, WorkflowId("a")))
        assert await ask(start("a"), keyed("k")) == Rendered(409, refused.body, replayed=True)

    with_engine(body)


def test_a_stopped_engine_says_so(with_engine):
    async def body(engine, clock):
        engine._committer.stop(Unavailable("stopped", code="engine_stopped"))
        with pytest.raises(Unavailable):
            await engine.submit(start("a"))

    with_engine(body)
