-- oldest_idle --
-- Scan the oldest memories of a range of ids, at most `scan`, each with whether it can be archived. It can if it is
-- unchanged since a time, or of one session, and has no secret, snapshot copy, expiry, or former version about another
-- person: the purge of that person finds a memory in cold storage by its present subject alone.
SELECT looked.memory_id,
    (looked.record_time < :idle_since AND looked.type <> 'knowledge_vault' AND looked.is_active
        AND looked.expire_time IS NULL AND NOT EXISTS (
        SELECT FROM memory.snapshot_items AS copied
        WHERE copied.tenant_id = :tenant_id AND copied.memory_id = looked.memory_id) AND NOT EXISTS (
        SELECT FROM memory.versions AS former
        WHERE former.tenant_id = :tenant_id AND former.memory_id = looked.memory_id
            AND former.subject_id IS NOT NULL AND former.subject_id IS DISTINCT FROM looked.subject_id)) AS goes
FROM (
    SELECT memory_id, greatest(record_time, update_time) AS record_time, type, is_active, expire_time,
           subject_id
    FROM memory.memories
    WHERE tenant_id = :tenant_id AND memory_id > :after_id AND memory_id < :before_id
        AND (:session_id::text IS NULL OR session_id = :session_id)
    ORDER BY memory_id
    LIMIT :scan
) AS looked
ORDER BY looked.memory_id;

-- find_linked_elsewhere --
-- Return which of some memories have a link to a memory of another space, for a transaction that reads all spaces: an archive
-- is a file of one space.
SELECT own.memory_id
FROM unnest(:memory_ids::uuid[]) AS own (memory_id)
WHERE EXISTS (
    SELECT FROM memory.links AS l
    WHERE l.tenant_id = :tenant_id AND l.from_memory_id = own.memory_id AND l.from_space_id <> l.to_space_id)
    OR EXISTS (
    SELECT FROM memory.links AS l
    WHERE l.tenant_id = :tenant_id AND l.to_memory_id = own.memory_id AND l.from_space_id <> l.to_space_id);

-- archive_sizes --
-- Estimate the bytes of memories and their rows in a file.
SELECT memories.memory_id,
    (octet_length(memories.content) + coalesce(pg_column_size(memories.metadata), 0)
        + coalesce(pg_column_size(memories.data), 0) + coalesce(pg_column_size(memories.words), 0) + 1000
        + coalesce((
            SELECT sum(pg_column_size(versions.content) + coalesce(pg_column_size(versions.metadata), 0)
                + coalesce(pg_column_size(versions.data), 0) + 1000)
            FROM memory.versions
            WHERE versions.tenant_id = :tenant_id AND versions.memory_id = memories.memory_id), 0)
        + 600 * (
            SELECT count(*) FROM memory.links
            WHERE links.tenant_id = :tenant_id AND links.from_memory_id = memories.memory_id)
        + 600 * (
            SELECT count(*) FROM memory.links
            WHERE links.tenant_id = :tenant_id AND links.to_memory_id = memories.memory_id))::bigint AS bytes
FROM memory.memories
WHERE memories.tenant_id = :tenant_id AND memories.memory_id = ANY (:memory_ids::uuid[])
    AND memories.memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids;

-- insert_archive --
-- Insert an archive whose file is written.
INSERT INTO memory.archives
    (tenant_id, archive_id, label, memory_count, byte_count, checksum, from_time, to_time, create_time, created_by)
VALUES
    (:tenant_id, :archive_id, :label, :memory_count, :byte_count, :checksum, :from_time, :to_time, :create_time,
     :created_by);

-- insert_archived --
-- Insert which memories an archive contains.
INSERT INTO memory.archived_memories
    (tenant_id, memory_id, archive_id, external_id, subject_id, session_id, record_time)
VALUES (:tenant_id, :memory_id, :archive_id, :external_id, :subject_id, :session_id, :record_time);

-- insert_archived_sources --
-- Insert what archived memories were made of.
INSERT INTO memory.archived_sources (tenant_id, memory_id, source_id)
VALUES (:tenant_id, :memory_id, :source_id);

-- list_archives --
-- Read the newest archives that are older than one.
SELECT archive_id, label, memory_count, byte_count, checksum, from_time, to_time, create_time, created_by
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id < :before_id
ORDER BY archive_id DESC
LIMIT :count;

-- walk_archives --
-- Scan the oldest archives after one, with the times of their memories, and whether each may hold memories about a
-- person.
SELECT archive_id, from_time, to_time,
    (:subject_id::text IS NULL OR EXISTS (
        SELECT FROM memory.archived_memories
        WHERE archived_memories.tenant_id = :tenant_id AND archived_memories.subject_id = :subject_id
            AND archived_memories.archive_id = archives.archive_id)) AS may_hold
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id > :after_id
ORDER BY archive_id
LIMIT :count;

