"""The answers that a database in memory gives to the statements of `storage.sql.queries`, row for row."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from assay.storage.sql import queries
from assay.storage.sql import tables as t
from simulation.tables import PLACE, Cells, Tables

MAX_EVENTS = 100_000
Answer = Callable[..., Sequence[Sequence[Any]]]
RUN, ACTIVITY, OUTBOX, SCHEDULE = PLACE["runs"], PLACE["activities"], PLACE["outbox_messages"], PLACE["schedules"]


def _event(tables: Tables, run_id: str, seq: int) -> Cells | None:
    return tables.rows["events"].get((run_id, seq))


def _with_documents(tables: Tables, row: Cells) -> Cells:
    """A run's row as queries ask for it: with the data of its first event and its documents."""
    opening = _event(tables, row[0], 1)
    documents = tables.rows["documents"].get((row[0],), (None, None, None))
    return (*row, None if opening is None else opening[5], *documents)


def runs_by_id(tables: Tables, run_ids: Iterable[str]) -> list[Cells]:
    """RUNS_BY_ID."""
    found = (tables.rows["runs"].get((run_id,)) for run_id in run_ids)
    return [_with_documents(tables, row) for row in found if row is not None]


def _newest(tables: Tables, namespace: str, workflow_id: str) -> Cells | None:
    chain = [row for row in tables.rows["runs"].values() if (row[1], row[2]) == (namespace, workflow_id)]
    return max(chain, key=lambda row: row[3], default=None)


def newest_runs(tables: Tables, namespaces: Sequence[str], workflow_ids: Sequence[str]) -> list[Cells]:
    """NEWEST_RUNS."""
    found = (_newest(tables, *wanted) for wanted in zip(namespaces, workflow_ids, strict=True))
    return [_with_documents(tables, row) for row in found if row is not None]


def inputs(tables: Tables, run_ids: Iterable[str]) -> list[Cells]:
    """INPUTS."""
    found = (_event(tables, run_id, 1) for run_id in run_ids)
    return [(row[0], row[4]) for row in found if row is not None]


def open_activities(tables: Tables, run_ids: Sequence[str]) -> list[Cells]:
    """OPEN_ACTIVITIES."""
    of_run, closed = ACTIVITY["run_id"], ACTIVITY["completed_at"]
    return [row for row in tables.rows["activities"].values() if row[of_run] in run_ids and row[closed] is None]


def run_deadlines(tables: Tables, run_ids: Sequence[str]) -> list[Cells]:
    """RUN_DEADLINES."""
    found = [row for row in tables.rows["deadlines"].values() if row[0] in run_ids]
    watched = Counter(row[0] for row in tables.rows["peers"].values() if row[0] in run_ids)
    versions = [(*row[:3], None) for row in tables.rows["versions"].values() if row[0] in run_ids]
    return [*found, *((run_id, "peers", number, -1) for run_id, number in watched.items()), *versions]


def peers(tables: Tables, run_ids: Sequence[str]) -> list[Cells]:
    """PEERS."""
    return [row for row in tables.rows["peers"].values() if row[0] in run_ids]


def open_children(tables: Tables, run_ids: Sequence[str]) -> list[Cells]:
    """OPEN_CHILDREN."""
    parent, closed = RUN["parent_run_id"], RUN["closed_at"]
    of_run, kind = OUTBOX["run_id"], OUTBOX["kind"]
    runs, messages = tables.rows["runs"], tables.rows["outbox_messages"].values()
    still_open = [(row[parent], row) for row in runs.values() if row[parent] in run_ids and row[closed] is None]
    notified = [
        (row[of_run], runs[child])
        for row in messages
        if row[of_run] in run_ids and row[kind] == "child_closed" and (child := (row[0].partition("/")[0],)) in runs
    ]
    return [(owner, *_child(tables, child)) for owner, child in (*still_open, *notified)]


