-- The first schema. Times are microseconds, flags 0 or 1, documents JSON as bytes.
-- $text, $int, $bytes and the table options come from the dialect; all else is common to both databases.
-- min_reader: 1
-- min_writer: 1

CREATE TABLE runs (
    run_id $text NOT NULL PRIMARY KEY,
    namespace $text NOT NULL,
    workflow_id $text NOT NULL,
    number $int NOT NULL,
    workflow_type $text NOT NULL,
    task_queue $text NOT NULL,
    created_at $int NOT NULL,
    parent_workflow_id $text,
    parent_run_id $text,
    version $int NOT NULL,
    status $text NOT NULL,
    updated_at $int NOT NULL,
    last_time $int NOT NULL,
    last_seq $int NOT NULL,
    input_seq $int NOT NULL,
    seen_seq $int NOT NULL,
    history_bytes $int NOT NULL,
    cancel_seq $int NOT NULL,
    cancel_deadline $int,
    run_deadline $int,
    task_since $int,
    task_not_before $int,
    task_epoch $int NOT NULL,
    task_worker $text,
    task_until $int,
    task_local $int NOT NULL,
    task_granted_seq $int NOT NULL,
    task_failures $int NOT NULL,
    stuck $bytes,
    awaiting $text,
    activity_mark $int NOT NULL,
    timer_mark $int NOT NULL,
    effect_mark $int NOT NULL,
    step_mark $int NOT NULL,
    signals $int NOT NULL,
    reserved_until $int,
    closed_at $int,
    close_reason $text,
    error $text,
    next_run_id $text
) $hot_table;

-- A workflow id names a chain of runs, one of them open at most (I15).
CREATE UNIQUE INDEX runs_chain ON runs (namespace, workflow_id, number);
CREATE UNIQUE INDEX runs_open ON runs (namespace, workflow_id) WHERE closed_at IS NULL;
CREATE INDEX runs_newest ON runs (namespace, created_at DESC, run_id DESC);
CREATE INDEX runs_children ON runs (namespace, parent_workflow_id, created_at) WHERE parent_workflow_id IS NOT NULL;
CREATE INDEX runs_open_children ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL AND closed_at IS NULL;
CREATE INDEX runs_ready ON runs (task_since)
    WHERE task_since IS NOT NULL AND task_worker IS NULL AND task_not_before IS NULL;

-- A history is gapless and append-only (I4). The global id gives events of all runs one order; on a database with
-- several writers that is not the order of commits, so the row also has the transaction that wrote it (4.6).
CREATE TABLE events (
    id $identity,
    run_id $text NOT NULL,
    seq $int NOT NULL,
    time $int NOT NULL,
    kind $text NOT NULL,
    payload $bytes NOT NULL,
    data $bytes,
    written_by $transaction,
    UNIQUE (run_id, seq)
) $table;

$append_only_events

CREATE TABLE activities (
    id $int NOT NULL PRIMARY KEY,
    run_id $text NOT NULL,
    seq $int NOT NULL,
    name $text NOT NULL,
    task_queue $text NOT NULL,
    namespace $text NOT NULL,
    input $bytes,
    options $bytes NOT NULL,
    scheduled_at $int NOT NULL,
    status $text NOT NULL,
    attempt $int NOT NULL,
    attempt_id $int NOT NULL,
    not_before $int,
    worker $text,
    local $int NOT NULL,
    queued_at $int NOT NULL,
    started_at $int,
    lease_until $int,
    heartbeat_at $int,
    details $bytes,
    cancel_requested $int NOT NULL,
    last_failure $bytes,
    completed_at $int,
    result $bytes,
    error $text,
    reserved_until $int,
    UNIQUE (run_id, seq)
) $hot_table;

CREATE INDEX activities_ready ON activities (queued_at)
    WHERE completed_at IS NULL AND worker IS NULL AND not_before IS NULL;
-- The first attempt's id is its activity's plus one (R35): only later ones need to be found by an index.
CREATE INDEX activities_retried ON activities (attempt_id) WHERE attempt_id <> id + 1;

CREATE TABLE attempts (
    id $int NOT NULL PRIMARY KEY,
    activity_id $int NOT NULL,
    run_id $text NOT NULL,
    attempt $int NOT NULL,
    outcome $text NOT NULL,
    worker $text,
    started_at $int,
    ended_at $int NOT NULL,
    failure $bytes
) $table;

CREATE INDEX attempts_of_run ON attempts (run_id);

CREATE TABLE deadlines (
    run_id $text NOT NULL,
    kind $text NOT NULL,
    ref $int NOT NULL,
    due_at $int NOT NULL,
    PRIMARY KEY (run_id, kind, ref)
) $key_table;

CREATE INDEX deadlines_due ON deadlines (due_at);

CREATE TABLE snapshots (
    run_id $text NOT NULL PRIMARY KEY,
    event_seq $int NOT NULL,
    state $bytes NOT NULL,
    created_at $int NOT NULL
) $table;

CREATE TABLE documents (
    run_id $text NOT NULL PRIMARY KEY,
    memo $bytes,
    search $bytes
) $table;

CREATE TABLE attributes (
    run_id $text NOT NULL,
    key $text NOT NULL,
    value $text NOT NULL,
    namespace $text NOT NULL,
    PRIMARY KEY (run_id, key, value)
) $key_table;

CREATE INDEX attributes_values ON attributes (namespace, key, value, run_id);

CREATE TABLE outbox (
    key $text NOT NULL PRIMARY KEY,
    namespace $text NOT NULL,
    workflow_id $text NOT NULL,
    run_id $text NOT NULL,
    kind $text NOT NULL,
    reason $text,
    sender $text,
    event_kind $text,
    event_payload $bytes,
    created_at $int NOT NULL
) $table;

CREATE INDEX outbox_oldest ON outbox (created_at);
CREATE INDEX outbox_to_run ON outbox (run_id);

CREATE TABLE outcomes (
    namespace $text NOT NULL,
    key $text NOT NULL,
    fingerprint $bytes NOT NULL,
    status $int NOT NULL,
    body $bytes NOT NULL,
    created_at $int NOT NULL,
    PRIMARY KEY (namespace, key)
) $key_table;

CREATE INDEX outcomes_oldest ON outcomes (created_at);

-- One row: raised by each engine that takes over a file, so that one it replaced cannot write (I9).
CREATE TABLE engine (
    id $int NOT NULL PRIMARY KEY,
    generation $int NOT NULL
) $table;

INSERT INTO engine (id, generation) VALUES (1, 0);

-- One row: the next free value of the sequence that activities and attempts share (R35).
CREATE TABLE numbers (
    id $int NOT NULL PRIMARY KEY,
    next $int NOT NULL
) $table;

INSERT INTO numbers (id, next) VALUES (1, 1);
