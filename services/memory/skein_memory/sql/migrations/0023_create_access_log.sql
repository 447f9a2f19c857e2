-- The access log.
SELECT 1;