def adopted_children(tables: Tables, run_ids: Sequence[str]) -> list[Cells]:
    """ADOPTED_CHILDREN."""
    parent, closed = RUN["parent_run_id"], RUN["closed_at"]
    messages = tables.rows["outbox_messages"].values()
    notified = {row[0].partition("/")[0] for row in messages if row[OUTBOX["kind"]] == "child_closed"}
    found = [row for row in tables.rows["runs"].values() if row[parent] in run_ids]
    return [(row[parent], *_child(tables, row)) for row in found if row[closed] is None or row[0] in notified]


def _child(tables: Tables, row: Cells) -> Cells:
    sent = any(
        message[OUTBOX["run_id"]] == row[0] and message[OUTBOX["kind"]] == "cancel"
        for message in tables.rows["outbox_messages"].values()
    )
    opening = _event(tables, row[0], 1)
    cancelled = 1 if row[RUN["cancel_seq"]] > 0 or sent else 0
    return (row[2], row[0], row[1], None if opening is None else opening[5], cancelled)


def events_after(tables: Tables, run_id: str, after: int, limit: int, kind: str | None = None) -> list[Cells]:
    """EVENTS_AFTER and EVENTS_AFTER_OF_KIND."""
    row = tables.rows["runs"].get((run_id,))
    last = 0 if row is None else row[RUN["last_seq"]]
    found = (_event(tables, run_id, seq) for seq in range(after + 1, last + 1))
    wanted = (event for event in found if event is not None and (kind is None or event[3] == kind))
    return [(*event[1:6], event[1]) for event in wanted][:limit]


def due(tables: Tables, now: int, wall: int, limit: int) -> list[Cells]:
    """DUE."""
    rows = sorted(tables.rows["deadlines"].values(), key=lambda row: row[3])
    runs = [row for row in rows if row[1] != "schedule" and row[3] <= now]
    schedules = [row for row in rows if row[1] == "schedule" and row[3] <= wall]
    return runs[:limit] + schedules[:limit]


def next_due(tables: Tables) -> list[Cells]:
    """NEXT_DUE."""
    rows = tables.rows["deadlines"].values()
    runs, schedules = ([row[3] for row in rows if (row[1] == "schedule") is wanted] for wanted in (False, True))
    return [(min(runs, default=None), min(schedules, default=None))]


def ready_tasks(
    tables: Tables, namespace: str, queue: str, kind: str, since: int, run_id: str, limit: int
) -> list[Cells]:
    """READY_TASKS."""
    found = [row for row in map(_task, _ready_runs(tables)) if row[1:4] == (namespace, queue, kind)]
    return sorted((row for row in found if (row[4], row[0]) > (since, run_id)), key=lambda row: (row[4], row[0]))[
        :limit
    ]


def ready_tasks_of_all_types(
    tables: Tables, namespace: str, queue: str, kind: str, since: int, run_id: str, limit: int
) -> list[Cells]:
    """READY_TASKS_OF_ALL_TYPES."""
    found = [(row[3], row[4], row[0], row) for row in map(_task, _ready_runs(tables)) if row[1:3] == (namespace, queue)]
    return [place[-1] for place in sorted(found) if place[:3] > (kind, since, run_id)][:limit]


def _ready_runs(tables: Tables) -> list[Cells]:
    since, worker, not_before = RUN["task_since"], RUN["task_worker"], RUN["task_not_before"]
    found = [
        row
        for row in tables.rows["runs"].values()
        if row[since] is not None and row[worker] is None and row[not_before] is None
    ]
    return sorted(found, key=lambda row: row[RUN["task_order"]])


def _task(row: Cells) -> Cells:
    return (row[0], row[1], row[RUN["task_queue"]], row[RUN["workflow_type"]], row[RUN["task_order"]])


def ready_activities(
    tables: Tables, namespace: str, queue: str, name: str, since: int, run_id: str, seq: int, limit: int
) -> list[Cells]:
    """READY_ACTIVITIES."""
    found = [row for row in map(_waiting, _ready_attempts(tables)) if row[1:4] == (namespace, queue, name)]
    later = [((row[5], row[0], row[4]), row) for row in found if (row[5], row[0], row[4]) > (since, run_id, seq)]
    return [row for _, row in sorted(later)][:limit]


