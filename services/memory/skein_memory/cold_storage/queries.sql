-- oldest_idle --
-- Read the oldest memories of a range of ids that were not changed since a time, those of the vault and of snapshots
-- apart, and those that expire, which are erased soon; or those of one session. At most `scan` of them are looked at.
SELECT looked.memory_id,
    (looked.record_time < :idle_since AND looked.type <> 'knowledge_vault' AND looked.is_active
        AND looked.expire_time IS NULL AND NOT EXISTS (
        SELECT FROM memory.snapshot_items AS copied
        WHERE copied.tenant_id = :tenant_id AND copied.memory_id = looked.memory_id)) AS goes
FROM (
    SELECT memory_id, greatest(record_time, update_time) AS record_time, type, is_active, expire_time
    FROM memory.entries
    WHERE tenant_id = :tenant_id AND memory_id > :after_id AND memory_id < :before_id
        AND (:session_id::text IS NULL OR session_id = :session_id)
    ORDER BY memory_id
    LIMIT :scan
) AS looked
ORDER BY looked.memory_id;

-- archive_sizes --
-- Say about how many bytes some memories take in a file, with what hangs on them.
SELECT entries.memory_id,
    (octet_length(entries.content) + coalesce(pg_column_size(entries.metadata), 0)
        + coalesce(pg_column_size(entries.data), 0) + coalesce(pg_column_size(entries.words), 0) + 1000
        + coalesce((
            SELECT sum(pg_column_size(versions.content) + coalesce(pg_column_size(versions.metadata), 0)
                + coalesce(pg_column_size(versions.data), 0) + 1000)
            FROM memory.versions
            WHERE versions.tenant_id = :tenant_id AND versions.memory_id = entries.memory_id), 0)
        + 600 * (
            SELECT count(*) FROM memory.links
            WHERE links.tenant_id = :tenant_id AND links.from_memory_id = entries.memory_id)
        + 600 * (
            SELECT count(*) FROM memory.links
            WHERE links.tenant_id = :tenant_id AND links.to_memory_id = entries.memory_id))::bigint AS bytes
FROM memory.entries
WHERE entries.tenant_id = :tenant_id AND entries.memory_id = ANY (:memory_ids::uuid[]);

-- insert_archive --
-- Note an archive whose file is written.
INSERT INTO memory.archives
    (tenant_id, archive_id, label, memory_count, byte_count, checksum, from_time, to_time, create_time, created_by)
VALUES
    (:tenant_id, :archive_id, :label, :memory_count, :byte_count, :checksum, :from_time, :to_time, :create_time,
     :created_by);

-- insert_archived --
-- Note which memories lie in an archive.
INSERT INTO memory.archived (tenant_id, memory_id, archive_id, external_id, subject_id, session_id)
VALUES (:tenant_id, :memory_id, :archive_id, :external_id, :subject_id, :session_id);

-- list_archives --
-- Read the newest archives that are older than one.
SELECT archive_id, label, memory_count, byte_count, checksum, from_time, to_time, create_time, created_by
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id < :before_id
ORDER BY archive_id DESC
LIMIT :count;

-- walk_archives --
-- Read the oldest archives after one, with the times of what lies in them, and say which hold anything about a person if
-- one is named.
SELECT archive_id, from_time, to_time,
    (:subject_id::text IS NULL OR EXISTS (
        SELECT FROM memory.archived
        WHERE archived.tenant_id = :tenant_id AND archived.subject_id = :subject_id
            AND archived.archive_id = archives.archive_id)) AS may_hold
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id > :after_id
ORDER BY archive_id
LIMIT :count;

-- newest_archive --
-- Name the newest archive.
SELECT archive_id
FROM memory.archives
WHERE tenant_id = :tenant_id
ORDER BY archive_id DESC
LIMIT 1;

-- has_newer_archive --
-- Say whether there is an archive after one.
SELECT EXISTS (SELECT FROM memory.archives WHERE tenant_id = :tenant_id AND archive_id > :archive_id);

-- lock_archive_creation --
-- Let one transaction at a time note an archive of a tenant, so that none comes after a newer one.
SELECT pg_advisory_xact_lock(hashtextextended(place.tenant_id::text || ' archives', 0))
FROM (SELECT :tenant_id::uuid AS tenant_id) AS place;

-- get_archive --
-- Read an archive.
SELECT archive_id, label, memory_count, byte_count, checksum, from_time, to_time, create_time, created_by
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id = :archive_id;

-- lock_archive --
-- Read an archive and keep others from it until the transaction ends.
SELECT archive_id, label, memory_count, byte_count, checksum, from_time, to_time, create_time, created_by
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id = :archive_id
FOR UPDATE;

-- delete_archive --
-- Forget an archive, with the list of what lies in it.
DELETE FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id = :archive_id;

-- update_archive_after_purge --
-- Say that an archive holds less than before, in a file of another checksum.
UPDATE memory.archives
SET memory_count = :memory_count, byte_count = :byte_count, checksum = :checksum
WHERE tenant_id = :tenant_id AND archive_id = :archive_id;

-- delete_archived --
-- Forget that memories lie in an archive.
DELETE FROM memory.archived
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- find_archived --
-- Find which archives hold memories, by their ids or external ids.
SELECT memory_id, archive_id, external_id
FROM memory.archived
WHERE tenant_id = :tenant_id AND (memory_id = ANY (:memory_ids::uuid[]) OR external_id = ANY (:external_ids::text[]));

