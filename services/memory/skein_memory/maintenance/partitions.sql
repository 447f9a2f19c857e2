-- ensure_month --
-- Make the partition of a month for memories; true when it was missing.
SELECT memory.ensure_month(:month);