def ready_activities_of_all_names(
    tables: Tables, namespace: str, queue: str, name: str, since: int, run_id: str, seq: int, limit: int
) -> list[Cells]:
    """READY_ACTIVITIES_OF_ALL_NAMES."""
    found = [row for row in map(_waiting, _ready_attempts(tables)) if row[1:3] == (namespace, queue)]
    places = sorted(((row[3], row[5], row[0], row[4]), row) for row in found)
    return [row for place, row in places if place > (name, since, run_id, seq)][:limit]


def _ready_attempts(tables: Tables) -> list[Cells]:
    closed, worker, not_before = ACTIVITY["completed_at"], ACTIVITY["worker"], ACTIVITY["not_before"]
    found = [
        row
        for row in tables.rows["activities"].values()
        if row[closed] is None and row[worker] is None and row[not_before] is None
    ]
    return sorted(found, key=lambda row: row[ACTIVITY["queue_order"]])


def _waiting(row: Cells) -> Cells:
    names = ("run_id", "namespace", "task_queue", "name", "seq", "queue_order")
    return tuple(row[ACTIVITY[name]] for name in names)


def _reserve(
    tables: Tables,
    table: str,
    found: list[Cells],
    demands: Iterable[tuple[str, str, str | None, int]],
    now: int,
    until: int,
) -> list[Cells]:
    """Reserve the oldest rows of each task queue that a demand is for, at most as many as it allows."""
    place = PLACE[table]
    kind = place["workflow_type" if table == "runs" else "name"]
    wanted: dict[tuple[str, str], tuple[set[str | None], int]] = {}
    for namespace, queue, name, free in demands:
        kinds, _ = wanted.setdefault((namespace, queue), (set(), free))
        kinds.add(name)
    taken: list[Cells] = []
    for (namespace, queue), (kinds, free) in wanted.items():
        fitting = [
            row
            for row in found
            if (row[place["namespace"]], row[place["task_queue"]]) == (namespace, queue)
            and (None in kinds or row[kind] in kinds)
            and (row[place["reserved_until"]] or 0) <= now
        ]
        taken += fitting[:free]
    for row in taken:
        tables.rows[table][(row[0],)] = _reserved(row, place["reserved_until"], until)
    return taken


def reserve_tasks(
    tables: Tables, namespaces: Sequence[str], queues: Sequence[str], kinds: Sequence[str | None],
    free: Sequence[int], now: int, until: int,
) -> list[Cells]:  # fmt: skip
    """RESERVE_TASKS and RESERVE_TASKS_OF_ALL_TYPES."""
    demands = zip(namespaces, queues, kinds, free, strict=True)
    return [_task(row) for row in _reserve(tables, "runs", _ready_runs(tables), demands, now, until)]


def reserve_activities(
    tables: Tables, namespaces: Sequence[str], queues: Sequence[str], names: Sequence[str | None],
    free: Sequence[int], now: int, until: int,
) -> list[Cells]:  # fmt: skip
    """RESERVE_ACTIVITIES and RESERVE_ACTIVITIES_OF_ALL_NAMES."""
    demands = zip(namespaces, queues, names, free, strict=True)
    return [_waiting(row) for row in _reserve(tables, "activities", _ready_attempts(tables), demands, now, until)]


def _reserved(row: Cells, place: int, until: int) -> Cells:
    return (*row[:place], until, *row[place + 1 :])


def local_tasks(tables: Tables) -> list[Cells]:
    """LOCAL_TASKS."""
    return [
        (row[0], -1, row[RUN["task_epoch"]])
        for row in tables.rows["runs"].values()
        if row[RUN["closed_at"]] is None and row[RUN["task_local"]] and row[RUN["task_worker"]] is not None
    ]


