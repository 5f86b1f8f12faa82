-- The audit with fewer indexes: each accepted change writes a row, and most rows are never read. Rows of changes are in
-- no unique index, because they are never merged.
-- min_reader: 1
-- min_writer: 5

ALTER TABLE audit RENAME TO audit_before;

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
    merged_by $text
) $table;

INSERT INTO audit (at, actor, credential, address, action, namespace, target, outcome, code, count, before, after,
    request_id, merged_by)
SELECT at, actor, credential, address, action, namespace, target, outcome, code, count, before, after, request_id, merged_by
FROM audit_before ORDER BY id;

DROP TABLE audit_before;

CREATE INDEX audit_time ON audit (at);

CREATE UNIQUE INDEX audit_merged ON audit (merged_by) WHERE merged_by IS NOT NULL;