-- find_archived_subject --
-- Find some memories about a person that lie in archives, from one archive on.
SELECT memory_id, archive_id
FROM memory.archived
WHERE tenant_id = :tenant_id AND subject_id = :subject_id AND archive_id >= :since_id
ORDER BY archive_id
LIMIT :count;

-- find_existing --
-- Return those of some ids that name a memory, deleted or not.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- archive_entries --
-- Read all that memory.entries has of some memories, whole rows as JSON: memories on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.entries AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_entries --
-- Put rows of memory.entries back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.entries
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.entries, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_tags --
-- Read all that memory.tags has of some memories, whole rows as JSON: tags on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.tags AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_tags --
-- Put rows of memory.tags back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.tags
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.tags, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_versions --
-- Read all that memory.versions has of some memories, whole rows as JSON: earlier versions on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.versions AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_versions --
-- Put rows of memory.versions back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.versions
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.versions, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_accesses --
-- Read all that memory.accesses has of some memories, whole rows as JSON: counts of use on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.accesses AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_accesses --
-- Put rows of memory.accesses back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.accesses
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.accesses, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_properties --
-- Read all that memory.properties has of some memories, whole rows as JSON: properties on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.properties AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_properties --
-- Put rows of memory.properties back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.properties
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.properties, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_external_ids --
-- Read all that memory.external_ids has of some memories, whole rows as JSON: ids in other systems on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.external_ids AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_external_ids --
-- Put rows of memory.external_ids back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.external_ids
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.external_ids, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_fact_keys --
-- Read all that memory.fact_keys has of some memories, whole rows as JSON: keys of facts on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.fact_keys AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_fact_keys --
-- Put rows of memory.fact_keys back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.fact_keys
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.fact_keys, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_tasks --
-- Read all that memory.tasks has of some memories, whole rows as JSON: states of tasks on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.tasks AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- unarchive_tasks --
-- Put rows of memory.tasks back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.tasks
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.tasks, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_links --
-- Read all that memory.links has of some memories, whole rows as JSON: links on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.links AS kept
WHERE tenant_id = :tenant_id AND (from_memory_id = ANY (:memory_ids::uuid[]) OR to_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_links --
-- Put rows of memory.links back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.links
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.links, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_revisions --
-- Read all that memory.revisions has of some memories, whole rows as JSON: earlier states on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.revisions AS kept
WHERE tenant_id = :tenant_id AND (memory_id = ANY (:memory_ids::uuid[]) OR other_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_revisions --
-- Put rows of memory.revisions back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.revisions
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.revisions, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_aliases --
-- Read all that memory.aliases has of some memories, whole rows as JSON: aliases on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.aliases AS kept
WHERE tenant_id = :tenant_id AND (alias_memory_id = ANY (:memory_ids::uuid[]) OR canonical_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_aliases --
-- Put rows of memory.aliases back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.aliases
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.aliases, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- archive_conflict_resolutions --
-- Read all that memory.conflict_resolutions has of some memories, whole rows as JSON: resolutions of conflicts on their way to cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.conflict_resolutions AS kept
WHERE tenant_id = :tenant_id AND (a_memory_id = ANY (:memory_ids::uuid[]) OR b_memory_id = ANY (:memory_ids))
ORDER BY 1;

-- unarchive_conflict_resolutions --
-- Put rows of memory.conflict_resolutions back from cold storage; those whose place is taken meanwhile are passed over.
INSERT INTO memory.conflict_resolutions
SELECT kept.*
FROM jsonb_populate_recordset(NULL::memory.conflict_resolutions, :rows::jsonb) AS kept
WHERE kept.tenant_id = :tenant_id
ON CONFLICT DO NOTHING;

-- name_archives --
-- Name all archives of a tenant, with the checksums that their files are known by.
SELECT archive_id, checksum
FROM memory.archives
WHERE tenant_id = :tenant_id;

-- oldest_archive --
-- Take the oldest archive that was made, of memories that were made, before a time, and keep others from it.
SELECT archive_id, memory_count, checksum
FROM memory.archives
WHERE tenant_id = :tenant_id AND to_time < :before AND create_time < :before
ORDER BY archive_id
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- list_archived_memories --
-- Read which memories lie in an archive.
SELECT memory_id
FROM memory.archived
WHERE tenant_id = :tenant_id AND archive_id = :archive_id;

-- has_snapshot_copies --
-- Say whether a snapshot holds a copy of any of some memories.
SELECT EXISTS (
    SELECT FROM memory.snapshot_items WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]));

-- list_pending_rows_of_table --
-- Read what of memory.waiting hangs on some memories, whole rows as JSON: it goes on waiting in cold storage.
SELECT to_jsonb(kept)::text AS row
FROM memory.waiting AS kept
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY 1;

-- read_pending_rows --
-- Read the rows that wait for some memories.
SELECT row_table, held::text AS held
FROM memory.waiting
WHERE tenant_id = :tenant_id AND other_memory_id = ANY (:memory_ids::uuid[]);

-- insert_pending_rows --
-- Keep rows until the other memory that they name is back.
INSERT INTO memory.waiting (tenant_id, waiting_id, memory_id, other_memory_id, row_table, held)
VALUES (:tenant_id, :waiting_id, :memory_id, :other_memory_id, :row_table, :held);

-- find_archive_of_memories --
-- Say which archives some memories lie in.
SELECT memory_id, archive_id
FROM memory.archived
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- lock_archives --
-- Keep others from some archives until the transaction ends, in the order of their ids.
SELECT archive_id
FROM memory.archives
WHERE tenant_id = :tenant_id AND archive_id = ANY (:archive_ids::uuid[])
ORDER BY archive_id
FOR UPDATE;
