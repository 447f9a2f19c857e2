-- find_memories --
-- Return which of some ids belong to a memory, deleted or not.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- last_revision --
-- Return the number of the last stored revision of an item, from which the next one counts on.
SELECT max(revision)
FROM memory.revisions
WHERE tenant_id = :tenant_id AND kind = :kind AND item_id = :item_id;

-- lock_source_trust --
-- Read and lock the trust in a source.
SELECT source_key, trust, notes, revision, create_time, update_time, created_by, updated_by
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = :source_key
FOR NO KEY UPDATE;

-- get_source_trust --
-- Read the trust in a source.
SELECT source_key, trust, notes, revision, create_time, update_time, created_by, updated_by
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = :source_key;

-- list_source_trust --
-- Read the trust in sources, in the order of their keys.
SELECT source_key, trust, notes, revision, create_time, update_time, created_by, updated_by
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key > :after
ORDER BY source_key
LIMIT :count;

-- insert_source_trust --
-- Insert the trust in a source; nothing is inserted when a concurrent transaction did.
INSERT INTO memory.source_trust
    (tenant_id, source_key, trust, notes, revision, create_time, update_time, created_by, updated_by)
VALUES
    (:tenant_id, :source_key, :trust, :notes, :revision, :create_time, :update_time, :created_by, :updated_by)
ON CONFLICT ON CONSTRAINT source_trust_pkey DO NOTHING;

-- update_source_trust --
-- Update the trust in a source.
UPDATE memory.source_trust
SET trust = :trust, notes = :notes, revision = :revision, update_time = :update_time, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND source_key = :source_key;

-- delete_source_trust --
-- Delete the trust in a source.
DELETE FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = :source_key;

-- lock_aliases --
-- Take the lock of a tenant's aliases, because one alias depends on others.
INSERT INTO memory.usage AS known (tenant_id, kind, slot, amount)
VALUES (:tenant_id, 'aliases', 0, 0)
ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE SET amount = known.amount;

-- get_aliases --
-- Read the aliases of some memories.
SELECT alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time, created_by,
       updated_by
FROM memory.aliases
WHERE tenant_id = :tenant_id AND alias_memory_id = ANY (:memory_ids::uuid[]);

-- list_aliases --
-- Read aliases in the order of their ids, of all memories.
SELECT alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time, created_by,
       updated_by
FROM memory.aliases
WHERE tenant_id = :tenant_id AND alias_memory_id > :after
ORDER BY alias_memory_id
LIMIT :count;

-- list_aliases_of --
-- Read the aliases of one memory in the order of their ids.
SELECT alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time, created_by,
       updated_by
FROM memory.aliases
WHERE tenant_id = :tenant_id AND canonical_memory_id = :canonical_memory_id AND alias_memory_id > :after
ORDER BY alias_memory_id
LIMIT :count;

-- count_aliases --
-- Count a tenant's aliases, up to so many.
SELECT count(*) FROM (SELECT FROM memory.aliases WHERE tenant_id = :tenant_id LIMIT :most) AS these;

-- put_alias --
-- Store an alias.
INSERT INTO memory.aliases
    (tenant_id, alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time, created_by,
     updated_by)
VALUES
    (:tenant_id, :alias_memory_id, :canonical_memory_id, :confidence, :note, :revision, :create_time, :update_time,
     :created_by, :updated_by)
ON CONFLICT ON CONSTRAINT aliases_pkey DO UPDATE
SET canonical_memory_id = excluded.canonical_memory_id, confidence = excluded.confidence, note = excluded.note,
    revision = excluded.revision, update_time = excluded.update_time, updated_by = excluded.updated_by;

-- delete_alias --
-- Delete an alias.
DELETE FROM memory.aliases
WHERE tenant_id = :tenant_id AND alias_memory_id = :alias_memory_id;

