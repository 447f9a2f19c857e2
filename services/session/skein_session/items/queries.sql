-- put_item --
-- Insert or replace the value under a key of a session; an expired value counts as none. `is_new` says whether the key
-- had no row.
INSERT INTO session.items AS existing
    (tenant_id, session_id, key, value, expire_time, create_time, update_time, created_by)
VALUES (:tenant_id, :session_id, :key, :value, :expire_time, :create_time, :update_time, :created_by)
ON CONFLICT ON CONSTRAINT items_pkey DO UPDATE
    SET value = excluded.value,
        expire_time = excluded.expire_time,
        create_time = CASE WHEN existing.expire_time <= :at THEN excluded.create_time ELSE existing.create_time END,
        created_by = CASE WHEN existing.expire_time <= :at THEN excluded.created_by ELSE existing.created_by END,
        update_time = excluded.update_time
RETURNING session_id, key, value, expire_time, create_time, update_time, created_by,
    (existing.xmax = 0) AS is_new;

-- get_item --
-- Read the item under a key, unless it has expired.
SELECT session_id, key, value, expire_time, create_time, update_time, created_by
FROM session.items
WHERE tenant_id = :tenant_id AND session_id = :session_id AND key = :key AND expire_time > :at;

-- list_items --
-- Read items that have not expired, by key, after another.
SELECT session_id, key, value, expire_time, create_time, update_time, created_by
FROM session.items
WHERE tenant_id = :tenant_id AND session_id = :session_id AND key > :after AND expire_time > :at
    AND (:prefix::text IS NULL OR starts_with(key, :prefix))
ORDER BY key
LIMIT :limit;

-- count_items --
-- Count items of a session, up to a limit.
SELECT count(*)
FROM (
    SELECT FROM session.items
    WHERE tenant_id = :tenant_id AND session_id = :session_id
    LIMIT :limit
) AS counted;

-- delete_item --
-- Delete the item under a key; return its expire_time.
DELETE FROM session.items
WHERE tenant_id = :tenant_id AND session_id = :session_id AND key = :key
RETURNING expire_time;

-- delete_items_of_session --
-- Delete all items of a session.
DELETE FROM session.items
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- delete_expired_items --
-- Delete expired items, oldest first, up to a limit; an item that a concurrent call extends stays.
DELETE FROM session.items
USING (
    SELECT session_id, key FROM session.items
    WHERE tenant_id = :tenant_id AND expire_time <= :at
    ORDER BY expire_time
    LIMIT :count
    FOR UPDATE SKIP LOCKED
) AS picked
WHERE items.tenant_id = :tenant_id AND items.expire_time <= :at
    AND items.session_id = picked.session_id AND items.key = picked.key;
