-- find_disagreements --
-- Return the pairs among some memories that contradict each other by a link, or have a conflict under review.
SELECT from_memory_id AS one_id, to_memory_id AS other_id
FROM memory.links
WHERE tenant_id = :tenant_id AND from_memory_id = ANY (:memory_ids::uuid[]) AND relation = 'contradicts'
    AND to_memory_id = ANY (:memory_ids::uuid[])
UNION ALL
SELECT a_memory_id AS one_id, b_memory_id AS other_id
FROM memory.conflict_resolutions
WHERE tenant_id = :tenant_id AND a_memory_id = ANY (:memory_ids::uuid[]) AND b_memory_id = ANY (:memory_ids::uuid[])
    AND status = 'needs_review';

-- walk_fingerprints --
-- Read memories and their readers in the order of their fingerprints, so that equal ones are adjacent. Hashes of an
-- older version are left out, because they do not cover the data. The vault is left out, because secrets are not
-- compared.
SELECT fingerprint, memory_id, scope, agent_id, subject_id, session_id, expire_time,
       CASE WHEN fingerprint < :before_fingerprint OR data IS NOT NULL THEN content_hash END AS content_hash
FROM memory.memories
WHERE tenant_id = :tenant_id AND (fingerprint, memory_id) > (:after_fingerprint, :after_id)
    AND is_active AND archive_time IS NULL AND (data IS NULL OR text_revision = revision)
    AND type <> 'knowledge_vault'
ORDER BY fingerprint, memory_id
LIMIT :count;

-- find_links_of --
-- Find up to so many links from and to some memories; a link between two of them comes twice.
(SELECT link_id FROM memory.links
 WHERE tenant_id = :tenant_id AND from_memory_id = ANY (:memory_ids::uuid[]) LIMIT :count)
UNION ALL
(SELECT link_id FROM memory.links
 WHERE tenant_id = :tenant_id AND to_memory_id = ANY (:memory_ids::uuid[]) LIMIT :count);

-- list_neighbours --
-- Read the newest links of a memory, in both directions, each with the memory at its other end.
SELECT link_id, relation, other_id
FROM ((SELECT link_id, relation, to_memory_id AS other_id FROM memory.links
       WHERE tenant_id = :tenant_id AND from_memory_id = :memory_id
       ORDER BY link_id DESC LIMIT :count)
      UNION ALL
      (SELECT link_id, relation, from_memory_id AS other_id FROM memory.links
       WHERE tenant_id = :tenant_id AND to_memory_id = :memory_id
       ORDER BY link_id DESC LIMIT :count)) AS both_ways
ORDER BY link_id DESC
LIMIT :count;

-- find_idle --
-- Find memories whose idleness began to count before a time, longest idle first.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND decay_time <= :before AND is_active AND archive_time IS NULL
    AND (expire_time IS NULL OR expire_time > :at)
ORDER BY decay_time
LIMIT :count;

-- count_idle --
-- Count memories whose idleness began to count before a time, up to a number.
SELECT count(*) AS count
FROM (
    SELECT FROM memory.memories
    WHERE tenant_id = :tenant_id AND decay_time <= :before AND is_active AND archive_time IS NULL
        AND (expire_time IS NULL OR expire_time > :at)
    LIMIT :count
) AS due;

-- read_idleness --
-- Read how far memories have decayed, and when they were last read.
SELECT memory_id, decay_time, decay_periods,
       (SELECT last_access_time FROM memory.access_counts
        WHERE access_counts.tenant_id = :tenant_id AND access_counts.memory_id = memories.memory_id) AS last_access_time
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids;

-- mark_decay --
-- Note from when on a memory's idleness counts for the next decay; null: for none.
UPDATE memory.memories
SET decay_time = :decay_time, decay_periods = :decay_periods
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- find_spaces --
-- Return the spaces of some memories.
SELECT memory_id, space_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids;
