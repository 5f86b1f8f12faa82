"""Rules of watches: monitors and links are decided on the run that is watched, so that its close cannot miss them.

A watch is an entry of the watched run, written without an event. It moves along the chain of runs, and fires once, when
the chain ends: the watcher receives one message per end.
"""

from collections.abc import Collection, Mapping

from assay.core.model import commands as cmd
from assay.core.model.addresses import (
    WORKFLOW,
    Address,
    parse_address,
    workflow_address,
)
from assay.core.model.effects import (
    EXIT,
    UNWATCH,
    WATCH,
    Acknowledge,
    Decision,
    DropPeer,
    OutboxMessage,
    PutPeer,
    Send,
)
from assay.core.model.errors import Invalid, Kind
from assay.core.model.events import (
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    Event,
    OptionsSet,
    PeerExited,
    Recorded,
    WatchAdded,
    WatchRemoved,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.payload import NULL
from assay.core.model.peers import (
    LINK,
    LINKED_BY,
    MODE_OF,
    MODES,
    MONITOR,
    OPTION,
    TRAP_CANCEL,
    TRAP_LINKS,
    WATCHED_BY,
    WATCHES,
    OwnWatch,
    Peer,
)
from assay.core.model.run import COMPLETED, Run
from assay.core.rules.moment import Moment

Watches = tuple[tuple[int, str, str], ...]


def watch(decision: Decision, command: cmd.Watch, denied: Collection[str] = ()) -> None:
    """Record a watch of the run, and send it to the workflow that is to be watched.

    Args:
        decision: The decision about the watcher.
        command: The workflow to watch.
        denied: Namespaces in which the credential of the worker grants nothing: they look empty.
    """
    run, pid, mode = decision.run, command.target, command.mode
    target = check_watch(run.namespace, run.workflow_id, pid, mode)
    own = Peer(WATCHES[mode], str(command.seq), command.seq, pid)
    if run.peers is not None and own.key in run.peers:
        return
    decision.record(WatchAdded(command.seq, pid, mode))
    if target is None or target.namespace in denied:
        decision.record(not_found(command.seq, mode, pid))
        decision.wake()
        return
    if not command.own_child:
        decision.add(PutPeer(own))
        decision.add(Send(watch_message(run, own)))
    if mode == LINK:
        link_back(decision, pid)


def link_back(decision: Decision, pid: str) -> None:
    """Add the other direction of a link: here, so that a run that links and fails in one turn reaches its peer."""
    target = parse_address(pid)
    if target is not None:
        decision.add(PutPeer(Peer(LINKED_BY, address_of(target), 0, own_address(decision.run))))


def check_watch(namespace: str, workflow_id: str, pid: str, mode: str) -> Address | None:
    """Return the address of a workflow to watch, None if the text is no such address; raise `Invalid` if forbidden."""
    if mode not in MODES:
        raise Invalid(f"mode is {' or '.join(MODES)}, not {mode!r}", field="mode")
    target = parse_address(pid)
    if target is None or target.scheme != WORKFLOW:
        return None
    if (target.namespace, target.id) == (namespace, workflow_id):
        raise Invalid(f"a workflow cannot {mode} itself", field="target")
    if mode == LINK and target.namespace != namespace:
        raise Invalid("a workflow can only be linked within its namespace", field="target")
    return target


def watch_message(run: Run, own: Peer) -> OutboxMessage:
    """Return the message that puts a watch of `run` on the watched workflow."""
    return _message(run, own.pid, WATCH, own.number, MODE_OF[own.kind])


def _message(run: Run, pid: str, kind: str, watch_id: int, mode: str) -> OutboxMessage:
    target = parse_address(pid)
    assert target is not None  # noqa: S101  # only addresses are watched
    return OutboxMessage(
        key=f"{run.run_id}/{kind}/{mode}/{watch_id}/{address_of(target)}",
        namespace=Namespace(target.namespace),
        workflow_id=WorkflowId(target.id),
        run_id=None if target.part is None else RunId(target.part),
        kind=kind,
        waiter=run.key,
        watches=((watch_id, mode, pid),),
    )


def address_of(target: Address) -> str:
    """Return the canonical text of a workflow's address."""
    return workflow_address(target.namespace, target.id, target.part)


def own_address(run: Run) -> str:
    """Return the address of the workflow of a run."""
    return workflow_address(run.namespace, run.workflow_id)


def unwatch(decision: Decision, command: cmd.Unwatch, denied: Collection[str] = ()) -> None:
    """End a watch: here, and on the workflow that was watched. For a link both directions end."""
    run, mode = decision.run, command.mode
    if mode not in MODES:
        raise Invalid(f"mode is {' or '.join(MODES)}, not {mode!r}", field="mode")
    decision.record(WatchRemoved(command.watch_id))
    own = (WATCHES[mode], str(command.watch_id))
    if run.peers is not None and own in run.peers:
        decision.add(DropPeer(own))
    target = parse_address(command.target)
    if target is None or target.scheme != WORKFLOW or target.namespace in denied:
        return
    if mode == LINK:
        for key in _links_with(run, target):
            decision.add(DropPeer(key))
    decision.add(Send(_message(run, command.target, UNWATCH, command.watch_id, mode)))


def _links_with(run: Run, target: Address) -> list[tuple[str, str]]:
    """Return the entries of a workflow that is linked to the run."""
    found = []
    for kind, name in run.peers or ():
        other = parse_address(name) if kind == LINKED_BY else None
        if other is not None and (other.scheme, other.namespace, other.id) == (WORKFLOW, target.namespace, target.id):
            found.append((kind, name))
    return found


def set_options(decision: Decision, command: cmd.SetOptions, _: Moment) -> None:
    """Record the options of the run."""
    decision.record(OptionsSet(command.trap_links, command.trap_cancel))
    put_options(decision, trap_links=command.trap_links, trap_cancel=command.trap_cancel)


def put_options(decision: Decision, *, trap_links: bool, trap_cancel: bool) -> None:
    """Add the options of a run to its state."""
    for name, value in ((TRAP_LINKS, trap_links), (TRAP_CANCEL, trap_cancel)):
        if value:
            decision.add(PutPeer(Peer(OPTION, name, 1)))
        elif decision.run.peers is not None:
            decision.add(DropPeer((OPTION, name)))


# on the watched run


def add_watcher(run: Run, message: OutboxMessage, at: Moment) -> Decision:
    """Add the sender of a message to the watchers of the run; of a closed run the next run is watched, or it fires."""
    decision = Decision.of(run, at.now)
    watcher = message.waiter
    if watcher is None:
        return decision
    if run.closed:
        if run.next_run_id is not None:
            decision.add(Send(_redirected(message, run.next_run_id)))
        else:
            decision.add(Send(_exit(run.run_id, _Watcher.of(watcher), message.watches)))
        return decision
    name = workflow_address(watcher.namespace, watcher.workflow_id, watcher.run_id)
    for watch_id, mode, pid in message.watches:
        decision.add(PutPeer(Peer(WATCHED_BY[mode], name, watch_id, pid)))
    return decision


def remove_watcher(run: Run, message: OutboxMessage, at: Moment) -> Decision:
    """Remove the sender of a message from the watchers of the run, unless it has begun a newer watch."""
    decision = Decision.of(run, at.now)
    watcher = message.waiter
    if watcher is None:
        return decision
    if run.closed:
        if run.next_run_id is not None:
            decision.add(Send(_redirected(message, run.next_run_id)))
        return decision
    name = workflow_address(watcher.namespace, watcher.workflow_id, watcher.run_id)
    for watch_id, mode, _ in message.watches:
        known = None if run.peers is None else run.peers.get((WATCHED_BY[mode], name))
        if known is not None and known.number == watch_id:
            decision.add(DropPeer(known.key))
        if mode == LINK:
            for key in _links_with(run, Address(WORKFLOW, watcher.namespace, watcher.workflow_id)):
                if run.peers is not None and (watch_id == 0 or run.peers[key].number == 0):
                    decision.add(DropPeer(key))
    return decision


def _redirected(message: OutboxMessage, run_id: RunId) -> OutboxMessage:
    return _replaced(message, key=f"{message.key}>{run_id}", run_id=run_id)


def _replaced(message: OutboxMessage, *, key: str, run_id: RunId) -> OutboxMessage:
    return OutboxMessage(
        key,
        message.namespace,
        message.workflow_id,
        run_id,
        message.kind,
        waiter=message.waiter,
        about=message.about,
        watches=message.watches,
    )


class _Watcher:
    """The receiver of an exit: a run, or the current run of a workflow."""

    __slots__ = ("namespace", "run_id", "workflow_id")

    def __init__(self, namespace: str, workflow_id: str, run_id: str | None) -> None:
        self.namespace = Namespace(namespace)
        self.workflow_id = WorkflowId(workflow_id)
        self.run_id = None if run_id is None else RunId(run_id)

    @staticmethod
    def of(key: object) -> "_Watcher":
        """Return the watcher for the key of a run."""
        return _Watcher(getattr(key, "namespace", ""), getattr(key, "workflow_id", ""), getattr(key, "run_id", None))


def _exit(about: RunId | None, watcher: _Watcher, watches: Watches) -> OutboxMessage:
    name = workflow_address(watcher.namespace, watcher.workflow_id, watcher.run_id)
    numbers = ".".join(str(watch_id) for watch_id, _, _ in watches)
    return OutboxMessage(
        key=f"{about or 'none'}/exit/{name}/{numbers}",
        namespace=watcher.namespace,
        workflow_id=watcher.workflow_id,
        run_id=watcher.run_id,
        kind=EXIT,
        about=about,
        watches=watches,
    )


def fire(decision: Decision) -> None:
    """Send the end of the run to its watchers, one message to each; called when the chain of the run ends."""
    run = decision.run
    found: dict[tuple[str, str], dict[str, tuple[Address, Peer]]] = {}
    for peer in after(decision).values():
        address = parse_address(peer.name) if peer.kind in MODE_OF and peer.kind in WATCHED_BY.values() else None
        if address is None or address.scheme != WORKFLOW:
            continue
        of_workflow = found.setdefault((address.namespace, address.id), {})
        known = of_workflow.get(MODE_OF[peer.kind])
        if known is None or known[1].number < peer.number:  # an own watch of the peer counts before the other direction
            of_workflow[MODE_OF[peer.kind]] = address, peer
    for modes in found.values():
        first = max(modes.values(), key=lambda one: one[1].number)[0]
        watches = tuple((peer.number, mode, peer.pid) for mode in MODES if mode in modes for _, peer in (modes[mode],))
        decision.add(Send(_exit(run.run_id, _Watcher(first.namespace, first.id, first.part), watches)))


def after(decision: Decision) -> dict[tuple[str, str], Peer]:
    """Return the entries of the run after a decision."""
    found = dict(decision.run.peers or {})
    for effect in decision.effects:
        if isinstance(effect, PutPeer):
            found[effect.peer.key] = effect.peer
        elif isinstance(effect, DropPeer):
            found.pop(effect.key, None)
    return found


def clear(decision: Decision) -> None:
    """Delete the entries of a run that closes, and end its own watches on the watched workflows if its chain ends."""
    for key in after(decision):
        decision.add(DropPeer(key))


def leave(decision: Decision) -> None:
    """End the own watches of a run whose chain ends: the watched workflows forget it."""
    for peer in after(decision).values():
        if peer.kind in WATCHES.values():
            message = _message(decision.run, peer.pid, UNWATCH, peer.number, MODE_OF[peer.kind])
            decision.add(Send(message))


def move(ended: Mapping[tuple[str, str], Peer], opening: Decision, *, own: bool) -> None:
    """Give the watchers of a run to the next run of its chain, and with `own` the run's own watches."""
    for peer in ended.values():
        if peer.kind in WATCHED_BY.values() or (own and peer.kind in WATCHES.values()):
            opening.add(PutPeer(peer))


def carried(peers: Mapping[tuple[str, str], Peer] | None) -> tuple[OwnWatch, ...]:
    """Return the own watches of a run for its next run, in order of their numbers."""
    own = [peer for peer in (peers or {}).values() if peer.kind in WATCHES.values()]
    return tuple(OwnWatch(peer.number, peer.pid, MODE_OF[peer.kind]) for peer in sorted(own, key=_number))


def _number(peer: Peer) -> int:
    return peer.number


# on the watcher


def exited(run: Run, message: OutboxMessage, endings: Mapping[RunId, Event], at: Moment) -> Decision:
    """Record the end of a watched workflow, for the monitor and then for the link; a normal end is recorded once."""
    decision = Decision.of(run, at.now)
    if run.closed:
        if run.next_run_id is not None and run.close_reason == "continued_as_new":
            decision.add(Send(_redirected(message, run.next_run_id)))
        return decision
    closing = None if message.about is None else endings.get(message.about)
    events = [exit_of(watch_id, mode, pid, message.about, closing) for watch_id, mode, pid in message.watches]
    if events and events[0].status == COMPLETED:
        del events[1:]
    for watch_id, mode, pid in message.watches:
        own = (WATCHES[mode], str(watch_id))
        if watch_id and (run.peers is None or own not in run.peers):
            events = [event for event in events if (event.watch_id, event.mode) != (watch_id, mode)]
        elif watch_id:
            decision.add(DropPeer(own))
        target = parse_address(pid)
        if mode == LINK and target is not None:
            for key in _links_with(run, target):
                decision.add(DropPeer(key))
    for event in events:
        decision.record(event)
        decision.wake()
    return decision


def exit_of(watch_id: int, mode: str, pid: str, run_id: RunId | None, closing: Event | None) -> PeerExited:
    """Return the event about the end of a watched run; without a closing event, of one that does not exist."""
    if closing is None or run_id is None:
        return not_found(watch_id, mode, pid)
    if isinstance(closing, WorkflowCompleted | WorkflowContinuedAsNew):
        result = closing.result if isinstance(closing, WorkflowCompleted) else NULL
        return PeerExited(watch_id, mode, pid, run_id, COMPLETED, result)
    return PeerExited(watch_id, mode, pid, run_id, closing.closes, NULL, failure_of(closing))


def failure_of(closing: Event) -> FailureInfo:
    """Return the failure of a run that ended without a result, as its watchers receive it."""
    match closing:
        case WorkflowFailed(error=text, failure=info):
            return info or FailureInfo(kind=Kind.UNKNOWN, message=text)
        case WorkflowCancelled(reason=reason):
            return FailureInfo(kind=Kind.CANCELED, message=_with(reason, "workflow cancelled"), retryable=False)
        case WorkflowTerminated(reason=reason):
            text = _with(None if reason == "terminated" else reason, "workflow terminated")
            return FailureInfo(kind=Kind.CANCELED, message=text, retryable=False)
        case WorkflowTimedOut(scope=scope, error=text):
            message = text or f"workflow {scope} timed out"
            return FailureInfo(kind=Kind.TIMEOUT, message=message, retryable=False, timeout_type=scope)
    return FailureInfo(kind=Kind.UNKNOWN, message=closing.recorded_name)


def as_exit(recorded: Recorded, namespace: str) -> Recorded:
    """Return the end of a child as the end of a monitored workflow; any other event unchanged."""
    event = recorded.event
    if not isinstance(event, ChildWorkflowCompleted | ChildWorkflowFailed):
        return recorded
    pid = workflow_address(namespace, event.child_workflow_id)
    if isinstance(event, ChildWorkflowCompleted):
        exited = PeerExited(0, MONITOR, pid, event.run_id, COMPLETED, event.result)
    else:
        failure = event.failure or FailureInfo(kind=Kind.UNKNOWN, message=event.error)
        exited = PeerExited(0, MONITOR, pid, event.run_id, (event.close_reason or "failed").upper(), NULL, failure)
    return Recorded(recorded.seq, recorded.time, exited, recorded.id)


def _with(reason: str | None, text: str) -> str:
    return text if not reason else f"{text}: {reason}"


def not_found(watch_id: int, mode: str, pid: str) -> PeerExited:
    """Return the event about a watched workflow that does not exist."""
    failure = FailureInfo(kind=Kind.NOT_FOUND, message=f"{pid} not found", retryable=False)
    return PeerExited(watch_id, mode, pid, failure=failure)


def unknown_target(message: OutboxMessage) -> list[Acknowledge | Send]:
    """Return the effects of a watch whose target does not exist: it fires."""
    if message.kind != WATCH or message.waiter is None:
        return []
    return [Send(_exit(None, _Watcher.of(message.waiter), message.watches))]
