"""Every state in which a run can be, as the steps that lead to it."""

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.ids import SECOND
from assay.core.model.payload import Payload
from tests.core.support import (
    CHILD,
    MAIN,
    ONE,
    ORDER,
    Step,
    World,
    asks_to_cancel,
    beats,
    bore,
    claims,
    completes,
    delivered,
    delivers,
    elapses,
    fails,
    fails_task,
    gives_back,
    later,
    leases,
    scheduled,
    signals,
    starts,
    terminates,
    turned,
)

DOCUMENT = Payload('{"n":12345678901234567890,"text":"ünïcode \\u2028 🙂","list":[1.0,1,null]}'.encode())

WAIT = cmd.WaitForSignal("paid")
DONE = cmd.CompleteWorkflow(ONE)

FAILED_WITH_A_CHILD: list[Step] = [
    starts(),
    turned(
        cmd.ScheduleActivity(1, "charge", max_attempts=1),
        cmd.StartChildWorkflow("Child", CHILD, parent_close_policy="abandon"),
    ),
    leases(1),
    fails(1),
    turned(cmd.FailWorkflow("no luck")),
]


def reopened(world: World) -> rq.Request:
    """Retry the failed run from before its failed activity."""
    return rq.RetryFailed(MAIN, ORDER, None, "ada", "try again", histories=world.histories)


def reopened_anew(world: World) -> rq.Request:
    """The failed run goes on from its first event."""
    return rq.RetryFailed(MAIN, ORDER, None, "ada", "try again", 1, world.histories)


ADOPTS = turned(cmd.StartChildWorkflow("Child", CHILD, seq=5, parent_close_policy="abandon"))

STATES: dict[str, list[Step]] = {
    "started": [starts(input=DOCUMENT)],
    "leased": [starts(), claims()],
    "leased by a worker of this process": [starts(), claims(lease=None, local=True)],
    "waiting for its first task": [starts(start_delay=5 * SECOND)],
    "with time-outs": [starts(execution_timeout=60 * SECOND, run_timeout=9 * SECOND, task_timeout=SECOND)],
    "repeated by policy": [starts(input=DOCUMENT, cron_schedule="0 0 * * *")],
    "stuck": [starts(), claims(), fails_task()],
    "with documents": [starts(memo=Payload(b'{"a":1}'), search_attributes=Payload(b'{"b":2}'), context=DOCUMENT)],
    "with new documents": [
        starts(memo=Payload(b'{"a":1}'), search_attributes=Payload(b'{"b":2}')),
        turned(cmd.UpsertAttributes(search=Payload(b'{"b":null,"c":[1,2]}'), memo=DOCUMENT), WAIT),
    ],
    "without its documents": [
        starts(memo=Payload(b'{"a":1}')),
        turned(cmd.UpsertAttributes(memo=Payload(b'{"a":null}')), WAIT),
    ],
    "waiting for a signal": [starts(), turned(WAIT)],
    "signalled": [starts(), turned(WAIT), signals("other", DOCUMENT)],
    "asked to cancel": [starts(), claims(), asks_to_cancel(reason="no stock", deadline=3 * SECOND)],
    "with a waiting activity": [starts(), scheduled(1, input=DOCUMENT, heartbeat_timeout_secs=2.5)],
    "with a running activity": [starts(), scheduled(1), leases(1), beats(1, DOCUMENT)],
    "with an activity that backs off": [starts(), scheduled(1), leases(1), fails(1)],
    "with an activity given back": [starts(), scheduled(1), leases(1), gives_back(1)],
    "with an unwanted activity": [starts(), scheduled(1), leases(1), asks_to_cancel()],
    "with several activities": [
        starts(),
        turned(*(cmd.ScheduleActivity(seq, "charge") for seq in (1, 2, 3))),
        leases(2),
    ],
    "with timers": [starts(), turned(cmd.ScheduleTimer(1, 5.0), cmd.ScheduleTimer(2, 0.5), cmd.CancelTimer(1))],
    "with a side effect": [
        starts(),
        turned(cmd.RecordSideEffect(1, "id", DOCUMENT, resume=False), cmd.RecordVersion("x", 2), WAIT),
    ],
    "with a child": [starts(), bore()],
    "with an abandoned child": [starts(), bore(parent_close_policy="abandon", seq=7)],
    "with a child asked to cancel": [starts(), bore(), asks_to_cancel()],
    "with a child that was told to cancel": [starts(), bore(), asks_to_cancel(), delivers("cancel", CHILD)],
    "with a child whose end is under way": [starts(), bore(), turned(cmd.CompleteWorkflow(ONE), of=CHILD)],
    "with a child that is done": [starts(), bore(), turned(cmd.CompleteWorkflow(ONE), of=CHILD), delivered()],
    "reopened with an adopted child": [*FAILED_WITH_A_CHILD, reopened],
    "reopened and waiting for an adopted child": [*FAILED_WITH_A_CHILD, reopened, leases(1), completes(1), turned()],
    "reopened with a child whose end is under way": [*FAILED_WITH_A_CHILD, reopened, turned(DONE, of=CHILD)],
    "reopened with a child whose end was passed on": [
        *FAILED_WITH_A_CHILD,
        reopened,
        turned(DONE, of=CHILD),
        delivers("child_closed", ORDER),
    ],
    "reopened with a child that is done": [*FAILED_WITH_A_CHILD, reopened, turned(DONE, of=CHILD), delivered()],
    "reopened with its child": [starts(), bore(), terminates(), delivered(), reopened],
    "reopened with a child that was still open": [starts(), bore(), terminates(), reopened, delivered()],
    "reopened with a child whose old end is under way": [
        *(starts(), bore(), terminates(), delivers("terminate", CHILD), reopened),
    ],
    "reopened with a child whose old end was passed on": [
        *(starts(), bore(), terminates(), delivers("terminate", CHILD), reopened, delivers("child_closed", ORDER)),
    ],
    "reopened from its first event": [*FAILED_WITH_A_CHILD, reopened_anew],
    "reopened, with a dropped child whose end was passed on": [
        *(*FAILED_WITH_A_CHILD, reopened_anew, turned(DONE, of=CHILD), delivers("child_closed", ORDER)),
    ],
    "reopened, with a dropped child that was adopted": [*FAILED_WITH_A_CHILD, reopened_anew, ADOPTS],
    "reopened, with an adopted child whose end was passed on": [
        *(*FAILED_WITH_A_CHILD, reopened_anew, ADOPTS, turned(DONE, of=CHILD), delivers("child_closed", ORDER)),
    ],
    "completed": [starts(), turned(cmd.CompleteWorkflow(DOCUMENT))],
    "failed": [starts(), turned(cmd.FailWorkflow("no luck"))],
    "terminated": [starts(), scheduled(1), terminates(reason="enough", by="ada")],
    "timed out": [starts(run_timeout=SECOND), later(2 * SECOND), elapses()],
    "continued": [starts(), turned(cmd.ContinueAsNew(DOCUMENT))],
}
