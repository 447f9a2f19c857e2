-- reserve_attempts --
-- Count an attempt of each subject, in the order of the arrays, with a new window where the old one has ended; return the
-- counts. `held` is 1 for a pending attempt, and 0 for one that counts whatever its outcome.
INSERT INTO auth.attempts AS known (kind, subject_hash, expire_time, count, held)
SELECT request.kind, request.subject_hash, request.expire_time, 1, :held
FROM unnest(:kinds::text[], :subject_hashes::bytea[], :expire_times::timestamptz[])
    AS request (kind, subject_hash, expire_time)
ON CONFLICT ON CONSTRAINT attempts_pkey DO UPDATE
    SET expire_time = CASE WHEN known.expire_time <= :at THEN excluded.expire_time ELSE known.expire_time END,
        count = CASE WHEN known.expire_time <= :at THEN 1 ELSE known.count + 1 END,
        held = CASE WHEN known.expire_time <= :at THEN excluded.held ELSE known.held + excluded.held END
RETURNING kind, subject_hash, expire_time, count, held;

-- settle_attempts --
-- Settle pending attempts: `given_back` is 1 when they do not count, else 0. Windows that have ended stay as they are.
WITH ended AS MATERIALIZED (
    SELECT known.kind, known.subject_hash
    FROM unnest(:kinds::text[], :subject_hashes::bytea[], :expire_times::timestamptz[])
            WITH ORDINALITY AS settled (kind, subject_hash, expire_time, place)
        JOIN auth.attempts AS known USING (kind, subject_hash, expire_time)
    ORDER BY settled.place
    FOR UPDATE OF known
)
UPDATE auth.attempts AS known
SET held = known.held - 1, count = known.count - :given_back
FROM ended
WHERE known.kind = ended.kind AND known.subject_hash = ended.subject_hash;

-- delete_expired_attempts --
-- Delete the counts of windows that have ended.
DELETE FROM auth.attempts
WHERE expire_time <= :at;
