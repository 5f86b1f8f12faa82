-- The events of all runs become a journal of all that happens: what no history tells is noted among them, in the same
-- order. Such a note has seq 0 and no run; its run_id is the namespace, a slash and a name of its own.
-- min_reader: 1
-- min_writer: 5

-- 1 if a worker took up the run for the first time in the same transaction, and after this event.
ALTER TABLE events ADD COLUMN claimed $int NOT NULL DEFAULT 0;

-- Notes are kept for a while, histories for good.
CREATE INDEX events_notes ON events (time) WHERE seq = 0;
