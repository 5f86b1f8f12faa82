"""All queries of the stores, once and by name, with the placeholders of `dialect`."""

from assay.core.model.addresses import workflow_address
from assay.core.model.limits import RUNS_PAGE_BYTES
from assay.core.model.run import OPEN_STATUSES
from assay.storage.ports import RunFilter
from assay.storage.sql.rows import canonical
from assay.storage.sql.run_conditions import checked_status, folded, further_conditions
from assay.storage.sql.tables import ACTIVITIES, FIRES, OUTBOX, OUTCOMES, RUNS, SNAPSHOTS, UPDATES, Table

# ruff: noqa: S608  # only constants of this file and of `tables` are joined; values are parameters


def columns(table: Table, alias: str) -> str:
    """Return the columns of a table for the select list of a query."""
    return ", ".join(f"{alias}.{name}" for name in table.names)


RUN_COLUMNS = f"{columns(RUNS, 'r')}, opening.data, d.run_id, d.memo, d.search"
RUN_TABLES = """runs r
JOIN events opening ON opening.run_id = r.run_id AND opening.seq = 1
LEFT JOIN documents d ON d.run_id = r.run_id"""

RUNS_BY_ID = f"SELECT {RUN_COLUMNS} FROM {RUN_TABLES} WHERE r.run_id $one_of(1)"

NEWEST_RUNS = f"""
SELECT {RUN_COLUMNS}
FROM $pairs(1, 2)
CROSS JOIN {RUN_TABLES}
WHERE r.namespace = wanted.first AND r.workflow_id = wanted.second AND r.number = (
    SELECT max(n.number) FROM runs n WHERE n.namespace = wanted.first AND n.workflow_id = wanted.second
)"""

INPUTS = "SELECT run_id, payload FROM events WHERE seq = 1 AND run_id $one_of(1)"

OPEN_ACTIVITIES = f"""
SELECT {columns(ACTIVITIES, "a")} FROM activities a WHERE a.run_id $one_of(1) AND a.completed_at IS NULL"""

RUN_DEADLINES = """
SELECT run_id, kind, ref, due_at FROM deadlines WHERE run_id $one_of(1)
UNION ALL
SELECT run_id, change_id, version, NULL FROM versions WHERE run_id $one_of(1)
UNION ALL
SELECT run_id, 'peers', count(*), -1 FROM peers WHERE run_id $one_of(1) GROUP BY run_id"""
"""Deadlines, and the recorded versions as rows without a time: few runs have any, and a query of its own costs more."""

PEERS = "SELECT run_id, kind, name, number, pid FROM peers WHERE run_id $one_of(1)"

_CHILD_COLUMNS = """c.workflow_id, c.run_id, c.namespace, opening.data, CASE WHEN c.cancel_seq > 0 OR EXISTS (
    SELECT 1 FROM outbox_messages sent WHERE sent.run_id = c.run_id AND sent.kind = 'cancel'
) THEN 1 ELSE 0 END"""

OPEN_CHILDREN = f"""
SELECT c.parent_run_id, {_CHILD_COLUMNS}
FROM runs c
JOIN events opening ON opening.run_id = c.run_id AND opening.seq = 1
WHERE c.parent_run_id $one_of(1) AND c.closed_at IS NULL
UNION ALL
SELECT ended.run_id, {_CHILD_COLUMNS}
FROM outbox_messages ended
JOIN runs c ON c.run_id = $before(ended.key, '/')
JOIN events opening ON opening.run_id = c.run_id AND opening.seq = 1
WHERE ended.run_id $one_of(1) AND ended.kind = 'child_closed'"""
"""A child stays open to its parent until the parent has received the message of the child's end. The key of the message
begins with the child's run id, also when the message was forwarded to a reopened run."""