def local_activities(tables: Tables) -> list[Cells]:
    """LOCAL_ACTIVITIES."""
    runs, names = tables.rows["runs"], ("run_id", "seq", "attempt_id")
    return [
        tuple(row[ACTIVITY[name]] for name in names)
        for row in tables.rows["activities"].values()
        if row[ACTIVITY["completed_at"]] is None
        and row[ACTIVITY["local"]]
        and row[ACTIVITY["worker"]] is not None
        and runs[(row[ACTIVITY["run_id"]],)][RUN["closed_at"]] is None
    ]


def leased_tasks(tables: Tables, worker: str) -> list[Cells]:
    """LEASED_TASKS."""
    return [
        (row[0], -1, row[RUN["task_epoch"]], row[RUN["task_worker"]], row[RUN["task_until"]])
        for row in tables.rows["runs"].values()
        if row[RUN["closed_at"]] is None
        and not row[RUN["task_local"]]
        and row[RUN["task_worker"]] is not None
        and worker in ("", row[RUN["task_worker"]])
    ]


def leased_activities(tables: Tables, worker: str) -> list[Cells]:
    """LEASED_ACTIVITIES."""
    runs, names = tables.rows["runs"], ("run_id", "seq", "attempt_id", "worker", "lease_until")
    return [
        tuple(row[ACTIVITY[name]] for name in names)
        for row in tables.rows["activities"].values()
        if row[ACTIVITY["completed_at"]] is None
        and not row[ACTIVITY["local"]]
        and row[ACTIVITY["worker"]] is not None
        and worker in ("", row[ACTIVITY["worker"]])
        and runs[(row[ACTIVITY["run_id"]],)][RUN["closed_at"]] is None
    ]


def messages(tables: Tables, before: int, limit: int, kinds: Sequence[str]) -> list[Cells]:
    """MESSAGES: the rows are in the order of their insertion."""
    created, kind = OUTBOX["created_at"], OUTBOX["kind"]
    found = [row for row in tables.rows["outbox_messages"].values() if row[created] < before and row[kind] in kinds]
    return found[:limit]


def unseen_inputs(tables: Tables, run_ids: Sequence[str]) -> list[Cells]:
    """UNSEEN_INPUTS."""
    found: list[Cells] = []
    for run_id in sorted(run_ids):
        row = tables.rows["runs"].get((run_id,))
        if row is not None:
            events = events_after(tables, run_id, row[RUN["seen_seq"]], MAX_EVENTS)
            found += [(run_id, seq, kind) for seq, _, kind, *_ in events]
    return found


def updates_of_run(tables: Tables, run_id: str, update_ids: Sequence[str]) -> list[Cells]:
    """UPDATES_OF_RUN."""
    found = (tables.rows["updates"].get((run_id, update_id)) for update_id in update_ids)
    return [row for row in found if row is not None]


def update_of_workflow(tables: Tables, namespace: str, workflow_id: str, update_id: str) -> list[Cells]:
    """UPDATE_OF_WORKFLOW."""
    wanted = (namespace, workflow_id, update_id)
    found = [
        (tables.rows["runs"][(row[0],)], row)
        for row in tables.rows["updates"].values()
        if (row[2], row[3], row[1]) == wanted
    ]
    found.sort(key=lambda pair: -pair[0][RUN["number"]])
    return [(*row, run[RUN["closed_at"]]) for run, row in found[:1]]


def outcomes_by_key(tables: Tables, namespaces: Sequence[str], keys: Sequence[str]) -> list[Cells]:
    """OUTCOMES_BY_KEY."""
    found = (tables.rows["outcomes"].get(wanted) for wanted in zip(namespaces, keys, strict=True))
    return [row for row in found if row is not None]


def schedules_by_key(tables: Tables, keys: Sequence[str]) -> list[Cells]:
    """SCHEDULES_BY_KEY."""
    found = (tables.rows["schedules"].get((key,)) for key in keys)
    return [(row[SCHEDULE["document"]],) for row in found if row is not None]


