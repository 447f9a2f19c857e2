-- get_state --
-- Read an agent's state in a session (an empty id: in none), unless the state has expired or the agent is deleted; of
-- those in several spaces the first one.
SELECT agent_id, session_id, state_data, revision, expire_time, create_time, update_time, created_by, updated_by
FROM session.agent_states
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND session_id = :session_id
    AND (expire_time IS NULL OR expire_time > :at)
    AND NOT EXISTS (
        SELECT FROM tenancy.agents AS agent
        WHERE agent.tenant_id = :tenant_id AND agent.agent_id = :agent_id AND agent.delete_time IS NOT NULL)
ORDER BY space_id
LIMIT 1;

-- lock_state --
-- Read an agent's state in a session or in none, expired or not, and lock its row.
SELECT agent_id, session_id, state_data, revision, expire_time, create_time, update_time, created_by, updated_by
FROM session.agent_states
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND session_id = :session_id
FOR UPDATE;

-- insert_state --
-- Insert a state; no row comes back when a concurrent call has inserted one.
INSERT INTO session.agent_states
    (tenant_id, agent_id, session_id, state_data, revision, expire_time, create_time, update_time, created_by,
     updated_by)
VALUES
    (:tenant_id, :agent_id, :session_id, :state_data, :revision, :expire_time, :create_time, :update_time,
     :created_by, :updated_by)
ON CONFLICT ON CONSTRAINT agent_states_pkey DO NOTHING
RETURNING revision;

-- replace_state --
-- Replace a state that the transaction has locked.
UPDATE session.agent_states
SET state_data = :state_data, revision = :revision, expire_time = :expire_time, create_time = :create_time,
    update_time = :update_time, created_by = :created_by, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND session_id = :session_id
RETURNING revision;

-- list_states --
-- Read states that have not expired, by agent, session and space, after the keys of another. States of deleted agents are
-- left out.
SELECT agent_id, session_id, space_id, state_data, revision, expire_time, create_time, update_time, created_by, updated_by
FROM session.agent_states
WHERE tenant_id = :tenant_id AND (agent_id, session_id, space_id) > (:after_agent::text, :after_session::text, :after_space_id::uuid)
    AND (:agent_id::text IS NULL OR agent_id = :agent_id)
    AND (expire_time IS NULL OR expire_time > :at)
    AND NOT EXISTS (
        SELECT FROM tenancy.agents AS agent
        WHERE agent.tenant_id = :tenant_id AND agent.agent_id = agent_states.agent_id AND agent.delete_time IS NOT NULL)
ORDER BY agent_id, session_id, space_id
LIMIT :limit;

-- list_states_of_session --
-- Read the states of a session that have not expired, by agent, after another. `show_deleted` includes states of
-- deleted agents.
SELECT agent_id, session_id, space_id, state_data, revision, expire_time, create_time, update_time, created_by, updated_by
FROM session.agent_states
WHERE tenant_id = :tenant_id AND session_id = :session_id AND session_id <> '' AND agent_id > :after_agent::text
    AND (:agent_id::text IS NULL OR agent_id = :agent_id)
    AND (expire_time IS NULL OR expire_time > :at)
    AND (:show_deleted::boolean OR NOT EXISTS (
        SELECT FROM tenancy.agents AS agent
        WHERE agent.tenant_id = :tenant_id AND agent.agent_id = agent_states.agent_id AND agent.delete_time IS NOT NULL))
ORDER BY agent_id
LIMIT :limit;

-- get_deleted_agent --
-- Read an agent's id if the agent is deleted.
SELECT agent_id
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND delete_time IS NOT NULL;

-- delete_states_of_purged_agents --
-- Delete states of agents that are being purged, up to a limit.
DELETE FROM session.agent_states
USING (
    SELECT own.agent_id, own.session_id
    FROM tenancy.agents AS agent
    JOIN session.agent_states AS own ON own.tenant_id = :tenant_id AND own.agent_id = agent.agent_id
    WHERE agent.tenant_id = :tenant_id AND agent.purge_time IS NOT NULL
    ORDER BY own.agent_id, own.session_id
    LIMIT :count
) AS picked
WHERE agent_states.tenant_id = :tenant_id
    AND agent_states.agent_id = picked.agent_id AND agent_states.session_id = picked.session_id;

-- delete_state --
-- Delete a state that the transaction has locked.
DELETE FROM session.agent_states
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND session_id = :session_id;

-- delete_expired_states --
-- Delete expired states, oldest first, up to a limit; a state that a concurrent call extends stays.
DELETE FROM session.agent_states
USING (
    SELECT agent_id, session_id FROM session.agent_states
    WHERE tenant_id = :tenant_id AND expire_time <= :at
    ORDER BY expire_time
    LIMIT :count
    FOR UPDATE SKIP LOCKED
) AS picked
WHERE agent_states.tenant_id = :tenant_id AND agent_states.expire_time <= :at
    AND agent_states.agent_id = picked.agent_id AND agent_states.session_id = picked.session_id;
