"""Names of the things a history is about, and the one source of fresh ones."""

import hashlib
from typing import NewType, Protocol

import msgspec

from assay.core.model.duration import SECOND as SECOND

Namespace = NewType("Namespace", str)
WorkflowId = NewType("WorkflowId", str)
RunId = NewType("RunId", str)
Queue = NewType("Queue", str)
WorkerId = NewType("WorkerId", str)
Seq = NewType("Seq", int)
"""Position of an event in its run's history: dense from 1 (I4)."""

Time = int
"""Microseconds since the Unix epoch, UTC. Integers, so that equal inputs give equal decisions on every machine."""


class RunKey(msgspec.Struct, frozen=True, gc=False):
    """The full identity of a run: a workflow id names a chain of runs, one of them open at most (I15)."""

    namespace: Namespace
    workflow_id: WorkflowId
    run_id: RunId


class Ids(Protocol):
    """Where decisions get fresh ids; injected, so that a simulation can repeat them."""

    def run_id(self) -> RunId:
        """A run id never given before."""
        ...

    def number(self) -> int:
        """A fresh number n of the sequence that activities and attempts share; n + 1 is fresh, too (R35).

        An activity takes n, its first attempt n + 1, so that scheduling costs one call.
        """
        ...


def id_of_request(namespace: str, request_id: str) -> WorkflowId:
    """The id of a start that names none: the same whenever the start is repeated, whatever else it says (I15)."""
    return WorkflowId(f"wf-{hashlib.sha256(f'{namespace}/{request_id}'.encode()).hexdigest()[:24]}")


def seconds(time: Time) -> float:
    """`time` as the wire shows it: floating point seconds."""
    return time / SECOND
