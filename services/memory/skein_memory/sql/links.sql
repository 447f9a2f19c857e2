-- insert_link --
-- Store a link.
INSERT INTO memory.links
    (tenant_id, link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by)
VALUES
    (:tenant_id, :link_id, :from_memory_id, :to_memory_id, :relation, :label, :weight, :metadata, :create_time,
     :created_by);

-- delete_link --
-- Remove a link for good.
DELETE FROM memory.links
WHERE tenant_id = :tenant_id AND link_id = :link_id;

-- list_links --
-- Read the newest links of a memory that are older than one link. No link is in both parts, as none leads to itself;
-- each part is read in order from its own index.
SELECT link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by
FROM (
    (SELECT link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by
     FROM memory.links
     WHERE tenant_id = :tenant_id AND from_memory_id = :memory_id AND link_id < :before_id AND :outgoing::boolean
         AND (:relation::text IS NULL OR relation = :relation)
     ORDER BY link_id DESC
     LIMIT :count)
    UNION ALL
    (SELECT link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by
     FROM memory.links
     WHERE tenant_id = :tenant_id AND to_memory_id = :memory_id AND link_id < :before_id AND :incoming::boolean
         AND (:relation::text IS NULL OR relation = :relation)
     ORDER BY link_id DESC
     LIMIT :count)
) AS both_ways
ORDER BY link_id DESC
LIMIT :count;