-- walk_contradictions --
-- Read the newest links of contradiction that are older than one link.
SELECT link_id, from_memory_id, to_memory_id
FROM memory.links
WHERE tenant_id = :tenant_id AND relation = 'contradicts' AND link_id < :before_id
ORDER BY link_id DESC
LIMIT :count;

-- find_contradictions --
-- Return which of some pairs, which come as two lists, a link of contradiction joins in this direction.
SELECT requested.from_memory_id, requested.to_memory_id
FROM unnest(:from_ids::uuid[], :to_ids::uuid[]) AS requested (from_memory_id, to_memory_id)
CROSS JOIN LATERAL (
    SELECT FROM memory.links
    WHERE links.tenant_id = :tenant_id AND links.from_memory_id = requested.from_memory_id
        AND links.to_memory_id = requested.to_memory_id AND links.relation = 'contradicts'
    LIMIT 1) AS found;

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

-- walk_keys --
-- Read memories with keys in the order of their fingerprints, so that those with the same key lie together.
SELECT fingerprint, memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND (fingerprint, memory_id) >= (:from_fingerprint, :from_id)
    AND fingerprint < :before_fingerprint AND is_active AND archive_time IS NULL
ORDER BY fingerprint, memory_id
LIMIT :count;

-- read_contenders --
-- Read what decides whether memories are in conflict, of those that are not deleted, archived or expired.
SELECT memory_id, type, subject_id, confidence, fingerprint, sha256(convert_to(content, 'UTF8')) AS content_digest,
       jsonb_hash_extended(data::jsonb, 0) AS data_digest
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND is_active AND archive_time IS NULL AND (expire_time IS NULL OR expire_time > :at);

-- walk_fingerprints --
-- Read memories in the order of their fingerprints, so that those that say the same lie together, with who sees them.
-- Those whose hash an older version made take no part, since it does not tell their data apart; nor does the vault,
-- since secrets are not compared.
SELECT fingerprint, memory_id, scope, agent_id, subject_id, session_id, expire_time,
       CASE WHEN fingerprint < :before_fingerprint OR data IS NOT NULL THEN content_hash END AS content_hash
FROM memory.entries
WHERE tenant_id = :tenant_id AND (fingerprint, memory_id) > (:after_fingerprint, :after_id)
    AND is_active AND archive_time IS NULL AND (data IS NULL OR text_revision = revision)
    AND type <> 'knowledge_vault'
ORDER BY fingerprint, memory_id
LIMIT :count;

-- get_resolutions --
-- Read the resolutions of pairs, which come as two lists.
SELECT found.*
FROM unnest(:a_ids::uuid[], :b_ids::uuid[]) AS requested (a_memory_id, b_memory_id)
CROSS JOIN LATERAL (
    SELECT resolution_id, a_memory_id, b_memory_id, status, canonical_memory_id, note, link_id, closed_time, revision,
           create_time, update_time, created_by, updated_by
    FROM memory.conflict_resolutions AS resolution
    WHERE resolution.tenant_id = :tenant_id AND resolution.a_memory_id = requested.a_memory_id
        AND resolution.b_memory_id = requested.b_memory_id
    LIMIT 1) AS found;

-- list_resolutions --
-- Read the newest resolutions of conflicts that are older than one.
SELECT resolution_id, a_memory_id, b_memory_id, status, canonical_memory_id, note, link_id, closed_time, revision,
       create_time, update_time, created_by, updated_by
FROM memory.conflict_resolutions
WHERE tenant_id = :tenant_id AND resolution_id < :before_id AND (:status::text IS NULL OR status = :status)
ORDER BY resolution_id DESC
LIMIT :count;

-- put_resolution --
-- Store the resolution of a conflict.
INSERT INTO memory.conflict_resolutions
    (tenant_id, resolution_id, a_memory_id, b_memory_id, status, canonical_memory_id, note, link_id, closed_time,
     revision, create_time, update_time, created_by, updated_by)
