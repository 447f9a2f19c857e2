-- Snapshots.
SELECT 1;
