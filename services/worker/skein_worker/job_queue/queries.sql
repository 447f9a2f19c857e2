-- list_active_dedupe_keys --
-- Return the dedupe keys of one kind of job that are queued or run.
SELECT dedupe_key
FROM worker.pgqueuer
WHERE entrypoint = :entrypoint AND status IN ('queued', 'picked') AND dedupe_key IS NOT NULL;

-- purge_job_log --
-- Delete the log of jobs that ended before a time.
DELETE FROM worker.pgqueuer_log WHERE created < :before;
