-- insert_links --
-- Insert links; skip those whose pair and relation exist.
INSERT INTO memory.links
    (tenant_id, link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by,
     update_time, updated_by, author_keys, record_time)
VALUES
    (:tenant_id, :link_id, :from_memory_id, :to_memory_id, :relation, :label, :weight, :metadata, :create_time,
     :created_by, :update_time, :updated_by, :author_keys, :record_time)
ON CONFLICT ON CONSTRAINT links_pair_key DO NOTHING;

-- update_link --
-- Store a link's next revision.
UPDATE memory.links
SET relation = :relation, label = :label, weight = :weight, metadata = :metadata, revision = :revision,
    update_time = :update_time, record_time = :record_time, updated_by = :updated_by, author_keys = :author_keys
WHERE tenant_id = :tenant_id AND link_id = :link_id;

-- delete_links --
-- Delete links, and return them.
DELETE FROM memory.links
WHERE tenant_id = :tenant_id AND link_id = ANY (:link_ids::uuid[])
RETURNING link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by, revision,
    coalesce(update_time, create_time) AS update_time, coalesce(updated_by, created_by) AS updated_by,
    greatest(record_time, update_time, create_time) AS record_time;

-- get_links --
-- Read links by id, in no order.
SELECT link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by, revision,
       coalesce(update_time, create_time) AS update_time, coalesce(updated_by, created_by) AS updated_by,
       greatest(record_time, update_time, create_time) AS record_time
FROM memory.links
WHERE tenant_id = :tenant_id AND link_id = ANY (:link_ids::uuid[]);

-- lock_link --
-- Read and lock a link.
SELECT link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by, revision,
       coalesce(update_time, create_time) AS update_time, coalesce(updated_by, created_by) AS updated_by,
       greatest(record_time, update_time, create_time) AS record_time
FROM memory.links
WHERE tenant_id = :tenant_id AND link_id = :link_id
FOR UPDATE;

-- find_pairs --
-- Return the links of pairs of memories by relation.
SELECT links.link_id, links.from_memory_id, links.to_memory_id, links.relation
FROM unnest(:from_ids::uuid[], :to_ids::uuid[], :relations::text[]) AS pairs (from_id, to_id, relation)
CROSS JOIN LATERAL (
    SELECT link_id, from_memory_id, to_memory_id, relation
    FROM memory.links
    WHERE tenant_id = :tenant_id AND from_memory_id = pairs.from_id AND to_memory_id = pairs.to_id
        AND links.relation = pairs.relation
    LIMIT 1) AS links;

-- list_links --
-- Read the newest links of a memory that are older than one link. No link is in both parts, as none leads to itself;
-- each part is read in order from its own index.
SELECT link_id, from_memory_id, to_memory_id, relation, label, weight, metadata, create_time, created_by, revision,
       coalesce(update_time, create_time) AS update_time, coalesce(updated_by, created_by) AS updated_by,
       greatest(record_time, update_time, create_time) AS record_time
FROM (
    (SELECT *
     FROM memory.links
     WHERE tenant_id = :tenant_id AND from_memory_id = :memory_id AND link_id < :before_id AND :outgoing::boolean
         AND (:relations::text[] IS NULL OR relation = ANY (:relations)) AND weight >= :min_weight
     ORDER BY link_id DESC
     LIMIT :count)
    UNION ALL
    (SELECT *
     FROM memory.links
     WHERE tenant_id = :tenant_id AND to_memory_id = :memory_id AND link_id < :before_id AND :incoming::boolean
         AND (:relations::text[] IS NULL OR relation = ANY (:relations)) AND weight >= :min_weight
     ORDER BY link_id DESC
     LIMIT :count)
) AS both_ways
ORDER BY link_id DESC
LIMIT :count;
