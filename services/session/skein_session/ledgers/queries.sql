-- get_ledger --
-- Read a caller's ledger, unless it has expired.
SELECT ledger_id, revision, session_id, subject_id, space_ids, content, create_time, expire_time
FROM session.context_ledgers
WHERE tenant_id = :tenant_id AND principal = :principal AND agent_id = :agent_id AND ledger_id = :ledger_id
    AND expire_time > :at;

-- insert_ledger --
-- Insert a caller's ledger; no row comes back when there is another.
INSERT INTO session.context_ledgers
    (tenant_id, principal, agent_id, ledger_id, revision, session_id, subject_id, space_ids, content, create_time,
     expire_time)
VALUES (:tenant_id, :principal, :agent_id, :ledger_id, :revision, :session_id, :subject_id, :space_ids, :content,
        :create_time, :expire_time)
ON CONFLICT ON CONSTRAINT context_ledgers_pkey DO NOTHING
RETURNING revision;

-- renew_ledger --
-- Replace a caller's expired ledger; no row comes back when it has not expired.
UPDATE session.context_ledgers
SET revision = :revision, session_id = :session_id, subject_id = :subject_id, space_ids = :space_ids, content = :content,
    create_time = :create_time, expire_time = :expire_time
WHERE tenant_id = :tenant_id AND principal = :principal AND agent_id = :agent_id AND ledger_id = :ledger_id
    AND expire_time <= :create_time
RETURNING revision;

-- replace_ledger --
-- Replace a revision of a caller's ledger; no row comes back when the ledger has another one.
UPDATE session.context_ledgers
SET revision = :revision, session_id = :session_id, subject_id = :subject_id, space_ids = :space_ids, content = :content,
    expire_time = :expire_time
WHERE tenant_id = :tenant_id AND principal = :principal AND agent_id = :agent_id AND ledger_id = :ledger_id
    AND revision = :last_revision AND expire_time > :at
RETURNING revision;

-- get_ledger_revision --
-- Read the revision of a caller's ledger.
SELECT revision
FROM session.context_ledgers
WHERE tenant_id = :tenant_id AND principal = :principal AND agent_id = :agent_id AND ledger_id = :ledger_id;

-- list_ledgers --
-- Read the ledgers that have not expired, by caller and name, after another; a null condition does not restrict. Those
-- whose texts may be of a space that the transaction does not see are left out.
SELECT principal, agent_id, ledger_id, revision, session_id, subject_id, space_ids, content, create_time, expire_time
FROM session.context_ledgers
WHERE tenant_id = :tenant_id AND expire_time > :at
    AND (principal, agent_id, ledger_id) > (:after_principal::text, :after_agent::text, :after_ledger::text)
    AND (:principal::text IS NULL OR principal = :principal)
    AND (:agent_id::text IS NULL OR agent_id = :agent_id)
    AND (:ledger_id::text IS NULL OR ledger_id = :ledger_id)
    AND (:session_id::text IS NULL OR session_id = :session_id)
    AND coalesce(space_ids, '{00000000-0000-0000-0000-000000000000}'::uuid[])
        <@ coalesce(nullif(current_setting('skein.spaces', true), ''), '{00000000-0000-0000-0000-000000000000}')::uuid[]
ORDER BY principal, agent_id, ledger_id
LIMIT :limit;

-- list_ledgers_of_subject --
-- Read a subject's ledgers whose texts are of spaces that the transaction sees, by caller and name, after another.
SELECT principal, agent_id, ledger_id, revision, session_id, subject_id, space_ids, content, create_time, expire_time
FROM session.context_ledgers
WHERE tenant_id = :tenant_id AND subject_id = :subject_id
    AND (principal, agent_id, ledger_id) > (:after_principal::text, :after_agent::text, :after_ledger::text)
    AND (current_setting('skein.all_spaces', true) = 'on'
         OR coalesce(space_ids, '{00000000-0000-0000-0000-000000000000}'::uuid[])
            <@ coalesce(nullif(current_setting('skein.spaces', true), ''), '{00000000-0000-0000-0000-000000000000}')::uuid[])
ORDER BY principal, agent_id, ledger_id
LIMIT :limit;

-- purge_ledgers_of_subject --
-- Delete a subject's ledgers.
DELETE FROM session.context_ledgers
WHERE tenant_id = :tenant_id AND subject_id = :subject_id;

-- purge_ledgers_of_sessions --
-- Delete the ledgers whose texts have recent messages of sessions; in one space, those whose texts may be of it.
DELETE FROM session.context_ledgers
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]) AND session_id <> ''
    AND (space_ids IS NULL OR skein.space_id() IS NULL OR skein.space_id() = ANY (space_ids));

-- delete_expired_ledgers --
-- Delete expired ledgers, oldest first, up to a limit; a ledger that a concurrent call extends stays.
DELETE FROM session.context_ledgers
USING (
    SELECT principal, agent_id, ledger_id FROM session.context_ledgers
    WHERE tenant_id = :tenant_id AND expire_time <= :at
    ORDER BY expire_time
    LIMIT :count
    FOR UPDATE SKIP LOCKED
) AS picked
WHERE context_ledgers.tenant_id = :tenant_id AND context_ledgers.expire_time <= :at
    AND context_ledgers.principal = picked.principal AND context_ledgers.agent_id = picked.agent_id
    AND context_ledgers.ledger_id = picked.ledger_id;
