-- get_state --
-- Read the state of an agent in a session, or in none when the session's id is empty, unless it has expired or the agent is
-- deleted.
SELECT agent_id, session_id, state_data, revision, expire_time, create_time, update_time, created_by, updated_by
FROM session.agent_states
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND session_id = :session_id
    AND (expire_time IS NULL OR expire_time > :at)
    AND NOT EXISTS (
        SELECT FROM tenancy.agents AS gone
        WHERE gone.tenant_id = :tenant_id AND gone.agent_id = :agent_id AND gone.delete_time IS NOT NULL);

-- lock_state --
-- Read the state of an agent in a session or in none, expired or not, and hold its row.
SELECT agent_id, session_id, state_data, revision, expire_time, create_time, update_time, created_by, updated_by
FROM session.agent_states
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND session_id = :session_id
FOR UPDATE;

-- insert_state --
-- Store a state; no row comes back when another call stored one meanwhile.
INSERT INTO session.agent_states
    (tenant_id, agent_id, session_id, state_data, revision, expire_time, create_time, update_time, created_by,
     updated_by)
VALUES
    (:tenant_id, :agent_id, :session_id, :state_data, :revision, :expire_time, :create_time, :update_time,
     :created_by, :updated_by)
ON CONFLICT ON CONSTRAINT agent_states_pkey DO NOTHING
RETURNING revision;

-- replace_state --
-- Replace a state that the transaction holds.
UPDATE session.agent_states
SET state_data = :state_data, revision = :revision, expire_time = :expire_time, create_time = :create_time,
    update_time = :update_time, created_by = :created_by, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND session_id = :session_id
RETURNING revision;

-- list_states --
-- Read states that have not expired, by agent and session, from after a place on; none of deleted agents.
SELECT agent_id, session_id, state_data, revision, expire_time, create_time, update_time, created_by, updated_by
FROM session.agent_states
WHERE tenant_id = :tenant_id AND (agent_id, session_id) > (:after_agent::text, :after_session::text)
    AND (:agent_id::text IS NULL OR agent_id = :agent_id)
    AND (expire_time IS NULL OR expire_time > :at)
    AND NOT EXISTS (
        SELECT FROM tenancy.agents AS gone
        WHERE gone.tenant_id = :tenant_id AND gone.agent_id = agent_states.agent_id AND gone.delete_time IS NOT NULL)
ORDER BY agent_id, session_id
LIMIT :limit;

-- list_states_of_session --
-- Read the states of a session that have not expired, by agent, from after one on; those of deleted agents only when they
-- are asked for.
SELECT agent_id, session_id, state_data, revision, expire_time, create_time, update_time, created_by, updated_by
FROM session.agent_states
WHERE tenant_id = :tenant_id AND session_id = :session_id AND session_id <> '' AND agent_id > :after_agent::text
    AND (:agent_id::text IS NULL OR agent_id = :agent_id)
    AND (expire_time IS NULL OR expire_time > :at)
    AND (:show_deleted::boolean OR NOT EXISTS (
        SELECT FROM tenancy.agents AS gone
        WHERE gone.tenant_id = :tenant_id AND gone.agent_id = agent_states.agent_id AND gone.delete_time IS NOT NULL))
ORDER BY agent_id
LIMIT :limit;

-- get_deleted_agent --
-- Read an agent's id if the agent is deleted.
SELECT agent_id
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND delete_time IS NOT NULL;

-- delete_states_of_purged_agents --
-- Remove some of the states of agents that are being purged.
DELETE FROM session.agent_states
WHERE tenant_id = :tenant_id
    AND (agent_id, session_id) IN (
        SELECT own.agent_id, own.session_id
        FROM tenancy.agents AS gone
        JOIN session.agent_states AS own ON own.tenant_id = :tenant_id AND own.agent_id = gone.agent_id
        WHERE gone.tenant_id = :tenant_id AND gone.purge_time IS NOT NULL
        ORDER BY own.agent_id, own.session_id
        LIMIT :count);

-- delete_state --
-- Remove a state that the transaction holds.
DELETE FROM session.agent_states
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND session_id = :session_id;

-- delete_expired_states --
-- Remove some of the states that are past their time, those that expired first; one that gets more time meanwhile stays.
DELETE FROM session.agent_states
WHERE tenant_id = :tenant_id AND expire_time <= :at
    AND (agent_id, session_id) IN (
        SELECT agent_id, session_id FROM session.agent_states
        WHERE tenant_id = :tenant_id AND expire_time <= :at
        ORDER BY expire_time
        LIMIT :count
        FOR UPDATE SKIP LOCKED);