ADOPTED_CHILDREN = f"""
SELECT c.parent_run_id, {_CHILD_COLUMNS}
FROM runs c
JOIN events opening ON opening.run_id = c.run_id AND opening.seq = 1
WHERE c.parent_run_id $one_of(1) AND (c.closed_at IS NULL OR EXISTS (
    SELECT 1 FROM outbox_messages ended WHERE ended.kind = 'child_closed' AND $before(ended.key, '/') = c.run_id
))"""
"""The same for children of earlier runs: the message of their end may be addressed to any run in between."""

EVENTS_AFTER = """
SELECT seq, time, kind, payload, data, id FROM events WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"""

EVENTS_AFTER_OF_KIND = """
SELECT seq, time, kind, payload, data, id FROM events
WHERE run_id = $1 AND seq > $2 AND kind = $4 ORDER BY seq LIMIT $3"""

_DUE = """
SELECT run_id, kind, ref, due_at FROM deadlines WHERE kind {} 'schedule' AND due_at <= ${} ORDER BY due_at LIMIT $3"""

_OF_RUNS, _OF_SCHEDULES = _DUE.format("<>", 1), _DUE.format("=", 2)

DUE = f"SELECT * FROM ({_OF_RUNS}) AS due_runs UNION ALL SELECT * FROM ({_OF_SCHEDULES}) AS due_schedules"

NEXT_DUE = """
SELECT (SELECT due_at FROM deadlines WHERE kind <> 'schedule' ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM deadlines WHERE kind = 'schedule' ORDER BY due_at LIMIT 1)"""

READY_TASK = "task_since IS NOT NULL AND task_worker IS NULL AND task_not_before IS NULL"
READY_ACTIVITY = "completed_at IS NULL AND worker IS NULL AND not_before IS NULL"

READY_TASKS = f"""
SELECT run_id, namespace, task_queue, workflow_type, task_order FROM runs
WHERE {READY_TASK} AND namespace = $1 AND task_queue = $2 AND workflow_type = $3 AND (task_order, run_id) > ($4, $5)
ORDER BY task_order, run_id LIMIT $6"""

READY_TASKS_OF_ALL_TYPES = f"""
SELECT run_id, namespace, task_queue, workflow_type, task_order FROM runs
WHERE {READY_TASK} AND namespace = $1 AND task_queue = $2 AND (workflow_type, task_order, run_id) > ($3, $4, $5)
ORDER BY workflow_type, task_order, run_id LIMIT $6"""
"""In the order of the index instead of age: a queue whose worker serves all types is read to its end anyway."""

READY_ACTIVITIES = f"""
SELECT run_id, namespace, task_queue, name, seq, queue_order FROM activities
WHERE {READY_ACTIVITY} AND namespace = $1 AND task_queue = $2 AND name = $3
    AND (queue_order, run_id, seq) > ($4, $5, $6)
ORDER BY queue_order, run_id, seq LIMIT $7"""

READY_ACTIVITIES_OF_ALL_NAMES = f"""
SELECT run_id, namespace, task_queue, name, seq, queue_order FROM activities
WHERE {READY_ACTIVITY} AND namespace = $1 AND task_queue = $2 AND (name, queue_order, run_id, seq) > ($3, $4, $5, $6)
ORDER BY name, queue_order, run_id, seq LIMIT $7"""


def _reserve_tasks(of_type: str) -> str:
    return f"""
WITH ready AS MATERIALIZED (
    SELECT ranked.run_id FROM (
        SELECT oldest.run_id, wanted.free,
            row_number() OVER (PARTITION BY wanted.namespace, wanted.task_queue ORDER BY oldest.task_order) AS place
        FROM $demands(1, 2, 3, 4)
        CROSS JOIN LATERAL (
            SELECT run_id, task_order FROM runs
            WHERE {READY_TASK} AND namespace = wanted.namespace AND task_queue = wanted.task_queue {of_type}
                AND (reserved_until IS NULL OR reserved_until <= $5)
            ORDER BY task_order LIMIT wanted.free $claim
        ) AS oldest
    ) AS ranked WHERE ranked.place <= ranked.free
)
UPDATE runs r SET reserved_until = $6 FROM ready WHERE r.run_id = ready.run_id
RETURNING r.run_id, r.namespace, r.task_queue, r.workflow_type, r.task_order"""


