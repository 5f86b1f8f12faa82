-- What a run waits for, as far as no other table has it: awaited signals, a cancel request and reports of its code as
-- JSON; and since when a worker holds its task. `cancel_requested` of an activity is the time of the request.
-- min_reader: 1
-- min_writer: 12

ALTER TABLE runs ADD COLUMN task_leased_at $int;

ALTER TABLE runs ADD COLUMN waits $bytes;
