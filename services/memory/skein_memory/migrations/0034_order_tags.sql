-- A memory's tags have the order in which they were given.

ALTER TABLE memory.tags
    -- Counted from 0. Null in rows that an older version writes; these come last, in the order of their texts.
    ADD COLUMN position smallint;
