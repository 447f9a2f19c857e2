-- insert_entries --
-- Store memories.
INSERT INTO memory.entries
    (tenant_id, memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id,
     session_id, scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time,
     metadata, content_hash, words, fingerprint, create_time, update_time, created_by, updated_by)
VALUES
    (:tenant_id, :memory_id, :external_id, :type, :title, :key, :content, :data, :source, :source_agent, :agent_id,
     :subject_id, :session_id, :scope, :level, :confidence, :importance, :expire_time, :archive_time, :valid_from_time,
     :valid_to_time, :metadata, :content_hash, :words, :fingerprint, :create_time, :update_time, :created_by,
     :updated_by);

-- get_memories --
-- Read memories by id, deleted ones too, in no order. The ids must be values, so that only their months are planned.
SELECT memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, delete_time, created_by, updated_by,
       ARRAY(SELECT tag FROM memory.tags WHERE tags.tenant_id = :tenant_id AND tags.memory_id = entries.memory_id
             ORDER BY position, tag COLLATE "C") AS tags
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
-- Store a memory's next revision. One that had decayed is idle anew from then on.
UPDATE memory.entries
SET type = :type, title = :title, key = :key, content = :content, data = :data, source = :source,
    source_agent = :source_agent, agent_id = :agent_id, subject_id = :subject_id, session_id = :session_id,
    scope = :scope, level = :level, confidence = :confidence, importance = :importance, expire_time = :expire_time,
    archive_time = :archive_time, valid_from_time = :valid_from_time, valid_to_time = :valid_to_time,
    metadata = :metadata, content_hash = :content_hash, words = :words, fingerprint = :fingerprint,
    is_active = :is_active, delete_time = :delete_time, revision = :revision, update_time = :update_time, updated_by = :updated_by,
    decay_time = CASE WHEN decay_periods > 0 OR decay_time IS NULL THEN :update_time ELSE decay_time END,
    decay_periods = 0
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;
