-- insert_pending_memories --
-- Store writes that wait for approval, or refused facts.
INSERT INTO memory.pending_memories
    (tenant_id, pending_id, memory_id, update_mask, conflict_mask, revision, content, external_id, subject_id, session_id,
     memory_agent_id, agent_id, source_ids, created_by, create_time, expire_time, refusal_reason)
VALUES
    (:tenant_id, :pending_id, :memory_id, :update_mask, :conflict_mask, :revision, :content, :external_id, :subject_id, :session_id,
     :memory_agent_id, :agent_id, :source_ids, :created_by, :create_time, :expire_time, :refusal_reason);

-- count_pending_memories --
-- Count the writes that wait, or the refused facts, up to a limit.
SELECT count(*)
FROM (
    SELECT FROM memory.pending_memories
    WHERE tenant_id = :tenant_id AND (refusal_reason IS NOT NULL) = :is_refused
    LIMIT :count) AS counted;

-- list_pending_memories --
-- Read writes that wait, or refused facts, that have not expired, oldest first.
SELECT pending_id, memory_id, update_mask, conflict_mask, revision, content, external_id, subject_id, session_id, memory_agent_id,
    agent_id, source_ids, created_by, create_time, expire_time, refusal_reason
FROM memory.pending_memories
WHERE tenant_id = :tenant_id AND pending_id > :after AND expire_time > :at AND (refusal_reason IS NOT NULL) = :is_refused
ORDER BY pending_id
LIMIT :count;

-- take_pending_memory --
-- Remove a write that waits, or a refused fact, that has not expired, and return it: of two decisions at a time, one gets it.
DELETE FROM memory.pending_memories
WHERE tenant_id = :tenant_id AND pending_id = :pending_id AND expire_time > :at
RETURNING pending_id, memory_id, update_mask, conflict_mask, revision, content, external_id, subject_id, session_id, memory_agent_id,
    agent_id, source_ids, created_by, create_time, expire_time, refusal_reason;

-- delete_expired_pending_memories --
-- Remove some of the writes and refused facts that expired; an event names each write.
DELETE FROM memory.pending_memories
WHERE tenant_id = :tenant_id AND pending_id = ANY (ARRAY(
    SELECT pending_id FROM memory.pending_memories
    WHERE tenant_id = :tenant_id AND expire_time <= :at
    ORDER BY expire_time
    LIMIT :count))
RETURNING pending_id, memory_id, refusal_reason;

-- find_proposed --
-- Read what extractors proposed and made of a message: it waits, or was refused. At most 20,000 rows of a tenant are read.
SELECT pending_id, space_id, content, create_time
FROM memory.pending_memories
WHERE tenant_id = :tenant_id AND source_ids && ARRAY[:message_id::uuid] AND created_by LIKE :authors;

-- withdraw_pending_memories --
-- Remove writes that wait, or refused facts.
DELETE FROM memory.pending_memories
WHERE tenant_id = :tenant_id AND pending_id = ANY (:pending_ids::uuid[])
RETURNING pending_id, memory_id, refusal_reason;

-- purge_pending_memories --
-- Remove the writes that wait and concern some memories, or name them as their sources. At most 20,000 rows of a tenant
-- are read.
DELETE FROM memory.pending_memories
WHERE tenant_id = :tenant_id AND (memory_id = ANY (:memory_ids::uuid[]) OR source_ids && :memory_ids::uuid[]);

-- purge_selected_pending_memories --
-- Remove the writes that wait and that a purge selects; a NULL selects all. A credential that is bound to an agent purges
-- what its agent wrote. At most 20,000 rows of a tenant are read.
DELETE FROM memory.pending_memories
WHERE tenant_id = :tenant_id
    AND (current_setting('skein.agent_id', true) IS NULL OR current_setting('skein.agent_id', true) IN ('', agent_id))
    AND (:names::text[] IS NULL OR memory_id = ANY (:memory_ids::uuid[]) OR external_id = ANY (:names::text[]))
    AND (:subject_id::text IS NULL OR subject_id = :subject_id)
    AND (:session_id::text IS NULL OR session_id = :session_id)
    AND (:memory_agent_id::text IS NULL OR memory_agent_id = :memory_agent_id)
RETURNING memory_id, external_id;

-- purge_tenant_pending_memories --
-- Remove some of the writes of a deleted tenant that wait.
DELETE FROM memory.pending_memories
WHERE tenant_id = :tenant_id AND pending_id = ANY (ARRAY(
    SELECT pending_id FROM memory.pending_memories WHERE tenant_id = :tenant_id LIMIT :count));
