-- ensure_month --
-- Create the partition of a month; true when it was missing.
SELECT session.ensure_month(:month);