def all_schedules(tables: Tables) -> list[Cells]:
    """ALL_SCHEDULES."""
    return [(row[SCHEDULE["document"]],) for row in tables.rows["schedules"].values()]


def waiting_schedules(tables: Tables) -> list[Cells]:
    """WAITING_SCHEDULES."""
    return [(row[SCHEDULE["document"]],) for row in tables.rows["schedules"].values() if row[SCHEDULE["waiting"]]]


def snapshot(tables: Tables, run_id: str) -> list[Cells]:
    """SNAPSHOT."""
    found = tables.rows["snapshots"].get((run_id,))
    return [] if found is None else [found]


def describe_newest(tables: Tables, namespace: str, workflow_id: str) -> list[Cells]:
    """DESCRIBE_NEWEST."""
    row = _newest(tables, namespace, workflow_id)
    return [] if row is None else [_record(tables, row)]


def describe_run(tables: Tables, namespace: str, workflow_id: str, run_id: str) -> list[Cells]:
    """DESCRIBE_RUN."""
    row = tables.rows["runs"].get((run_id,))
    return [] if row is None or (row[1], row[2]) != (namespace, workflow_id) else [_record(tables, row)]


def _record(tables: Tables, row: Cells) -> Cells:
    opening, closing = _event(tables, row[0], 1), _event(tables, row[0], row[RUN["last_seq"]])
    outcome = closing[3:5] if closing is not None and closing[3] in queries.ENDINGS else (None, None)
    return (*_with_documents(tables, row), None if opening is None else opening[4], *outcome)


ANSWERS: dict[str, Answer] = {
    queries.RUNS_BY_ID: runs_by_id,
    queries.NEWEST_RUNS: newest_runs,
    queries.INPUTS: inputs,
    queries.OPEN_ACTIVITIES: open_activities,
    queries.RUN_DEADLINES: run_deadlines,
    queries.PEERS: peers,
    queries.OPEN_CHILDREN: open_children,
    queries.ADOPTED_CHILDREN: adopted_children,
    queries.EVENTS_AFTER: events_after,
    queries.EVENTS_AFTER_OF_KIND: events_after,
    queries.DUE: due,
    queries.NEXT_DUE: next_due,
    queries.READY_TASKS: ready_tasks,
    queries.READY_TASKS_OF_ALL_TYPES: ready_tasks_of_all_types,
    queries.READY_ACTIVITIES: ready_activities,
    queries.READY_ACTIVITIES_OF_ALL_NAMES: ready_activities_of_all_names,
    queries.RESERVE_TASKS: reserve_tasks,
    queries.RESERVE_TASKS_OF_ALL_TYPES: reserve_tasks,
    queries.RESERVE_ACTIVITIES: reserve_activities,
    queries.RESERVE_ACTIVITIES_OF_ALL_NAMES: reserve_activities,
    queries.LOCAL_TASKS: local_tasks,
    queries.LOCAL_ACTIVITIES: local_activities,
    queries.LEASED_TASKS: leased_tasks,
    queries.LEASED_ACTIVITIES: leased_activities,
    queries.MESSAGES: messages,
    queries.UNSEEN_INPUTS: unseen_inputs,
    queries.UPDATES_OF_RUN: updates_of_run,
    queries.UPDATE_OF_WORKFLOW: update_of_workflow,
    queries.OUTCOMES_BY_KEY: outcomes_by_key,
    queries.SCHEDULES_BY_KEY: schedules_by_key,
    queries.ALL_SCHEDULES: all_schedules,
    queries.WAITING_SCHEDULES: waiting_schedules,
    queries.SNAPSHOT: snapshot,
    queries.DESCRIBE_NEWEST: describe_newest,
    queries.DESCRIBE_RUN: describe_run,
}
"""By statement. Lists and searches are not here: nothing that the simulation runs asks for them."""

EVENT_COLUMNS = t.EVENTS.names
