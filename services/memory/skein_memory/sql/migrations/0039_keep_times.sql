-- Imports keep the times of their rows, so when Skein recorded a row is a time of its own.

-- Null in rows of the version before, which recorded every row at its update_time.
ALTER TABLE memory.entries ADD COLUMN record_time timestamptz;
ALTER TABLE memory.versions ADD COLUMN record_time timestamptz;
ALTER TABLE memory.links ADD COLUMN record_time timestamptz;
ALTER TABLE memory.blocks ADD COLUMN record_time timestamptz;