VALUES
    (:tenant_id, :resolution_id, :a_memory_id, :b_memory_id, :status, :canonical_memory_id, :note, :link_id,
     :closed_time, :revision, :create_time, :update_time, :created_by, :updated_by)
ON CONFLICT ON CONSTRAINT conflict_resolutions_pkey DO UPDATE
SET status = excluded.status, canonical_memory_id = excluded.canonical_memory_id, note = excluded.note,
    link_id = excluded.link_id, closed_time = excluded.closed_time, revision = excluded.revision,
    update_time = excluded.update_time, updated_by = excluded.updated_by;

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
FROM memory.entries
WHERE tenant_id = :tenant_id AND decay_time <= :before AND is_active AND archive_time IS NULL
    AND (expire_time IS NULL OR expire_time > :at)
ORDER BY decay_time
LIMIT :count;

-- read_idleness --
-- Read how far memories have decayed, and when they were last read.
SELECT memory_id, decay_time, decay_periods,
       (SELECT last_access_time FROM memory.accesses
        WHERE accesses.tenant_id = :tenant_id AND accesses.memory_id = entries.memory_id) AS last_access_time
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- mark_decay --
-- Note from when on a memory's idleness counts for the next decay; null: for none.
UPDATE memory.entries
SET decay_time = :decay_time, decay_periods = :decay_periods
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- find_review_candidates --
-- Find memories that may deserve a second look: the most important of each level, the least sure and the oldest, so many
-- of each. Each level is spelled out: the planner knows then that an index of importance alone may have to read a whole tenant
-- to find a few of a level.
(SELECT memory_id FROM memory.entries
 WHERE tenant_id = :tenant_id AND level = 'strategic' AND is_active AND archive_time IS NULL
 ORDER BY importance DESC LIMIT :count)
UNION
(SELECT memory_id FROM memory.entries
 WHERE tenant_id = :tenant_id AND level = 'tactical' AND is_active AND archive_time IS NULL
 ORDER BY importance DESC LIMIT :count)
UNION
(SELECT memory_id FROM memory.entries
 WHERE tenant_id = :tenant_id AND level = 'operational' AND is_active AND archive_time IS NULL
 ORDER BY importance DESC LIMIT :count)
UNION
(SELECT memory_id FROM memory.entries
 WHERE tenant_id = :tenant_id AND level = 'contextual' AND is_active AND archive_time IS NULL
 ORDER BY importance DESC LIMIT :count)
UNION
(SELECT memory_id FROM memory.entries
 WHERE tenant_id = :tenant_id AND is_active AND archive_time IS NULL
 ORDER BY confidence LIMIT :count)
UNION
(SELECT memory_id FROM memory.entries
 WHERE tenant_id = :tenant_id AND is_active AND archive_time IS NULL
 ORDER BY memory_id LIMIT :count);

-- list_kinds --
-- Read of the newest memories of a range of ids what they are counted by.
SELECT memory_id, type, scope, level, importance
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id >= :from_id AND memory_id < :before_id
    AND is_active AND archive_time IS NULL AND (expire_time IS NULL OR expire_time > :at)
ORDER BY memory_id DESC
LIMIT :count;

-- list_tags_since --
-- Read the tags of the newest memories down to one.
SELECT memory_id, tag
FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id >= :from_id
ORDER BY memory_id DESC
LIMIT :count;

-- list_relations --
-- Read the relations of the newest links.
SELECT relation
FROM memory.links
WHERE tenant_id = :tenant_id
ORDER BY link_id DESC
LIMIT :count;

-- count_expired --
-- Count the memories that have expired and are not erased yet, up to so many.
SELECT count(*) FROM (
    SELECT FROM memory.entries
    WHERE tenant_id = :tenant_id AND expire_time <= :at AND is_active LIMIT :most) AS these;

-- read_totals --
-- Read how many memories and links a tenant has.
SELECT kind, sum(amount)::bigint AS amount
FROM memory.usage
WHERE tenant_id = :tenant_id AND kind IN ('memories', 'links')
GROUP BY kind;
