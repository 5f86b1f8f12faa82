"""Rules of mailboxes that watch workflows: they receive the end of a chain of runs as a letter."""

from collections.abc import Sequence

import msgspec

from assay.core.model import requests as rq
from assay.core.model.addresses import MAILBOX, mailbox_address, parse_address
from assay.core.model.effects import MAIL, Decision, DropPeer, OutboxMessage, PutPeer, Send
from assay.core.model.errors import Invalid
from assay.core.model.events import PeerExited, SignalReceived
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, Time, WorkflowId, seconds
from assay.core.model.payload import NULL, Payload
from assay.core.model.peers import LINK, MODE_OF, MODES, WATCHED_BY, Peer
from assay.core.model.run import COMPLETED, Run
from assay.core.rules.moment import Moment, Unprepared
from assay.core.rules.watches import after, exit_of, not_found, own_address


def fire(decision: Decision) -> None:
    """Send the end of the run to mailboxes: of a normal end one letter, of a failed one to the monitor and the link."""
    closing = decision.events[-1].event
    watchers = [peer for peer in after(decision).values() if peer.name.startswith(MAILBOX)]
    by_mailbox: dict[str, dict[str, Peer]] = {}
    for peer in watchers:
        by_mailbox.setdefault(peer.name, {})[MODE_OF[peer.kind]] = peer
    for modes in by_mailbox.values():
        found = [(mode, modes[mode]) for mode in MODES if mode in modes]
        is_normal = closing.closes == COMPLETED
        for mode, peer in found[:1] if is_normal else found:
            ended = exit_of(0, mode, peer.pid, decision.run.run_id, closing)
            decision.add(Send(exit_letter(peer.name, ended, decision.run.run_id, decision.now)))


class ExitLetter(msgspec.Struct, frozen=True):
    """The end of a watched run, as a mailbox receives it."""

    kind: str
    sender: str = msgspec.field(name="from")
    at: float
    value: Payload = NULL
    error: FailureInfo | None = None


def exit_letter(mailbox: str, ended: PeerExited, about: str, now: Time) -> OutboxMessage:
    """Return the message to a mailbox about the end of a run."""
    is_down = ended.mode == LINK and ended.failure is not None
    address = parse_address(mailbox)
    assert address is not None  # noqa: S101  # only mailboxes are entered
    kind, topic = ("pid.link.down", "@link_down") if is_down else ("pid.exit", "@exit")
    letter = ExitLetter(kind, ended.pid, seconds(now), ended.result, ended.failure)
    return OutboxMessage(
        key=f"{about}/exit/{mailbox}/{ended.mode}/{now}",
        namespace=Namespace(address.namespace),
        workflow_id=WorkflowId(address.id),
        run_id=None,
        kind=MAIL,
        event=SignalReceived(topic, Payload(msgspec.json.encode(letter))),
    )


def watch_from_outside(run: Run, request: rq.AddWatcher, at: Moment) -> Decision:
    """Add a mailbox to the watchers of a run; a run that has closed fires at once."""
    decision = Decision.of(run, at.now)
    if run.closed:
        if request.ending is None:
            raise Unprepared(run.run_id)
        ended = exit_of(0, request.mode, request.pid, run.run_id, request.ending)
        decision.add(Send(exit_letter(request.watcher, ended, run.run_id, at.now)))
    else:
        decision.add(PutPeer(Peer(WATCHED_BY[request.mode], request.watcher, 0, request.pid)))
    return decision


def add_mailboxes(decision: Decision, watchers: Sequence[tuple[str, str]]) -> None:
    """Add the mailboxes of a start request to the watchers of its run."""
    for mode, mailbox in watchers:
        decision.add(PutPeer(Peer(WATCHED_BY[mode], mailbox, 0, own_address(decision.run))))


def unwatch_from_outside(run: Run, request: rq.RemoveWatcher, at: Moment) -> Decision:
    """Remove a mailbox from the watchers of a run."""
    decision = Decision.of(run, at.now)
    if run.peers is not None and (WATCHED_BY[request.mode], request.watcher) in run.peers:
        decision.add(DropPeer((WATCHED_BY[request.mode], request.watcher)))
    return decision


def unknown_run(request: rq.AddWatcher, now: Time) -> OutboxMessage:
    """Return the message to a mailbox that watches a workflow that does not exist."""
    return exit_letter(request.watcher, not_found(0, request.mode, request.pid), "none", now)


def check_mailbox(watcher: str, mode: str, field: str = "watcher") -> str:
    """Return the canonical address of a mailbox that is to watch; raise `Invalid` for any other watcher or mode."""
    address = parse_address(watcher)
    if address is None or address.scheme != MAILBOX:
        raise Invalid(f"{field} must be the address of a mailbox, mbx://...", field=field)
    if mode not in MODES:
        raise Invalid(f"mode is {' or '.join(MODES)}, not {mode!r}", field="mode")
    return mailbox_address(address.namespace, address.id)
