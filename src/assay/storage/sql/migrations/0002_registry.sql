-- What stands beside the histories: namespaces, workers, the engine's secrets; and the order in which histories are read
-- as one stream.
-- min_reader: 1
-- min_writer: 1

CREATE TABLE namespaces (
    name $text NOT NULL PRIMARY KEY,
    created_at $int NOT NULL
) $key_table;

-- A worker that falls silent stays here: silence only hides it from lists (R36). Lists of names are JSON, null for all.
CREATE TABLE workers (
    id $text NOT NULL PRIMARY KEY,
    namespace $text NOT NULL,
    identity $text NOT NULL,
    task_queue $text NOT NULL,
    workflows $bytes,
    activities $bytes,
    max_concurrent_workflows $int NOT NULL,
    max_concurrent_activities $int NOT NULL,
    registered_at $int NOT NULL,
    last_heartbeat $int NOT NULL
) $table;

CREATE INDEX workers_seen ON workers (namespace, last_heartbeat);

CREATE TABLE secrets (
    name $text NOT NULL PRIMARY KEY,
    value $bytes NOT NULL
) $key_table;

$commit_order
