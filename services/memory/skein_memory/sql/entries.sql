-- insert_entries --
-- Store memories.
INSERT INTO memory.entries
    (tenant_id, memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id,
     session_id, scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time,
     metadata, content_hash, create_time, update_time, created_by, updated_by)
VALUES
    (:tenant_id, :memory_id, :external_id, :type, :title, :key, :content, :data, :source, :source_agent, :agent_id,
     :subject_id, :session_id, :scope, :level, :confidence, :importance, :expire_time, :archive_time, :valid_from_time,
     :valid_to_time, :metadata, :content_hash, :create_time, :update_time, :created_by, :updated_by);

-- get_memories --
-- Read memories by id, deleted ones too, in no order. The ids must be values, so that only their months are planned.
SELECT memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, delete_time, created_by, updated_by,
       ARRAY(SELECT tag FROM memory.tags WHERE tags.tenant_id = :tenant_id AND tags.memory_id = entries.memory_id) AS tags
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]);

-- lock_memory --
-- Keep others from changing a memory, deleted or not, until the transaction ends. It is read by a statement of its own
-- afterwards: one that had to wait here would still see the tags of before.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = :memory_id
FOR NO KEY UPDATE;

-- lock_memories --
-- Keep others from changing memories until the transaction ends, in the order of their ids.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[])
ORDER BY memory_id
FOR NO KEY UPDATE;

-- find_active --
-- Return those of some ids that name a memory that is not deleted.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND is_active;

-- update_memory --
-- Store a memory's next revision.
UPDATE memory.entries
SET type = :type, title = :title, key = :key, content = :content, data = :data, source = :source,
    source_agent = :source_agent, agent_id = :agent_id, subject_id = :subject_id, session_id = :session_id,
    scope = :scope, level = :level, confidence = :confidence, importance = :importance, expire_time = :expire_time,
    archive_time = :archive_time, valid_from_time = :valid_from_time, valid_to_time = :valid_to_time,
    metadata = :metadata, content_hash = :content_hash, is_active = :is_active, delete_time = :delete_time,
    revision = :revision, update_time = :update_time, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- list_memories --
-- Read the newest memories of a range of ids that pass a filter; a null condition does not restrict.
SELECT memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, delete_time, created_by, updated_by,
       ARRAY(SELECT tag FROM memory.tags WHERE tags.tenant_id = :tenant_id AND tags.memory_id = entries.memory_id) AS tags
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id >= :from_id AND memory_id < :before_id
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
