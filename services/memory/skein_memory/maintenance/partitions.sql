-- ensure_month --
-- Create the partition of a month for memories; return true if it was missing.
SELECT memory.ensure_month(:month);
