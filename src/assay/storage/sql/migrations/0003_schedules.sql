-- Schedules and what became of their due times.
-- min_reader: 1
-- min_writer: 3

-- `key` is the namespace and the name in one, as the deadlines have it; what a schedule is, is a JSON document.
CREATE TABLE schedules (
    namespace $text NOT NULL,
    name $text NOT NULL,
    key $text NOT NULL UNIQUE,
    version $int NOT NULL,
    wakes_at $int,
    waiting $int NOT NULL,
    document $bytes NOT NULL,
    PRIMARY KEY (namespace, name)
) $table;

CREATE INDEX schedules_waiting ON schedules (key) WHERE waiting > 0;

CREATE TABLE schedule_fires (
    id $identity,
    namespace $text NOT NULL,
    schedule $text NOT NULL,
    due_at $int NOT NULL,
    fired_at $int NOT NULL,
    outcome $text NOT NULL,
    reason $text,
    workflow_id $text,
    run_id $text,
    cause $text NOT NULL,
    until $int
) $table;

CREATE INDEX schedule_fires_newest ON schedule_fires (namespace, schedule, id DESC);
-- A due time comes once, and at most one run is started for it (I11); what is asked for by hand has no due time.
CREATE UNIQUE INDEX schedule_fires_due ON schedule_fires (namespace, schedule, due_at) WHERE cause = 'time';
CREATE UNIQUE INDEX schedule_fires_started ON schedule_fires (namespace, schedule, due_at)
    WHERE outcome = 'started' AND cause <> 'manual';
