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

-- walk_keys --
-- Read memories with keys in the order of their fingerprints, so that those with the same key lie together.
SELECT fingerprint, memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND (fingerprint, memory_id) >= (:from_fingerprint, :from_id)
    AND fingerprint < :before_fingerprint AND is_active AND archive_time IS NULL
ORDER BY fingerprint, memory_id
LIMIT :count;

-- read_contenders --
-- Read what decides whether memories are in conflict, of those that are not deleted, archived or expired.
SELECT memory_id, type, subject_id, confidence, fingerprint, sha256(convert_to(content, 'UTF8')) AS content_digest,
       jsonb_hash_extended(data::jsonb, 0) AS data_digest
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND is_active AND archive_time IS NULL AND (expire_time IS NULL OR expire_time > :at);

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
