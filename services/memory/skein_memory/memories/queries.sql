-- insert_entries --
-- Store memories.
INSERT INTO memory.entries
    (tenant_id, memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id,
     session_id, scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time,
     metadata, content_hash, words, fingerprint, create_time, update_time, record_time, created_by, updated_by,
     text_revision)
VALUES
    (:tenant_id, :memory_id, :external_id, :type, :title, :key, :content, :data, :source, :source_agent, :agent_id,
     :subject_id, :session_id, :scope, :level, :confidence, :importance, :expire_time, :archive_time, :valid_from_time,
     :valid_to_time, :metadata, :content_hash, :words, :fingerprint, :create_time, :update_time, :record_time,
     :created_by, :updated_by, 1);

-- get_memories --
-- Read memories by id, deleted ones too, in no order. The ids must be values, so that only their months are planned.
SELECT memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id, subject_id, session_id,
       scope, level, confidence, importance, expire_time, archive_time, valid_from_time, valid_to_time, metadata,
       revision, create_time, update_time, greatest(record_time, update_time) AS record_time, delete_time, created_by,
       updated_by, data IS NOT NULL AND text_revision IS DISTINCT FROM revision AS is_outdated,
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

-- find_visible --
-- Return those of some ids that name a memory that is neither deleted nor expired.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND is_active
    AND (expire_time IS NULL OR expire_time > :at);

-- find_expired --
-- Return those of some ids that name a memory that has expired.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND expire_time <= :at;

-- lock_expired --
-- Keep others from changing those of some memories that have expired, in the order of their ids.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND expire_time <= :at
ORDER BY memory_id
FOR NO KEY UPDATE;

-- longest_expired --
-- Find memories that expired before a time, the first to expire first.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND expire_time <= :before
ORDER BY expire_time
LIMIT :count;

-- update_memory --
-- Store a memory's next revision. One that had decayed is idle anew from then on.
UPDATE memory.entries
SET type = :type, title = :title, key = :key, content = :content, data = :data, source = :source,
    source_agent = :source_agent, agent_id = :agent_id, subject_id = :subject_id, session_id = :session_id,
    scope = :scope, level = :level, confidence = :confidence, importance = :importance, expire_time = :expire_time,
    archive_time = :archive_time, valid_from_time = :valid_from_time, valid_to_time = :valid_to_time,
    metadata = :metadata, content_hash = :content_hash, words = :words, fingerprint = :fingerprint,
    is_active = :is_active, delete_time = :delete_time, revision = :revision, text_revision = :revision,
    update_time = :update_time, record_time = :record_time, updated_by = :updated_by,
    decay_time = CASE WHEN decay_periods > 0 OR decay_time IS NULL THEN :record_time ELSE decay_time END,
    decay_periods = 0
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- lock_outdated --
-- Find some memories with data that an older version wrote, and keep others from changing them. Those that are being
-- changed are passed over: the change itself brings them up to date.
SELECT memory_id, words
FROM memory.entries
WHERE tenant_id = :tenant_id AND data IS NOT NULL AND text_revision IS DISTINCT FROM revision
LIMIT :count
FOR NO KEY UPDATE SKIP LOCKED;

-- update_text --
-- Store what is searched of a memory's data, and its hash, by the rules of this version. It is no change by a caller.
UPDATE memory.entries
SET words = :words, content_hash = :content_hash, fingerprint = :fingerprint, text_revision = revision
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;
