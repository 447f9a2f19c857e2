-- ensure_month --
-- Make the partition of a month, for all tenants; true when it was missing.
SELECT session.ensure_month(:month);
