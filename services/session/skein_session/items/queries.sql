-- put_item --
-- Store a value under a key of a session, in place of the one that is there; one that has expired counts as none. `is_new`
-- says whether the key had no row.
INSERT INTO session.items AS held
    (tenant_id, session_id, key, value, expire_time, create_time, update_time, created_by)
VALUES (:tenant_id, :session_id, :key, :value, :expire_time, :create_time, :update_time, :created_by)
ON CONFLICT ON CONSTRAINT items_pkey DO UPDATE
    SET value = excluded.value,
        expire_time = excluded.expire_time,
        create_time = CASE WHEN held.expire_time <= :at THEN excluded.create_time ELSE held.create_time END,
        created_by = CASE WHEN held.expire_time <= :at THEN excluded.created_by ELSE held.created_by END,
        update_time = excluded.update_time
RETURNING session_id, key, value, expire_time, create_time, update_time, created_by,
    (held.xmax = 0) AS is_new;

-- get_item --
-- Read what a session that is not deleted has under a key, unless it has expired.
SELECT session_id, key, value, expire_time, create_time, update_time, created_by
FROM session.items
WHERE tenant_id = :tenant_id AND session_id = :session_id AND key = :key AND expire_time > :at;

-- list_items --
-- Read what a session has that has not expired, by key, from after one on.
SELECT session_id, key, value, expire_time, create_time, update_time, created_by
FROM session.items
WHERE tenant_id = :tenant_id AND session_id = :session_id AND key > :after AND expire_time > :at
    AND (:prefix::text IS NULL OR starts_with(key, :prefix))
ORDER BY key
LIMIT :limit;

-- count_items --
-- Count up to so many items of a session.
SELECT count(*)
FROM (
    SELECT FROM session.items
    WHERE tenant_id = :tenant_id AND session_id = :session_id
    LIMIT :most
) AS counted;

-- delete_item --
-- Remove what a session has under a key; whether it had expired comes back.
DELETE FROM session.items
WHERE tenant_id = :tenant_id AND session_id = :session_id AND key = :key
RETURNING expire_time;

-- delete_items_of_session --
-- Remove everything short-term of a session.
DELETE FROM session.items
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- delete_expired_items --
-- Remove some of the items that are past their time, those that expired first; one that gets more time meanwhile stays.
DELETE FROM session.items
WHERE tenant_id = :tenant_id AND expire_time <= :at
    AND (session_id, key) IN (
        SELECT session_id, key FROM session.items
        WHERE tenant_id = :tenant_id AND expire_time <= :at
        ORDER BY expire_time
        LIMIT :count
        FOR UPDATE SKIP LOCKED);
