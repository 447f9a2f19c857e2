-- create_agent --
-- Make an agent; no row comes back when the tenant has one with this id.
INSERT INTO tenancy.agents
    (tenant_id, agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config,
     embedding_config, tool_rules, mcp_servers, message_ids, create_time, update_time, created_by, updated_by)
VALUES
    (:tenant_id, :agent_id, :display_name, :agent_type, :description, :system_prompt, :topic, :metadata::jsonb,
     :llm_config::jsonb, :embedding_config::jsonb, :tool_rules::jsonb, :mcp_servers, :message_ids, :create_time, :create_time,
     :created_by, :created_by)
ON CONFLICT ON CONSTRAINT agents_pkey DO NOTHING
RETURNING agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by;

-- get_agent --
-- Read one agent that is not deleted.
SELECT agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND delete_time IS NULL;

-- list_agents --
-- Read a page of the tenant's agents in order of their ids; `after` is the last one of the page before.
SELECT agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id > :after AND delete_time IS NULL
ORDER BY agent_id
LIMIT :size;

-- lock_agent --
-- Read one agent and keep others from changing it until the transaction ends.
SELECT agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by
FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND delete_time IS NULL
FOR UPDATE;

-- update_agent --
-- Change an agent that the transaction has locked.
UPDATE tenancy.agents
SET display_name = :display_name, agent_type = :agent_type, description = :description,
    system_prompt = :system_prompt, topic = :topic, metadata = :metadata::jsonb, llm_config = :llm_config::jsonb,
    embedding_config = :embedding_config::jsonb, tool_rules = :tool_rules::jsonb, mcp_servers = :mcp_servers,
    message_ids = :message_ids, revision = revision + 1, update_time = :update_time, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND agent_id = :agent_id
RETURNING agent_id, display_name, agent_type, description, system_prompt, topic, metadata, llm_config, embedding_config,
    tool_rules, mcp_servers, message_ids, revision, create_time, update_time, created_by, updated_by;

-- delete_agent --
-- Mark an agent as deleted and give its id free; no row is touched when there is no such agent.
UPDATE tenancy.agents
SET agent_id = :free_id, deleted_agent_id = agent_id, delete_time = :delete_time, revision = revision + 1,
    update_time = :delete_time, updated_by = :deleted_by
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND delete_time IS NULL;
