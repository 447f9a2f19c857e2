-- reserve_attempts --
-- Count an attempt of each subject, in the order of the arrays, with a new window where the old one has ended; return the
-- counts. `pending` is 1 for an attempt whose outcome is recorded later, and 0 for one that counts whatever its outcome.
INSERT INTO auth.attempts AS stored (kind, subject_hash, expire_time, count, pending)
SELECT request.kind, request.subject_hash, request.expire_time, 1, :pending
FROM unnest(:kinds::text[], :subject_hashes::bytea[], :expire_times::timestamptz[])
    AS request (kind, subject_hash, expire_time)
ON CONFLICT ON CONSTRAINT attempts_pkey DO UPDATE
    SET expire_time = CASE WHEN stored.expire_time <= :at THEN excluded.expire_time ELSE stored.expire_time END,
        count = CASE WHEN stored.expire_time <= :at THEN 1 ELSE stored.count + 1 END,
        pending = CASE WHEN stored.expire_time <= :at THEN excluded.pending ELSE stored.pending + excluded.pending END
RETURNING kind, subject_hash, expire_time, count, pending;

-- record_attempt_outcomes --
-- Record the outcome of pending attempts: `returned` is 1 when they do not count, else 0. Windows that have ended do not
-- change.
WITH ended AS MATERIALIZED (
    SELECT stored.kind, stored.subject_hash
    FROM unnest(:kinds::text[], :subject_hashes::bytea[], :expire_times::timestamptz[])
            WITH ORDINALITY AS attempt (kind, subject_hash, expire_time, ordinal)
        JOIN auth.attempts AS stored USING (kind, subject_hash, expire_time)
    ORDER BY attempt.ordinal
    FOR UPDATE OF stored
)
UPDATE auth.attempts AS stored
SET pending = stored.pending - 1, count = stored.count - :returned
FROM ended
WHERE stored.kind = ended.kind AND stored.subject_hash = ended.subject_hash;

-- delete_expired_attempts --
-- Delete the counts of windows that have ended.
DELETE FROM auth.attempts
WHERE expire_time <= :at;
