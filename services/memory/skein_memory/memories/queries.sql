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

-- find_external_ids --
-- Return the memories that external ids stand for.
SELECT external_id, memory_id
FROM memory.external_ids
WHERE tenant_id = :tenant_id AND external_id = ANY (:external_ids::text[]);

-- claim_external_ids --
-- Take external ids for memories; those that others hold are passed over.
INSERT INTO memory.external_ids (tenant_id, external_id, memory_id)
VALUES (:tenant_id, :external_id, :memory_id)
ON CONFLICT ON CONSTRAINT external_ids_pkey DO NOTHING;

-- claim_fact_keys --
-- Take the keys of facts; those that other facts about the same subject hold are passed over.
INSERT INTO memory.fact_keys (tenant_id, subject_id, key, folded_key, memory_id)
VALUES (:tenant_id, :subject_id, :key, :folded_key, :memory_id)
ON CONFLICT ON CONSTRAINT fact_keys_pkey DO NOTHING;

-- find_fact_keys --
-- Return the facts that hold keys, given as two lists, each with the place of its key; a subject of '' is none.
SELECT wanted.place, held.memory_id
FROM unnest(:subject_ids::text[], :folded_keys::text[]) WITH ORDINALITY AS wanted (subject_id, folded_key, place)
CROSS JOIN LATERAL (
    SELECT memory_id FROM memory.fact_keys
    WHERE fact_keys.tenant_id = :tenant_id
        AND CASE WHEN fact_keys.subject_id IS NULL THEN '' ELSE fact_keys.subject_id END = wanted.subject_id
        AND CASE WHEN fact_keys.folded_key IS NULL THEN fact_keys.key ELSE fact_keys.folded_key END = wanted.folded_key
    LIMIT 1) AS held;

-- release_fact_key --
-- Give up the key that a memory holds.
DELETE FROM memory.fact_keys
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- insert_tags --
-- Put tags on memories.
INSERT INTO memory.tags (tenant_id, memory_id, tag, position)
VALUES (:tenant_id, :memory_id, :tag, :position);

-- place_tags --
-- Put tags on a memory, and give those that it has already their places.
INSERT INTO memory.tags (tenant_id, memory_id, tag, position)
VALUES (:tenant_id, :memory_id, :tag, :position)
ON CONFLICT ON CONSTRAINT tags_pkey DO UPDATE
SET position = excluded.position
WHERE tags.position IS DISTINCT FROM excluded.position;

-- delete_tags --
-- Take tags off a memory.
DELETE FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND tag = ANY (:tags::text[]);

-- list_over_capacity --
-- Find memories for which a level has no room: those after the most important ones that fit, of equals the older.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND level = :level AND is_active AND archive_time IS NULL
    AND (expire_time IS NULL OR expire_time > :at)
ORDER BY importance DESC, memory_id DESC
OFFSET :capacity
LIMIT :count;

-- list_least_important --
-- Find the least important memories, archived ones too, that matter no more than something else; of equals the older. Each
-- part is read in order from its own index.
SELECT memory_id
FROM (
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND level = 'strategic' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND level = 'tactical' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND level = 'operational' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND level = 'contextual' AND is_active AND archive_time IS NULL
         AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
    UNION ALL
    (SELECT memory_id, importance FROM memory.entries
     WHERE tenant_id = :tenant_id AND is_active AND archive_time IS NOT NULL AND importance <= :importance
     ORDER BY importance, memory_id LIMIT :count)
) AS least
ORDER BY importance, memory_id
LIMIT :count;

-- lock_free_memories --
-- Lock those of some memories that no other transaction has locked.
SELECT memory_id
FROM memory.entries
WHERE tenant_id = :tenant_id AND memory_id = ANY (:memory_ids::uuid[]) AND is_active
ORDER BY memory_id
FOR NO KEY UPDATE SKIP LOCKED;

-- count_memories --
-- Return how many memories a tenant has, as they are counted.
SELECT coalesce(sum(amount), 0)::bigint AS used
FROM memory.usage
WHERE tenant_id = :tenant_id AND kind = 'memories';