def _reserve_activities(of_name: str) -> str:
    return f"""
WITH ready AS MATERIALIZED (
    SELECT ranked.id FROM (
        SELECT oldest.id, wanted.free,
            row_number() OVER (PARTITION BY wanted.namespace, wanted.task_queue ORDER BY oldest.queue_order) AS place
        FROM $demands(1, 2, 3, 4)
        CROSS JOIN LATERAL (
            SELECT id, queue_order FROM activities
            WHERE {READY_ACTIVITY} AND namespace = wanted.namespace AND task_queue = wanted.task_queue {of_name}
                AND (reserved_until IS NULL OR reserved_until <= $5)
            ORDER BY queue_order LIMIT wanted.free $claim
        ) AS oldest
    ) AS ranked WHERE ranked.place <= ranked.free
)
UPDATE activities a SET reserved_until = $6 FROM ready WHERE a.id = ready.id
RETURNING a.run_id, a.namespace, a.task_queue, a.name, a.seq, a.queue_order"""


# For competing engines: a reservation hides returned work from other engines for a short time. Only work that free
# workers can take at once is reserved, therefore an idle engine writes nothing.
RESERVE_TASKS = _reserve_tasks("AND workflow_type = wanted.kind")
RESERVE_TASKS_OF_ALL_TYPES = _reserve_tasks("")
RESERVE_ACTIVITIES = _reserve_activities("AND name = wanted.kind")
RESERVE_ACTIVITIES_OF_ALL_NAMES = _reserve_activities("")

WAITING_TASKS = f"""
SELECT namespace, task_queue, count(*), min(task_since) FROM runs WHERE {READY_TASK} GROUP BY namespace, task_queue"""

WAITING_ACTIVITIES = f"""
SELECT namespace, task_queue, count(*), min(queued_at) FROM activities
WHERE {READY_ACTIVITY} GROUP BY namespace, task_queue"""

DATABASE_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

READ_CLOCK = """
SELECT read.wall, assay_time(), coalesce(c.correction_us, 0), coalesce(c.seen_at, 0), coalesce((
    SELECT l.objid::bigint * $2 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.classid = $1::bigint::oid AND l.objsubid = 2 AND d.datname = current_database()
    ORDER BY abs(l.objid::bigint * $2 - read.wall) LIMIT 1
), 0)
FROM (SELECT assay_wall() AS wall) AS read LEFT JOIN clock c ON c.id = 1"""

CONFIRM_CLOCK = "SELECT pg_advisory_lock_shared($1::int, $2::int)"

FORGET_CONFIRMATION = "SELECT pg_advisory_unlock_shared($1::int, $2::int)"

CORRECT_CLOCK = """
UPDATE clock SET correction_us = assay_time() - $1 - read.wall, seen_at = read.wall
FROM (SELECT assay_wall() AS wall) AS read WHERE correction_us = $2 AND seen_at = $3 RETURNING 1"""

DROP_CORRECTION = "UPDATE clock SET correction_us = 0, seen_at = assay_wall() WHERE correction_us <> 0"

CLOCKS = "SELECT assay_time(), assay_wall()"

OWN_TRANSACTION = "SELECT pg_current_xact_id_if_assigned()"

TRANSACTION_STATUS = "SELECT pg_xact_status($1::xid8)"
EVENT_OF_TRANSACTION = "SELECT 1 FROM events WHERE run_id = $1 AND seq = $2 AND written_by = $3::bigint"

