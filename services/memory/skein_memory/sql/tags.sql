-- insert_tags --
-- Put tags on memories.
INSERT INTO memory.tags (tenant_id, memory_id, tag)
VALUES (:tenant_id, :memory_id, :tag);

-- delete_tags --
-- Take tags off a memory.
DELETE FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND tag = ANY (:tags::text[]);

-- list_tagged_memories --
-- Read the newest memories of a range of ids that carry at least one of some tags and pass a filter; a null condition does
-- not restrict. Ends as soon as the page is full, however many carry the tag.
SELECT memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, delete_time, created_by, updated_by,
       ARRAY(SELECT tag FROM memory.tags WHERE tags.tenant_id = :tenant_id AND tags.memory_id = entries.memory_id) AS tags
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id >= :from_id AND memory_id < :before_id
    AND memory_id IN (
        SELECT tags.memory_id FROM memory.tags
        WHERE tags.tenant_id = :tenant_id AND tags.memory_id >= :from_id AND tags.memory_id < :before_id
            AND tags.tag = ANY (:tags::text[]))
    AND (:show_deleted::boolean OR is_active)
    AND (:show_archived::boolean OR archive_time IS NULL)
    AND (expire_time IS NULL OR expire_time > :at)
    AND (:type::text IS NULL OR type = :type)
    AND (:types::text[] IS NULL OR type = ANY (:types))
    AND (:agent_id::text IS NULL OR agent_id = :agent_id)
    AND (:subject_id::text IS NULL OR subject_id = :subject_id)
    AND (:session_id::text IS NULL OR session_id = :session_id)
    AND (:scopes::text[] IS NULL OR scope = ANY (:scopes))
    AND (:source::text IS NULL OR source = :source)
    AND (:key::text IS NULL OR key = :key)
    AND (:min_importance::double precision IS NULL OR importance >= :min_importance)
    AND (:start_time::timestamptz IS NULL OR create_time >= :start_time)
    AND (:end_time::timestamptz IS NULL OR create_time < :end_time)
ORDER BY memory_id DESC
LIMIT :count;

-- list_strictly_tagged_memories --
-- Read the newest memories of a range of ids that carry all of `tags_all`, at least one of `tags_any`, and pass a filter; a
-- null condition does not restrict. `tags` are those of both. Counts the tags of the whole range once.
WITH tagged AS MATERIALIZED (
    SELECT tags.memory_id FROM memory.tags
    WHERE tags.tenant_id = :tenant_id AND tags.memory_id >= :from_id AND tags.memory_id < :before_id
        AND tags.tag = ANY (:tags::text[])
    GROUP BY tags.memory_id
    HAVING count(*) FILTER (WHERE tags.tag = ANY (:tags_all::text[])) = cardinality(:tags_all)
        AND (:tags_any::text[] IS NULL OR count(*) FILTER (WHERE tags.tag = ANY (:tags_any)) > 0))
SELECT memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, delete_time, created_by, updated_by,
       ARRAY(SELECT tag FROM memory.tags WHERE tags.tenant_id = :tenant_id AND tags.memory_id = entries.memory_id) AS tags
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id >= :from_id AND memory_id < :before_id
    AND memory_id IN (SELECT tagged.memory_id FROM tagged)
    AND (:show_deleted::boolean OR is_active)
    AND (:show_archived::boolean OR archive_time IS NULL)
    AND (expire_time IS NULL OR expire_time > :at)
    AND (:type::text IS NULL OR type = :type)
    AND (:types::text[] IS NULL OR type = ANY (:types))
    AND (:agent_id::text IS NULL OR agent_id = :agent_id)
    AND (:subject_id::text IS NULL OR subject_id = :subject_id)
    AND (:session_id::text IS NULL OR session_id = :session_id)
    AND (:scopes::text[] IS NULL OR scope = ANY (:scopes))
    AND (:source::text IS NULL OR source = :source)
    AND (:key::text IS NULL OR key = :key)
    AND (:min_importance::double precision IS NULL OR importance >= :min_importance)
    AND (:start_time::timestamptz IS NULL OR create_time >= :start_time)
    AND (:end_time::timestamptz IS NULL OR create_time < :end_time)
ORDER BY memory_id DESC
LIMIT :count;
