-- Messages between runs: a new table of the outbox with addresses, an order and outcomes. Engines are stopped for this
-- migration, because an older engine delivers from the old table and would delete kinds that it does not have.
-- min_reader: 12
-- min_writer: 12

-- A row is deleted by the transaction that applies its message. `run_id` is NULL for a message to the run that is current
-- when the message is delivered. `details` is JSON with the fields that only some kinds have.
CREATE TABLE outbox_messages (
    number $identity,
    key $text NOT NULL UNIQUE,
    namespace $text NOT NULL,
    workflow_id $text NOT NULL,
    run_id $text,
    kind $text NOT NULL,
    reason $text,
    sender $text,
    event_kind $text,
    event_payload $bytes,
    details $bytes,
    created_at $int NOT NULL
) $table;

CREATE INDEX outbox_messages_to_run ON outbox_messages (run_id);

INSERT INTO outbox_messages (
    key, namespace, workflow_id, run_id, kind, reason, sender, event_kind, event_payload, created_at
)
SELECT key, namespace, workflow_id, run_id, kind, reason, sender, event_kind, event_payload, created_at
FROM outbox ORDER BY created_at;

DROP TABLE outbox;

-- The highest number of a message that a run has sent, and how many of its messages have no outcome yet.
ALTER TABLE runs ADD COLUMN send_mark $int NOT NULL DEFAULT 0;

ALTER TABLE runs ADD COLUMN sends $int NOT NULL DEFAULT 0;