# Found by transaction id, because another backend may have reused the process id. A backend that executes its COMMIT is
# active and is left alone: ending the backend could make a commit visible before the synchronous standby has it.
END_IDLE_TRANSACTION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND backend_xid = xid($1::xid8) AND state = 'idle in transaction'"""

LOCAL_TASKS = """
SELECT run_id, -1, task_epoch FROM runs WHERE closed_at IS NULL AND task_local = 1 AND task_worker IS NOT NULL"""

LOCAL_ACTIVITIES = """
SELECT a.run_id, a.seq, a.attempt_id
FROM runs r
CROSS JOIN activities a
WHERE a.run_id = r.run_id AND r.closed_at IS NULL AND a.completed_at IS NULL AND a.local = 1 AND a.worker IS NOT NULL"""
"""A cross join makes SQLite read the tables in this order: open runs are few, activities many."""

LEASED_TASKS = """
SELECT run_id, -1, task_epoch, task_worker, task_until FROM runs
WHERE closed_at IS NULL AND task_local = 0 AND task_worker IS NOT NULL AND $1 IN ('', task_worker)"""

LEASED_ACTIVITIES = """
SELECT a.run_id, a.seq, a.attempt_id, a.worker, a.lease_until
FROM runs r
CROSS JOIN activities a
WHERE a.run_id = r.run_id AND r.closed_at IS NULL AND a.completed_at IS NULL AND a.local = 0
    AND a.worker IS NOT NULL AND $1 IN ('', a.worker)"""

MESSAGES = f"""
SELECT {columns(OUTBOX, "o")} FROM outbox_messages o
WHERE o.created_at < $1 AND o.kind $one_of(3) ORDER BY o.number LIMIT $2"""
"""Rows of other kinds belong to later versions."""

TAKE_MESSAGES = """
WITH locked AS MATERIALIZED (SELECT key FROM outbox_messages WHERE key $one_of(1) ORDER BY key FOR UPDATE)
DELETE FROM outbox_messages AS target USING locked WHERE target.key = locked.key
RETURNING target.key, pg_current_xact_id()"""
"""Rows are locked in key order first, to prevent deadlocks between engines."""

MESSAGE_KEYS = "SELECT key FROM outbox_messages WHERE key $one_of(1)"

UNSEEN_INPUTS = """
SELECT e.run_id, e.seq, e.kind FROM runs r JOIN events e ON e.run_id = r.run_id AND e.seq > r.seen_seq
WHERE r.run_id $one_of(1) ORDER BY e.run_id, e.seq"""

UPDATES_OF_RUN = f"SELECT {columns(UPDATES, 'u')} FROM updates u WHERE u.run_id = $1 AND u.update_id $one_of(2)"

UPDATE_OF_WORKFLOW = f"""
SELECT {columns(UPDATES, "u")}, r.closed_at FROM updates u JOIN runs r ON r.run_id = u.run_id
WHERE u.namespace = $1 AND u.workflow_id = $2 AND u.update_id = $3 ORDER BY r.number DESC LIMIT 1"""

OUTCOMES_BY_KEY = f"""
SELECT {columns(OUTCOMES, "o")} FROM $pairs(1, 2)
CROSS JOIN outcomes o WHERE o.namespace = wanted.first AND o.key = wanted.second"""

RESERVE_NUMBERS = "UPDATE numbers SET next = next + $1 WHERE id = 1 RETURNING next - $1"

SCHEDULES_BY_KEY = "SELECT document FROM schedules WHERE key $one_of(1)"

SCHEDULES = "SELECT document FROM schedules WHERE namespace = $1 ORDER BY name"

ALL_SCHEDULES = "SELECT document FROM schedules ORDER BY namespace, name"

WAITING_SCHEDULES = "SELECT document FROM schedules WHERE waiting > 0 ORDER BY key"

FIRES_OF_SCHEDULE = f"""
SELECT {columns(FIRES, "f")} FROM schedule_fires f
WHERE f.namespace = $1 AND f.schedule = $2 ORDER BY f.id DESC LIMIT $3"""

COUNT_FIRES = "SELECT count(*) FROM schedule_fires WHERE namespace = $1 AND schedule = $2"

SNAPSHOT = f"SELECT {columns(SNAPSHOTS, 's')} FROM snapshots s WHERE s.run_id = $1"

_ACTIVITY = f"SELECT {columns(ACTIVITIES, 'a')}, r.workflow_id FROM activities a JOIN runs r ON r.run_id = a.run_id"

ACTIVITY = f"""
{_ACTIVITY} WHERE a.id = $1
UNION ALL
{_ACTIVITY} WHERE a.id = $1 - 1 AND a.attempt_id = $1
UNION ALL
{_ACTIVITY} WHERE a.attempt_id = $1 AND a.attempt_id <> a.id + 1
UNION ALL
{_ACTIVITY} WHERE a.id = (SELECT t.activity_id FROM attempts t WHERE t.id = $1)
LIMIT 1"""

ENDINGS = ("WorkflowCompleted", "WorkflowFailed", "WorkflowTerminated", "WorkflowTimedOut")
"""Closing events with a part that records show: the result, or the reason for its absence."""


def _documents(run: str) -> str:
    """Return the joins to the documents of the run with the alias `run`."""
    return f"""JOIN events opening ON opening.run_id = {run}.run_id AND opening.seq = 1
