-- scan_entries --
-- Look at the newest memories of a range of ids, and say of each whether it passes.
SELECT entries.memory_id, ({condition}) AS passes
FROM (
    SELECT * FROM memory.entries
    WHERE tenant_id = :tenant_id AND memory_id >= :from_id AND memory_id < :before_id
    ORDER BY memory_id DESC
    LIMIT :count
) AS entries
ORDER BY entries.memory_id DESC;

-- scan_by_update_time --
-- Look at the memories that were changed last before a time, of those of one time the newest first, and say of each
-- whether it passes.
SELECT entries.memory_id, entries.update_time AS value, ({condition}) AS passes
FROM (
    SELECT * FROM memory.entries
    WHERE tenant_id = :tenant_id AND (update_time, memory_id) < (:before_value, :before_id)
    ORDER BY update_time DESC, memory_id DESC
    LIMIT :count
) AS entries
ORDER BY entries.update_time DESC, entries.memory_id DESC;

-- scan_by_importance --
-- Look at the most important memories below an importance, of equal ones the newest first, and say of each whether it
-- passes.
SELECT entries.memory_id, entries.importance AS value, ({condition}) AS passes
FROM (
    SELECT * FROM memory.entries
    WHERE tenant_id = :tenant_id AND (importance, memory_id) < (:before_value, :before_id)
    ORDER BY importance DESC, memory_id DESC
    LIMIT :count
) AS entries
ORDER BY entries.importance DESC, entries.memory_id DESC;

-- scan_by_confidence --
-- Look at the memories of the highest confidence below one, of equal ones the newest first, and say of each whether it
-- passes.
SELECT entries.memory_id, entries.confidence AS value, ({condition}) AS passes
FROM (
    SELECT * FROM memory.entries
    WHERE tenant_id = :tenant_id AND (confidence, memory_id) < (:before_value, :before_id)
    ORDER BY confidence DESC, memory_id DESC
    LIMIT :count
) AS entries
ORDER BY entries.confidence DESC, entries.memory_id DESC;

-- scan_by_access_count --
-- Look at the memories that were read most often below a count, of equal ones the newest first, and say of each whether
-- it passes. Memories that were never read have no count.
SELECT entries.memory_id, used.access_count AS value, ({condition}) AS passes
FROM (
    SELECT memory_id, access_count FROM memory.accesses
    WHERE tenant_id = :tenant_id AND (access_count, memory_id) < (:before_value, :before_id) AND access_count > 0
    ORDER BY access_count DESC, memory_id DESC
    LIMIT :count
) AS used
CROSS JOIN LATERAL (
    SELECT * FROM memory.entries WHERE tenant_id = :tenant_id AND entries.memory_id = used.memory_id
) AS entries
ORDER BY used.access_count DESC, entries.memory_id DESC;

-- scan_never_accessed --
-- Look at the newest memories below an id, and say of each whether it passes and was never read.
SELECT entries.memory_id, 0::bigint AS value, ({condition}) AND NOT EXISTS (
    SELECT FROM memory.accesses AS used
    WHERE used.tenant_id = :tenant_id AND used.memory_id = entries.memory_id AND used.access_count > 0
) AS passes
FROM (
    SELECT * FROM memory.entries
    WHERE tenant_id = :tenant_id AND memory_id < :before_id
    ORDER BY memory_id DESC
    LIMIT :count
) AS entries
ORDER BY entries.memory_id DESC;

-- scan_by_column --
-- Look at the newest memories of a range of ids that have one of some values in an indexed column, and say of each
-- whether it passes. Each value is read in order from the index.
SELECT entries.memory_id, ({condition}) AS passes
FROM unnest(:values::text[]) AS wanted (value)
CROSS JOIN LATERAL (
    SELECT * FROM memory.entries
    WHERE tenant_id = :tenant_id AND {column} = {value} AND memory_id >= :from_id AND memory_id < :before_id
    ORDER BY memory_id DESC
    LIMIT :count
) AS entries
ORDER BY entries.memory_id DESC
LIMIT :count;

-- scan_by_tag --
-- Find the newest memories of a range of ids that carry one of some tags.
SELECT DISTINCT tagged.memory_id
FROM unnest(:values::text[]) AS wanted (value)
CROSS JOIN LATERAL (
    SELECT tags.memory_id FROM memory.tags
    WHERE tags.tenant_id = :tenant_id AND tags.tag = wanted.value
        AND tags.memory_id >= :from_id AND tags.memory_id < :before_id
    ORDER BY tags.memory_id DESC
    LIMIT :count
) AS tagged
ORDER BY tagged.memory_id DESC
LIMIT :count;

-- scan_by_property --
-- Find the newest memories of a range of ids that have one of some properties, or too many to be known by them.
SELECT DISTINCT found.memory_id
FROM unnest(:names::text[], :values::text[]) AS wanted (name, value)
CROSS JOIN LATERAL (
    SELECT properties.memory_id FROM memory.properties
    WHERE properties.tenant_id = :tenant_id AND properties.name = wanted.name AND properties.value = wanted.value
        AND properties.memory_id >= :from_id AND properties.memory_id < :before_id
    ORDER BY properties.memory_id DESC
    LIMIT :count
) AS found
ORDER BY found.memory_id DESC
LIMIT :count;

-- match_entries --
-- Return those of some memories that pass.
SELECT entries.memory_id
FROM memory.entries
WHERE entries.tenant_id = :tenant_id AND entries.memory_id = ANY (:memory_ids::uuid[]) AND ({condition});

-- scan_ids --
-- Look at some memories, the newest first, and say of each whether it passes.
SELECT entries.memory_id, ({condition}) AS passes
FROM memory.entries
WHERE entries.tenant_id = :tenant_id AND entries.memory_id = ANY (:memory_ids::uuid[])
ORDER BY entries.memory_id DESC;

-- match_versions --
-- Say of those of some memories that a later version has replaced since a time whether what they said then passes.
SELECT versions.memory_id, ({condition}) AS passes
FROM (
    SELECT DISTINCT ON (memory_id) * FROM memory.versions
    WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND until_time > :as_of_time
    ORDER BY memory_id, revision
) AS versions
ORDER BY versions.memory_id DESC;

-- find_first_known --
-- Return since when memories have been known.
SELECT memory_id, coalesce(
    (SELECT greatest(versions.record_time, versions.update_time) FROM memory.versions
     WHERE versions.tenant_id = :tenant_id AND versions.memory_id = entries.memory_id
     ORDER BY versions.revision LIMIT 1), greatest(entries.record_time, entries.update_time)) AS known_time
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- versions_at --
-- Read what memories said at a time, of those that have said something else since; the oldest version that ceased later.
SELECT DISTINCT ON (memory_id)
       memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, tags
FROM memory.versions
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND until_time > :as_of_time
ORDER BY memory_id, revision;

-- list_versions --
-- Read the newest earlier versions of a memory below a revision.
SELECT memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, tags, until_time
FROM memory.versions
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND revision < :before_revision
ORDER BY revision DESC
LIMIT :count;

-- insert_properties --
-- Name the scalar properties of memories.
INSERT INTO memory.properties (tenant_id, memory_id, name, value)
VALUES (:tenant_id, :memory_id, :name, :value);

-- delete_properties --
-- Take the properties off a memory.
DELETE FROM memory.properties
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- find_other_documents --
-- Return those of some ids under which the search index holds something that is no memory.
SELECT item_id
FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[]) AND kind <> 'memory';
