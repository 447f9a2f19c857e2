-- working_keys --
-- The dedupe keys of one kind of job, waiting or at work.
SELECT dedupe_key
FROM worker.pgqueuer
WHERE entrypoint = :entrypoint AND status IN ('queued', 'picked') AND dedupe_key IS NOT NULL;

-- delete_old_log --
-- Forget jobs that ended before a time.
DELETE FROM worker.pgqueuer_log WHERE created < :before;