LEFT JOIN documents d ON d.run_id = {run}.run_id
LEFT JOIN events closing
    ON closing.run_id = {run}.run_id AND closing.seq = {run}.last_seq AND closing.kind IN {ENDINGS}"""


_RECORD_TABLES = f"runs r {_documents('r')}"
_RECORD_COLUMNS = f"{RUN_COLUMNS}, opening.payload, closing.kind, closing.payload"
_RECORD = f"SELECT {_RECORD_COLUMNS} FROM {_RECORD_TABLES}"

DESCRIBE_NEWEST = f"""
{_RECORD} WHERE r.namespace = $1 AND r.workflow_id = $2 AND r.number = (
    SELECT max(n.number) FROM runs n WHERE n.namespace = $1 AND n.workflow_id = $2
)"""

DESCRIBE_RUN = f"{_RECORD} WHERE r.run_id = $3 AND r.namespace = $1 AND r.workflow_id = $2"

GENERATION = "SELECT generation FROM engine WHERE id = 1"

TAKE_GENERATION = "UPDATE engine SET generation = generation + 1 WHERE id = 1 RETURNING generation"

SCHEMA_VERSIONS = "SELECT version, min_reader, min_writer, checksum FROM schema_versions ORDER BY version"

MIN_WRITER = "SELECT coalesce(max(min_writer), 0) FROM schema_versions"

RECORD_SCHEMA_VERSION = """
INSERT INTO schema_versions (version, min_reader, min_writer, applied_at, checksum) VALUES ($1, $2, $3, $4, $5)"""


class QueryBuilder:
    """The conditions of a query and their arguments, added one by one."""

    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.arguments: list[object] = []

    def where(self, condition: str, *values: object) -> None:
        """Add a condition; `{}` stands for each of its values."""
        places = range(len(self.arguments) + 1, len(self.arguments) + len(values) + 1)
        self.conditions.append(condition.format(*(f"${place}" for place in places)))
        self.arguments.extend(values)

    def place(self, value: object) -> str:
        """Add an argument; return its placeholder."""
        self.arguments.append(value)
        return f"${len(self.arguments)}"


# Measuring a document does not read the document: both databases store its length apart from its overflow pages.
_DOCUMENT_BYTES = " + ".join(
    f"coalesce(octet_length({column}), 0)"
    for column in ("opening.payload", "opening.data", "closing.payload", "d.memo", "d.search")
)


def listed_runs(wanted: RunFilter) -> tuple[str, QueryBuilder]:
    """Return the query for the runs of a page and the next run; documents are not read."""
    question = matching(wanted)
    if wanted.cursor is not None:
        after = ">" if wanted.oldest_first else "<"
        question.where(f"(r.created_at, r.run_id) {after} ({{}}, {{}})", *wanted.cursor)
    conditions = " AND ".join(question.conditions)
    one_more, offset = question.place(wanted.limit + 1), question.place(wanted.offset)
    columns_of_run = "r.run_id, r.created_at, r.last_seq"
    order = _order("r", wanted)
    return f"SELECT {columns_of_run} FROM runs r WHERE {conditions} {order} LIMIT {one_more} OFFSET {offset}", question


def list_runs(wanted: RunFilter) -> tuple[str, list[object]]:
    """Return the query for a page of records; the last column of each row is the number of runs found.

    A page ends at the limit, or with the run whose documents exceed `RUNS_PAGE_BYTES` in sum. The documents of later
    runs are never read.
    """
    found, question = listed_runs(wanted)
    if not wanted.documents:
        return _listed_without_documents(wanted, found, question)
    limit, most_bytes = question.place(wanted.limit), question.place(RUNS_PAGE_BYTES)
    measured = f"""SELECT listed.run_id, count(*) OVER () AS found, row_number() OVER ranked AS place,
    sum({_DOCUMENT_BYTES}) OVER (ranked ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
FROM ({found}) AS listed {_documents("listed")}
WINDOW ranked AS ({_order("listed", wanted)})"""
    text = f"""SELECT {_RECORD_COLUMNS}, page.found
FROM ({measured}) AS page CROSS JOIN {_RECORD_TABLES}
WHERE r.run_id = page.run_id AND page.place <= {limit} AND coalesce(page.bytes_before, 0) <= {most_bytes}
ORDER BY page.place"""
    return text, question.arguments


_SHORT_COLUMNS = f"""{RUN_COLUMNS}, NULL, closing.kind,
    CASE WHEN closing.kind = 'WorkflowCompleted' THEN NULL ELSE closing.payload END"""


def _listed_without_documents(wanted: RunFilter, found: str, question: QueryBuilder) -> tuple[str, list[object]]:
    """Return the query for a page of records without inputs and results; its size is its limit alone."""
    text = f"""SELECT {_SHORT_COLUMNS}, page.found
FROM (
    SELECT listed.run_id, count(*) OVER () AS found, row_number() OVER ({_order("listed", wanted)}) AS place
    FROM ({found}) AS listed
) AS page CROSS JOIN {_RECORD_TABLES}
WHERE r.run_id = page.run_id AND page.place <= {question.place(wanted.limit)}
ORDER BY page.place"""
    return text, question.arguments


def _order(alias: str, wanted: RunFilter) -> str:
    direction = "" if wanted.oldest_first else " DESC"
    return f"ORDER BY {alias}.created_at{direction}, {alias}.run_id{direction}"


def count_runs(wanted: RunFilter) -> tuple[str, list[object]]:
    """Return the query for the number of runs that a filter matches."""
    question = matching(wanted)
    conditions = " AND ".join(question.conditions)
    if wanted.count_limit is None:
        return f"SELECT count(*) FROM runs r WHERE {conditions}", question.arguments
    limit = question.place(wanted.count_limit)
    return (
        f"SELECT count(*) FROM (SELECT 1 FROM runs r WHERE {conditions} LIMIT {limit}) AS counted",
        question.arguments,
    )


VERSION_DIGITS = 10
"""The digits of the largest version."""

_ATTRIBUTED = "r.run_id IN (SELECT a.run_id FROM attributes a WHERE a.namespace = $1 AND a.key = {} AND a.value = {})"


_VERSIONED = """r.run_id IN (
    SELECT v.run_id FROM versions v WHERE v.namespace = $1 AND v.change_id = {}
    UNION
    SELECT v.run_id FROM versions v WHERE v.namespace = $1 AND v.change_id = {} AND v.version = {})"""


def _change_version(text: str) -> tuple[str, str, int]:
    """Return the values of `_VERSIONED`: a change id, or a change id and a version, as `payment` and `payment:2`."""
    change_id, _, number = text.rpartition(":")
    known = number.isascii() and number.isdigit() and len(number) <= VERSION_DIGITS
    return text, change_id, int(number) if known else -1


_CHILDREN = """((r.namespace = {} AND r.parent_workflow_id = {})
    OR (r.parent_workflow_id = {} AND r.parent_workflow_id >= 'wf://' AND r.parent_workflow_id < 'wf:/0'))"""
"""A child in another namespace than its parent has its parent's address; the range is that of its partial index."""


def matching(wanted: RunFilter) -> QueryBuilder:
    """Return the conditions of a filter; its namespace is the first argument."""
    question = QueryBuilder()
    if wanted.namespaces is not None:
        names = ", ".join(question.place(name) for name in wanted.namespaces) or "NULL"
        question.conditions.append(f"r.namespace IN ({names})")
    elif wanted.parent_id is None:
        question.where("r.namespace = {}", wanted.namespace)
    else:
        address = workflow_address(wanted.namespace, wanted.parent_id)
        question.where(_CHILDREN, wanted.namespace, wanted.parent_id, address)
    for condition, value in (
        ("r.workflow_type = {}", wanted.workflow_type),
        ("r.task_queue = {}", wanted.task_queue),
        ("r.workflow_id = {}", wanted.workflow_id),
        ("r.parent_run_id = {}", wanted.parent_run_id),
        ("r.created_at > {}", wanted.created_after),
        ("r.created_at < {}", wanted.created_before),
    ):
        if value is not None:
            question.where(condition, value)
    if wanted.status is not None:
        # As a literal, so that both databases use the partial index of a status.
        question.conditions.append(f"r.status = '{checked_status(wanted.status)}'")
    if wanted.open or wanted.stuck or wanted.status in OPEN_STATUSES:
        question.where("r.closed_at IS NULL")
    if wanted.open is False:
        question.where("r.closed_at IS NOT NULL")
    if wanted.stuck is not None:
        question.conditions.append(f"r.run_id {'' if wanted.stuck else 'NOT '}IN ({_stuck_runs(question, wanted)})")
    for key, sought in wanted.search:
        for element in sought if isinstance(sought, list | tuple) else (sought,):
            question.where(_ATTRIBUTED, key, canonical(element))
    if wanted.change_version:
        question.where(_VERSIONED, *_change_version(wanted.change_version))
    if wanted.text:
        place = question.place(folded(wanted.text)).removeprefix("$")
        found = [f"$contains({column}, {place})" for column in ("r.workflow_id", "r.workflow_type", "r.run_id")]
        question.conditions.append(f"({' OR '.join(found)})")
    question.conditions.extend(further_conditions(wanted, question.place))
    return question


def _stuck_runs(question: QueryBuilder, wanted: RunFilter) -> str:
    """Return the query for stuck runs: two small sets, each found by a partial index."""
    found = "SELECT s.run_id FROM runs s WHERE s.namespace = $1 AND s.stuck IS NOT NULL AND s.closed_at IS NULL"
    if not wanted.served:
        return found
    other_types = []
    for served in wanted.served:
        types = ", ".join(question.place(name) for name in served.workflow_types)
        unserved = f" AND u.workflow_type NOT IN ({types})" if types else ""
        other_types.append(f"(u.task_queue = {question.place(served.queue)}{unserved})")
    waiting = "u.task_since IS NOT NULL AND u.task_worker IS NULL AND u.task_not_before IS NULL"
    if wanted.served_before is not None:
        waiting += f" AND u.task_since <= {question.place(wanted.served_before)}"
    return (
        f"{found} UNION SELECT u.run_id FROM runs u WHERE {waiting} AND u.closed_at IS NULL"
        f" AND u.namespace = $1 AND ({' OR '.join(other_types)})"
    )