-- newest_archive --
-- Return the id of the newest archive.
SELECT archive_id
FROM memory.archives
WHERE tenant_id = :tenant_id
ORDER BY archive_id DESC
LIMIT 1;

-- has_newer_archive --
-- Return whether there is an archive after one.
SELECT EXISTS (SELECT FROM memory.archives WHERE tenant_id = :tenant_id AND archive_id > :archive_id);

-- lock_archive_creation --
-- Take the lock of a tenant's archive creation, so that archives are created in the order of their ids.
SELECT pg_advisory_xact_lock(hashtextextended(place.tenant_id::text || ' archives', 0))
FROM (SELECT :tenant_id::uuid AS tenant_id) AS place;

-- get_archive --
-- Read an archive.
SELECT archive_id, label, memory_count, byte_count, checksum, from_time, to_time, create_time, created_by, space_id
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id = :archive_id;

-- lock_archive --
-- Read and lock an archive.
SELECT archive_id, label, memory_count, byte_count, checksum, from_time, to_time, create_time, created_by, space_id
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id = :archive_id
FOR UPDATE;

-- delete_archive --
-- Delete an archive, with the list of its memories.
DELETE FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id = :archive_id;

-- update_archive_after_purge --
-- Store the new size and checksum of an archive after a purge.
UPDATE memory.archives
SET memory_count = :memory_count, byte_count = :byte_count, checksum = :checksum
WHERE tenant_id = :tenant_id AND archive_id = :archive_id;

-- delete_archived --
-- Delete memories from the lists of archives.
DELETE FROM memory.archived_memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- find_archived --
-- Return the archives of memories, by their ids or external ids.
SELECT memory_id, archive_id, external_id
FROM memory.archived_memories
WHERE tenant_id = :tenant_id AND (memory_id = ANY (:memory_ids::uuid[]) OR external_id = ANY (:external_ids::text[]));

-- find_archived_subject --
-- Find some archived memories about a person, from one archive on.
SELECT memory_id, archive_id
FROM memory.archived_memories
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND archive_id >= :since_id
ORDER BY archive_id
LIMIT :count;

-- find_existing --
-- Return which of some ids belong to a memory, deleted or not.
SELECT memory_id
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids;

-- archive_memories --
-- Read the rows of memory.memories of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.memories AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
ORDER BY 1;

