-- Bulk actions: a batch is written once with all its runs, and any engine goes on with it.
-- min_reader: 12
-- min_writer: 20

CREATE TABLE batches (
    batch_id $text NOT NULL PRIMARY KEY,
    namespace $text NOT NULL,
    token $text NOT NULL UNIQUE,
    action $text NOT NULL,
    arguments $bytes NOT NULL,
    reason $text,
    filter $bytes NOT NULL,
    as_of $int NOT NULL,
    state $text NOT NULL,
    total $int NOT NULL,
    started_by $text,
    started_at $int NOT NULL,
    ended_at $int,
    expires_at $int NOT NULL,
    holder $text,
    lease_until $int NOT NULL
) $table;

CREATE INDEX batches_newest ON batches (namespace, started_at DESC, batch_id DESC);
CREATE INDEX batches_running ON batches (lease_until) WHERE state = 'running';

CREATE TABLE batch_items (
    batch_id $text NOT NULL,
    place $int NOT NULL,
    workflow_id $text NOT NULL,
    run_id $text NOT NULL,
    outcome $text,
    code $text,
    message $text,
    new_run_id $text,
    PRIMARY KEY (batch_id, place)
) $key_table;
