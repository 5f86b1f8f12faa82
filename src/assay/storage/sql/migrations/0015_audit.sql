-- The audit: changes by people and programs, each written in the transaction of the change. No route changes or deletes
-- a row. Refusals of one caller and operation within a minute are one row with a count, found by `merged_by`.
-- min_reader: 1
-- min_writer: 5

CREATE TABLE audit (
    id $identity,
    at $int NOT NULL,
    actor $text,
    credential $text,
    address $text,
    action $text NOT NULL,
    namespace $text,
    target $text,
    outcome $text NOT NULL,
    code $text,
    count $int NOT NULL,
    before $bytes,
    after $bytes,
    request_id $text,
    merged_by $text UNIQUE
) $table;

CREATE INDEX audit_at ON audit (at);

CREATE INDEX audit_by_namespace ON audit (namespace, id);
