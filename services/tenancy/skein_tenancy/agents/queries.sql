-- create_agent --
-- Create an agent; no row comes back when the tenant has one with this id.
INSERT INTO tenancy.agents
    (tenant_id, agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config,
     embedding_config, tool_rules, mcp_servers, message_ids, create_time, update_time, created_by, updated_by)
VALUES
    (:tenant_id, :agent_id, :display_name, :agent_type, :description, :system_prompt, :topic, :metadata::jsonb,
     :llm_config::jsonb, :embedding_config::jsonb, :tool_rules::jsonb, :mcp_servers, :message_ids, :create_time, :update_time,
     :created_by, :created_by)
ON CONFLICT ON CONSTRAINT agents_pkey DO NOTHING
RETURNING agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by,
    delete_time;

-- get_agent --
-- Read one agent that is not deleted.
SELECT agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by,
    delete_time
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND delete_time IS NULL;

-- list_agents --
-- Read a page of the tenant's agents in order of their ids; `after` is the last one of the page before. Deleted ones come
-- with `show_deleted` only, and purged ones never.
SELECT agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by,
    delete_time
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id > :after
    AND (delete_time IS NULL OR :show_deleted::boolean AND purge_time IS NULL)
ORDER BY agent_id
LIMIT :size;

-- update_agent --
-- Change an agent that the transaction has locked.
UPDATE tenancy.agents
SET display_name = :display_name, agent_type = :agent_type, description = :description,
    system_prompt = :system_prompt, topic = :topic, metadata = :metadata::jsonb, llm_config = :llm_config::jsonb,
    embedding_config = :embedding_config::jsonb, tool_rules = :tool_rules::jsonb, mcp_servers = :mcp_servers,
    message_ids = :message_ids, revision = revision + 1, update_time = :update_time, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND agent_id = :agent_id
RETURNING agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by,
    delete_time;

-- lock_agent --
-- Read one agent, deleted or not, and keep others from changing it until the transaction ends; no row comes back for a
-- purged one.
SELECT agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by, delete_time
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND purge_time IS NULL
FOR UPDATE;

-- find_conflicting_agent --
-- Read the delete time of an agent, also of a purged one.
SELECT delete_time
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id;

-- delete_agent --
-- Mark an agent as deleted; its id stays taken. No row is updated when there is no such agent.
UPDATE tenancy.agents
SET delete_time = :delete_time, revision = revision + 1, update_time = :delete_time, updated_by = :deleted_by
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND delete_time IS NULL;

-- undelete_agent --
-- Bring a deleted agent back that the transaction has locked.
UPDATE tenancy.agents
SET delete_time = NULL, revision = revision + 1, update_time = :update_time, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND agent_id = :agent_id
RETURNING agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by, delete_time;

-- revoke_agent_space_grants --
-- Revoke the grants of an agent whose id becomes free, and what it passed on; it stays bound, so that the next one sees no
-- more.
UPDATE tenancy.space_grants AS g
SET revoke_time = :purge_time, expire_time = least(g.expire_time, :purge_time)
WHERE g.tenant_id = :tenant_id AND g.revoke_time IS NULL
    AND (g.principal = 'agent:' || :agent_id::text
         OR g.delegating_grant_id IN (SELECT own.grant_id FROM tenancy.space_grants AS own
                                      WHERE own.tenant_id = :tenant_id AND own.principal = 'agent:' || :agent_id::text));

-- purge_agent --
-- Empty an agent that the transaction has locked; the worker removes the row later.
UPDATE tenancy.agents
SET display_name = '', agent_type = NULL, description = NULL, system_prompt = NULL, topic = NULL, metadata = NULL,
    llm_config = NULL, embedding_config = NULL, tool_rules = NULL, mcp_servers = '{}', message_ids = '{}',
    delete_time = coalesce(delete_time, :purge_time), purge_time = :purge_time, revision = revision + 1,
    update_time = :purge_time, updated_by = :purged_by
WHERE tenant_id = :tenant_id AND agent_id = :agent_id;

-- clear_agent_responses --
-- Empty the saved responses that contain an agent: a repeated request gets an empty response and does nothing.
UPDATE tenancy.requests
SET response = ''
WHERE tenant_id = :tenant_id AND create_time >= :since_time AND response <> '' AND method = ANY (:methods::text[])
    AND position(:prefix::bytea IN response) > 0;

-- delete_purged_agents --
-- Remove purged agents to which no row of other services refers, which frees their ids. `purged_before` lies so far back
-- that every call that began before the purge has ended.
DELETE FROM tenancy.agents
WHERE tenant_id = :tenant_id AND purge_time <= :purged_before
    AND NOT EXISTS (
        SELECT FROM memory.block_agents AS own
        WHERE own.tenant_id = :tenant_id AND own.agent_id = agents.agent_id)
    AND NOT EXISTS (
        SELECT FROM session.agent_states AS own
        WHERE own.tenant_id = :tenant_id AND own.agent_id = agents.agent_id)
    AND NOT EXISTS (
        SELECT FROM auth.api_keys AS own
        WHERE own.tenant_id = :tenant_id AND own.agent_id = agents.agent_id AND own.revoke_time IS NULL)
    AND NOT EXISTS (
        SELECT FROM auth.service_accounts AS own
        WHERE own.tenant_id = :tenant_id AND own.agent_id = agents.agent_id AND NOT own.disabled);

-- share_agent --
-- Keep one agent from being deleted until the transaction ends.
SELECT agent_id
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND delete_time IS NULL
FOR KEY SHARE;

-- detach_tools --
-- Detach all tools from an agent.
DELETE FROM tenancy.agent_tools
WHERE tenant_id = :tenant_id AND agent_id = :agent_id;