-- unarchive_memories --
-- Insert unarchived rows into memory.memories; skip rows whose key exists.
INSERT INTO memory.memories
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.memories, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_tags --
-- Read the rows of memory.tags of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.tags AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_tags --
-- Insert unarchived rows into memory.tags; skip rows whose key exists.
INSERT INTO memory.tags
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.tags, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_sources --
-- Read the rows of memory.sources of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.sources AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_sources --
-- Insert unarchived rows into memory.sources; skip rows whose key exists.
INSERT INTO memory.sources
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.sources, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_trust --
-- Read the rows of memory.trust of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.trust AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_trust --
-- Insert unarchived rows into memory.trust; skip rows whose key exists.
INSERT INTO memory.trust
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.trust, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_versions --
-- Read the rows of memory.versions of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.versions AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_versions --
-- Insert unarchived rows into memory.versions; skip rows whose key exists.
INSERT INTO memory.versions
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.versions, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_access_counts --
-- Read the rows of memory.access_counts of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.access_counts AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_access_counts --
-- Insert unarchived rows into memory.access_counts; skip rows whose key exists.
INSERT INTO memory.access_counts
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.access_counts, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_properties --
-- Read the rows of memory.properties of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.properties AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_properties --
-- Insert unarchived rows into memory.properties; skip rows whose key exists.
INSERT INTO memory.properties
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.properties, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_external_ids --
-- Read the rows of memory.external_ids of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.external_ids AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_external_ids --
-- Insert unarchived rows into memory.external_ids; skip rows whose key exists.
INSERT INTO memory.external_ids
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.external_ids, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_fact_keys --
-- Read the rows of memory.fact_keys of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.fact_keys AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_fact_keys --
-- Insert unarchived rows into memory.fact_keys; skip rows whose key exists.
INSERT INTO memory.fact_keys
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.fact_keys, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_tasks --
-- Read the rows of memory.tasks of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.tasks AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_tasks --
-- Insert unarchived rows into memory.tasks; skip rows whose key exists.
INSERT INTO memory.tasks
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.tasks, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_links --
-- Read the rows of memory.links of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.links AS kept
WHERE tenant_id = :tenant_id AND (from_memory_id = ANY (:memory_ids::uuid[]) OR to_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_links --
-- Insert unarchived rows into memory.links; skip rows whose key exists. Older archives name no spaces.
INSERT INTO memory.links
SELECT kept.*
FROM jsonb_array_elements(:rows::jsonb) AS archived (link)
CROSS JOIN LATERAL jsonb_populate_record(
    NULL::memory.links,
    jsonb_build_object('from_space_id', skein.space_id(), 'to_space_id', skein.space_id()) || archived.link) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_revisions --
-- Read the rows of memory.revisions of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.revisions AS kept
WHERE tenant_id = :tenant_id AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_revisions --
-- Insert unarchived rows into memory.revisions; skip rows whose key exists.
INSERT INTO memory.revisions
SELECT kept.*
FROM jsonb_populate_recordset(
    -- An older archive names no spaces.
    jsonb_populate_record(NULL::memory.revisions, jsonb_build_object('space_id', skein.space_id())), :rows::jsonb
) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_aliases --
-- Read the rows of memory.aliases of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.aliases AS kept
WHERE tenant_id = :tenant_id AND (alias_memory_id = ANY (:memory_ids::uuid[]) OR canonical_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_aliases --
-- Insert unarchived rows into memory.aliases; skip rows whose key exists.
INSERT INTO memory.aliases
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.aliases, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_sources_history --
-- Read the rows of memory.sources_history of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.sources_history AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_sources_history --
-- Insert unarchived rows into memory.sources_history.
INSERT INTO memory.sources_history
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.sources_history, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_trust_history --
-- Read the rows of memory.trust_history of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.trust_history AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_trust_history --
-- Insert unarchived rows into memory.trust_history.
INSERT INTO memory.trust_history
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.trust_history, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_aliases_history --
-- Read the rows of memory.aliases_history of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.aliases_history AS kept
WHERE tenant_id = :tenant_id AND (alias_memory_id = ANY (:memory_ids::uuid[]) OR canonical_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_aliases_history --
-- Insert unarchived rows into memory.aliases_history.
INSERT INTO memory.aliases_history
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.aliases_history, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_conflict_resolutions --
-- Read the rows of memory.conflict_resolutions of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.conflict_resolutions AS kept
WHERE tenant_id = :tenant_id AND (a_memory_id = ANY (:memory_ids::uuid[]) OR b_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_conflict_resolutions --
-- Insert unarchived rows into memory.conflict_resolutions; skip rows whose key exists.
INSERT INTO memory.conflict_resolutions
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.conflict_resolutions, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_conflict_resolutions_history --
-- Read the rows of memory.conflict_resolutions_history of some memories as JSON, to archive them.
SELECT to_jsonb(kept)::text AS row
FROM memory.conflict_resolutions_history AS kept
WHERE tenant_id = :tenant_id AND (a_memory_id = ANY (:memory_ids::uuid[]) OR b_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_conflict_resolutions_history --
-- Insert unarchived rows into memory.conflict_resolutions_history.
INSERT INTO memory.conflict_resolutions_history
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.conflict_resolutions_history, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- name_archives --
-- Name all archives of a tenant, with the checksums that their files are known by.
SELECT archive_id, checksum
FROM memory.archives
WHERE tenant_id = :tenant_id;

-- oldest_archive --
-- Take the oldest archive that was made, of memories that were made, before a time, and keep others from it.
SELECT archive_id, memory_count, checksum, space_id
FROM memory.archives
WHERE tenant_id = :tenant_id AND to_time < :before AND create_time < :before
ORDER BY archive_id
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- list_archived_memories --
-- Read which memories lie in an archive.
SELECT memory_id
FROM memory.archived_memories
WHERE tenant_id = :tenant_id AND archive_id = :archive_id;

-- has_snapshot_copies --
-- Return whether a snapshot has a copy of any of some memories.
SELECT EXISTS (
    SELECT FROM memory.snapshot_items WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]));

-- list_pending_rows_of_table --
-- Read the rows of memory.pending_rows that wait for some memories, as JSON: they are pending in cold storage too.
SELECT to_jsonb(kept)::text AS row
FROM memory.pending_rows AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- read_pending_rows --
-- Read the rows that wait for some memories.
SELECT row_table, row_data::text AS row_data
FROM memory.pending_rows
WHERE tenant_id = :tenant_id AND other_memory_id = ANY (:memory_ids::uuid[]);

-- insert_pending_rows --
-- Store rows until the other memory that they name is unarchived.
INSERT INTO memory.pending_rows (tenant_id, pending_row_id, memory_id, other_memory_id, row_table, row_data)
VALUES (:tenant_id, :pending_row_id, :memory_id, :other_memory_id, :row_table, :row_data);

-- find_archive_of_memories --
-- Return the archives of some memories.
SELECT memory_id, archive_id
FROM memory.archived_memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- lock_archives --
-- Lock archives in the order of their ids.
SELECT archive_id
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id = ANY (:archive_ids::uuid[])
ORDER BY archive_id
FOR UPDATE;
