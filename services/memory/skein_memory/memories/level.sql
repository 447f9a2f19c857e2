-- list_over_capacity --
-- Find memories for which a level has no room: those after the most important ones that fit, of equals the older.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND level = :level AND is_active AND archive_time IS NULL
    AND (expire_time IS NULL OR expire_time > :at)
ORDER BY importance DESC, memory_id DESC
OFFSET :capacity
LIMIT :count;

-- list_least_important --
-- Find the least important memories, archived ones too, that matter no more than something else; of equals the older. Each
-- part is read in order from its own index.
SELECT memory_id
FROM (
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND level = 'strategic' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND level = 'tactical' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND level = 'operational' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND level = 'contextual' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND is_active AND archive_time IS NOT NULL AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
) AS least
ORDER BY importance, memory_id
LIMIT :count;

-- lock_free_memories --
-- Lock those of some memories that no other transaction has locked.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND is_active
ORDER BY memory_id
FOR NO KEY UPDATE SKIP LOCKED;

-- count_memories --
-- Return how many memories a tenant has, as they are counted.
SELECT coalesce(sum(amount), 0)::bigint AS used
FROM memory.usage
WHERE tenant_id = :tenant_id AND kind = 'memories';
