-- hold_attempts --
-- Count an attempt of each subject, in the order given, beginning a new window where the old one is over; say what each
-- has come to. `held` is 1 while it is not known how the attempt ends, and 0 for what counts in any case.
INSERT INTO auth.attempts AS known (kind, subject_hash, expire_time, count, held)
SELECT wanted.kind, wanted.subject_hash, wanted.expire_time, 1, :held
FROM unnest(:kinds::text[], :subject_hashes::bytea[], :expire_times::timestamptz[])
    AS wanted (kind, subject_hash, expire_time)
ON CONFLICT ON CONSTRAINT attempts_pkey DO UPDATE
    SET expire_time = CASE WHEN known.expire_time <= :at THEN excluded.expire_time ELSE known.expire_time END,
        count = CASE WHEN known.expire_time <= :at THEN 1 ELSE known.count + 1 END,
        held = CASE WHEN known.expire_time <= :at THEN excluded.held ELSE known.held + excluded.held END
RETURNING kind, subject_hash, expire_time, count, held;

-- settle_attempts --
-- Say how held attempts ended: `given_back` is 1 when they do not count, else 0. Windows that are over stay as they are.
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
-- Remove what was counted in windows that are over.
DELETE FROM auth.attempts
WHERE expire_time <= :at;
