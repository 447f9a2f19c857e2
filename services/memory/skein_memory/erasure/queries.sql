-- purge_memory_versions --
-- Purge the earlier versions of memories.
DELETE FROM memory.versions
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- find_formerly_about --
-- Return memories that have earlier versions about a person, in the order of their ids, up to a number.
SELECT DISTINCT memory_id
FROM memory.versions
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
ORDER BY memory_id
LIMIT :count;

-- purge_versions_of_subject --
-- Purge the earlier versions of memories that were about a person.
DELETE FROM memory.versions
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND subject_id = :subject_id;

-- find_names_of_entities --
-- Read what names some memories: their aliases and, of those that have aliases, they themselves; with the names as recall
-- reads them.
SELECT named.alias_memory_id, named.is_alias, known.subject_id,
       btrim(coalesce(nullif(known.title, ''), nullif(known.key, ''), known.content)) AS name
FROM (
    SELECT alias_memory_id, alias_memory_id AS memory_id, true AS is_alias
    FROM memory.aliases
    WHERE tenant_id = :tenant_id AND canonical_memory_id = ANY (:memory_ids::uuid[])
    UNION ALL
    SELECT NULL, canonical_memory_id, false
    FROM memory.aliases
    WHERE tenant_id = :tenant_id AND canonical_memory_id = ANY (:memory_ids)
) AS named
JOIN memory.memories AS known ON known.tenant_id = :tenant_id AND known.memory_id = named.memory_id;

-- list_lineage_purges --
-- Read some memories that were made of a person's items, or name them, and are to be purged or named in the answer.
SELECT memory_id
FROM memory.lineage_purges
WHERE tenant_id = :tenant_id
ORDER BY memory_id
LIMIT :count;

-- list_archived_lineage_purges --
-- Read some of them that are in cold storage and about no other person.
SELECT archived_memories.memory_id, archived_memories.archive_id
FROM memory.lineage_purges
JOIN memory.archived_memories ON archived_memories.tenant_id = :tenant_id
    AND archived_memories.memory_id = lineage_purges.memory_id
WHERE lineage_purges.tenant_id = :tenant_id
    AND (archived_memories.subject_id IS NULL OR archived_memories.subject_id = :subject_id)
LIMIT :count;

-- read_archived_subjects --
-- Read whom archived memories are about.
SELECT memory_id, subject_id
FROM memory.archived_memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- delete_lineage_purges --
-- Delete memories from those that are to be purged or named.
DELETE FROM memory.lineage_purges
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- has_lineage_purges --
-- Return whether memories are to be purged or named.
SELECT EXISTS (SELECT FROM memory.lineage_purges WHERE tenant_id = :tenant_id);

-- purge_memory_revisions --
-- Purge the earlier revisions of items that name memories.
DELETE FROM memory.revisions
WHERE tenant_id = :tenant_id
    AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]));

-- purge_access_counts --
-- Purge the counts of accesses to memories.
DELETE FROM memory.access_counts
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_links --
-- Purge the links of memories, in both directions.
DELETE FROM memory.links
WHERE tenant_id = :tenant_id
    AND (from_memory_id = ANY (:memory_ids::uuid[]) OR to_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_tags --
-- Purge the tags of memories.
DELETE FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_properties --
-- Purge the properties of memories.
DELETE FROM memory.properties
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_external_ids --
-- Purge the external ids of memories.
DELETE FROM memory.external_ids
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_fact_keys --
-- Purge the fact keys of memories.
DELETE FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_documents --
-- Purge memories from the search index; foreign keys purge their postings and vectors.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:memory_ids::uuid[]);

-- purge_memories --
-- Purge memories; foreign keys purge their remaining rows.
DELETE FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids;

-- clear_responses --
-- Empty the saved responses that name memories: a repeated request then gets an empty response and does nothing.
-- Responses live for a day; each is scanned once for all memories.
UPDATE memory.requests
SET response = '', fingerprint = ''
WHERE tenant_id = :tenant_id AND create_time >= :since_time AND response <> ''
    AND method <> ALL (:spared::text[])
    AND EXISTS (
        SELECT FROM regexp_matches(
            encode(response, 'escape'), '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', 'g') AS found (ids)
        WHERE found.ids[1] = ANY (:names::text[]));

-- purge_memory_secrets --
-- Purge the secrets of memories.
DELETE FROM memory.secrets
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_pending_rows --
-- Purge rows that name memories and wait for others from cold storage.
DELETE FROM memory.pending_rows
WHERE tenant_id = :tenant_id
    AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_tasks --
-- Purge the task rows of memories.
DELETE FROM memory.tasks
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- purge_memory_aliases --
-- Purge the aliases of memories, as alias and as canonical memory.
DELETE FROM memory.aliases
WHERE tenant_id = :tenant_id
    AND (alias_memory_id = ANY (:memory_ids::uuid[]) OR canonical_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_aliases_history --
-- Purge the former aliases of memories, as alias and as canonical memory.
DELETE FROM memory.aliases_history
WHERE tenant_id = :tenant_id
    AND (alias_memory_id = ANY (:memory_ids::uuid[]) OR canonical_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_conflict_resolutions --
-- Purge the resolutions of conflicts of memories.
DELETE FROM memory.conflict_resolutions
WHERE tenant_id = :tenant_id
    AND (a_memory_id = ANY (:memory_ids::uuid[]) OR b_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_conflict_resolutions_history --
-- Purge the former resolutions of conflicts of memories.
DELETE FROM memory.conflict_resolutions_history
WHERE tenant_id = :tenant_id
    AND (a_memory_id = ANY (:memory_ids::uuid[]) OR b_memory_id = ANY (:memory_ids::uuid[]));

-- purge_memory_snapshot_items --
-- Purge the copies of memories, and of items that name them, from snapshots and their counts.
WITH going AS MATERIALIZED (
    SELECT snapshot_id, kind, count(*) AS count
    FROM memory.snapshot_items
    WHERE tenant_id = :tenant_id AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]))
    GROUP BY snapshot_id, kind
), touched AS MATERIALIZED (
    -- In one order, so that two purges do not deadlock.
    SELECT snapshot_id FROM memory.snapshots
    WHERE tenant_id = :tenant_id AND snapshot_id IN (SELECT snapshot_id FROM going)
    ORDER BY snapshot_id
    FOR NO KEY UPDATE
), counted AS (
    UPDATE memory.snapshots AS snapshot
    SET counts = (
        SELECT coalesce(jsonb_object_agg(known.kind, known.count::bigint - coalesce(going.count, 0)), '{}')
        FROM jsonb_each_text(snapshot.counts) AS known (kind, count)
        LEFT JOIN going ON going.snapshot_id = snapshot.snapshot_id AND going.kind = known.kind
        WHERE known.count::bigint > coalesce(going.count, 0))
    WHERE snapshot.tenant_id = :tenant_id AND snapshot.snapshot_id IN (SELECT snapshot_id FROM touched)
)
DELETE FROM memory.snapshot_items
WHERE tenant_id = :tenant_id AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids::uuid[]));

-- oldest_memories --
-- Scan the oldest memories of a range of ids, each with whether it was recorded before a time.
SELECT memory_id, greatest(record_time, update_time) < :before AS goes
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id > :after_id AND memory_id < :before_id
ORDER BY memory_id
LIMIT :scan;
