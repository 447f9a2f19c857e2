-- scan_memories --
-- Scan the newest memories of a range of ids, each with whether it matches.
SELECT memories.memory_id, ({condition}) AS passes
FROM (
    SELECT * FROM memory.memories
    WHERE tenant_id = :tenant_id AND memory_id >= :from_id AND memory_id < :before_id
    ORDER BY memory_id DESC
    LIMIT :count
) AS memories
ORDER BY memories.memory_id DESC;

-- scan_by_update_time --
-- Scan the memories that changed last before a time, of equal times the newest first, each with whether it matches.
SELECT memories.memory_id, memories.update_time AS value, ({condition}) AS passes
FROM (
    SELECT * FROM memory.memories
    WHERE tenant_id = :tenant_id AND (update_time, memory_id) < (:before_value, :before_id) AND memory_id >= :from_id
    ORDER BY update_time DESC, memory_id DESC
    LIMIT :count
) AS memories
ORDER BY memories.update_time DESC, memories.memory_id DESC;

-- scan_by_importance --
-- Scan the most important memories below an importance, of equal ones the newest first, each with whether it
-- matches.
SELECT memories.memory_id, memories.importance AS value, ({condition}) AS passes
FROM (
    SELECT * FROM memory.memories
    WHERE tenant_id = :tenant_id AND (importance, memory_id) < (:before_value, :before_id) AND memory_id >= :from_id
    ORDER BY importance DESC, memory_id DESC
    LIMIT :count
) AS memories
ORDER BY memories.importance DESC, memories.memory_id DESC;

-- scan_by_confidence --
-- Scan the memories of the highest confidence below one, of equal ones the newest first, each with whether it
-- matches.
SELECT memories.memory_id, memories.confidence AS value, ({condition}) AS passes
FROM (
    SELECT * FROM memory.memories
    WHERE tenant_id = :tenant_id AND (confidence, memory_id) < (:before_value, :before_id) AND memory_id >= :from_id
    ORDER BY confidence DESC, memory_id DESC
    LIMIT :count
) AS memories
ORDER BY memories.confidence DESC, memories.memory_id DESC;

-- scan_by_access_count --
-- Scan the most accessed memories below a count, of equal counts the newest first, each with whether it matches.
-- Memories without accesses have no count.
SELECT memories.memory_id, used.access_count AS value, ({condition}) AS passes
FROM (
    SELECT memory_id, access_count FROM memory.access_counts
    WHERE tenant_id = :tenant_id AND (access_count, memory_id) < (:before_value, :before_id) AND access_count > 0
    ORDER BY access_count DESC, memory_id DESC
    LIMIT :count
) AS used
CROSS JOIN LATERAL (
    SELECT * FROM memory.memories WHERE tenant_id = :tenant_id AND memories.memory_id = used.memory_id
) AS memories
ORDER BY used.access_count DESC, memories.memory_id DESC;

-- scan_never_accessed --
-- Scan the newest memories below an id, each with whether it matches and has no accesses.
SELECT memories.memory_id, 0::bigint AS value, ({condition}) AND NOT EXISTS (
    SELECT FROM memory.access_counts AS used
    WHERE used.tenant_id = :tenant_id AND used.memory_id = memories.memory_id AND used.access_count > 0
) AS passes
FROM (
    SELECT * FROM memory.memories
    WHERE tenant_id = :tenant_id AND memory_id < :before_id AND memory_id >= :from_id
    ORDER BY memory_id DESC
    LIMIT :count
) AS memories
ORDER BY memories.memory_id DESC;

-- scan_by_column --
-- Scan the newest memories of a range of ids that have one of some values in an indexed column. Return with each
-- whether it matches. Each value is read in order from the index.
SELECT memories.memory_id, ({condition}) AS passes
FROM unnest(:values::text[]) AS requested (value)
CROSS JOIN LATERAL (
    SELECT * FROM memory.memories
    WHERE tenant_id = :tenant_id AND {column} = {value} AND memory_id >= :from_id AND memory_id < :before_id
    ORDER BY memory_id DESC
    LIMIT :count
) AS memories
ORDER BY memories.memory_id DESC
LIMIT :count;

-- scan_by_tag --
-- Find the newest memories of a range of ids that carry one of some tags.
SELECT DISTINCT tagged.memory_id
FROM unnest(:values::text[]) AS requested (value)
CROSS JOIN LATERAL (
    SELECT tags.memory_id FROM memory.tags
    WHERE tags.tenant_id = :tenant_id AND tags.tag = requested.value
        AND tags.memory_id >= :from_id AND tags.memory_id < :before_id
    ORDER BY tags.memory_id DESC
    LIMIT :count
) AS tagged
ORDER BY tagged.memory_id DESC
LIMIT :count;

-- scan_by_property --
-- Find the newest memories of a range of ids that have one of some properties, or more properties than the index
-- holds.
SELECT DISTINCT found.memory_id
FROM unnest(:names::text[], :values::text[]) AS requested (name, value)
CROSS JOIN LATERAL (
    SELECT properties.memory_id FROM memory.properties
    WHERE properties.tenant_id = :tenant_id AND properties.name = requested.name AND properties.value = requested.value
        AND properties.memory_id >= :from_id AND properties.memory_id < :before_id
    ORDER BY properties.memory_id DESC
    LIMIT :count
) AS found
ORDER BY found.memory_id DESC
LIMIT :count;

-- match_memories --
-- Return which of some memories match.
SELECT memories.memory_id
FROM memory.memories
WHERE memories.tenant_id = :tenant_id AND memories.memory_id = ANY (:memory_ids::uuid[])
    AND memories.memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
    AND ({condition});

-- scan_ids --
-- Scan some memories, the newest first, each with whether it matches.
SELECT memories.memory_id, ({condition}) AS passes
FROM memory.memories
WHERE memories.tenant_id = :tenant_id AND memories.memory_id = ANY (:memory_ids::uuid[])
    AND memories.memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids
ORDER BY memories.memory_id DESC;

-- match_versions --
-- Return, of memories that changed after a time, whether their version of that time matches.
SELECT versions.memory_id, ({condition}) AS passes
FROM (
    SELECT DISTINCT ON (memory_id) * FROM memory.versions
    WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND until_time > :as_of_time
    ORDER BY memory_id, revision
) AS versions
ORDER BY versions.memory_id DESC;

-- find_first_known --
-- Return when memories were recorded first, and their spaces.
SELECT memory_id, space_id, coalesce(
    (SELECT greatest(versions.record_time, versions.update_time) FROM memory.versions
     WHERE versions.tenant_id = :tenant_id AND versions.memory_id = memories.memory_id
     ORDER BY versions.revision LIMIT 1), greatest(memories.record_time, memories.update_time)) AS known_time
FROM memory.memories
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
    AND memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids;

-- versions_at --
-- Read the versions of a time, of memories that changed after it. Of overlapping versions, the oldest counts.
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
