-- create_tool --
-- Create a tool; no row comes back when the tenant has one with this id or this name.
INSERT INTO tenancy.tools
    (tenant_id, tool_id, name, description, json_schema, source_type, source_code, tags, metadata, create_time,
     update_time, created_by, updated_by)
VALUES
    (:tenant_id, :tool_id, :name, :description, :json_schema::jsonb, :source_type, :source_code, :tags,
     :metadata::jsonb, :create_time, :update_time, :created_by, :created_by)
ON CONFLICT DO NOTHING
RETURNING tool_id, name, description, json_schema, source_type, source_code, tags, metadata, revision, create_time,
    update_time, created_by, updated_by, delete_time;

-- get_tool --
-- Read one tool that is not deleted.
SELECT tool_id, name, description, json_schema, source_type, source_code, tags, metadata, revision, create_time,
    update_time, created_by, updated_by, delete_time
FROM tenancy.tools
WHERE tenant_id = :tenant_id AND tool_id = :tool_id AND delete_time IS NULL;

-- list_tools --
-- Read a page of the tenant's tools in order of their ids; `after` is the last one of the page before.
SELECT tool_id, name, description, json_schema, source_type, source_code, tags, metadata, revision, create_time,
    update_time, created_by, updated_by, delete_time
FROM tenancy.tools
WHERE tenant_id = :tenant_id AND tool_id > :after AND (:show_deleted::boolean OR delete_time IS NULL)
ORDER BY tool_id
LIMIT :size;

-- list_tools_of_agent --
-- Read a page of an agent's tools in order of their ids; `after` is the last one of the page before. Deleted tools
-- and those of a deleted agent are left out.
SELECT tools.tool_id, tools.name, tools.description, tools.json_schema, tools.source_type, tools.source_code,
    tools.tags, tools.metadata, tools.revision, tools.create_time, tools.update_time, tools.created_by, tools.updated_by,
    tools.delete_time
FROM tenancy.agent_tools
JOIN tenancy.tools ON tools.tenant_id = agent_tools.tenant_id AND tools.tool_id = agent_tools.tool_id
WHERE agent_tools.tenant_id = :tenant_id AND agent_tools.agent_id = :agent_id AND agent_tools.tool_id > :after
    AND tools.delete_time IS NULL
    AND NOT EXISTS (
        SELECT FROM tenancy.agents AS deleted
        WHERE deleted.tenant_id = :tenant_id AND deleted.agent_id = :agent_id AND deleted.delete_time IS NOT NULL)
ORDER BY agent_tools.tool_id
LIMIT :size;

-- lock_tool --
-- Read one tool, deleted or not, and keep others from changing it until the transaction ends.
SELECT tool_id, name, description, json_schema, source_type, source_code, tags, metadata, revision, create_time,
    update_time, created_by, updated_by, delete_time
FROM tenancy.tools
WHERE tenant_id = :tenant_id AND tool_id = :tool_id
FOR UPDATE;

-- update_tool --
-- Change a tool that the transaction has locked.
UPDATE tenancy.tools
SET name = :name, description = :description, json_schema = :json_schema::jsonb, source_type = :source_type,
    source_code = :source_code, tags = :tags, metadata = :metadata::jsonb, revision = revision + 1,
    update_time = :update_time, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND tool_id = :tool_id
RETURNING tool_id, name, description, json_schema, source_type, source_code, tags, metadata, revision, create_time,
    update_time, created_by, updated_by, delete_time;

-- find_conflicting_tool --
-- Read the delete time of the tool that has an id or a name; NULL for one that is not deleted.
SELECT delete_time
FROM tenancy.tools
WHERE tenant_id = :tenant_id AND (tool_id = :tool_id OR name = :name)
ORDER BY delete_time NULLS FIRST
LIMIT 1;

-- delete_tool --
-- Mark a tool as deleted; its id and its name stay taken. No row is updated when there is no such tool.
UPDATE tenancy.tools
SET delete_time = :delete_time, revision = revision + 1, update_time = :delete_time, updated_by = :deleted_by
WHERE tenant_id = :tenant_id AND tool_id = :tool_id AND delete_time IS NULL;

-- undelete_tool --
-- Bring a deleted tool back that the transaction has locked.
UPDATE tenancy.tools
SET delete_time = NULL, revision = revision + 1, update_time = :update_time, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND tool_id = :tool_id
RETURNING tool_id, name, description, json_schema, source_type, source_code, tags, metadata, revision, create_time,
    update_time, created_by, updated_by, delete_time;

-- purge_tool --
-- Remove a tool for good, from its agents too.
DELETE FROM tenancy.tools
WHERE tenant_id = :tenant_id AND tool_id = :tool_id;

-- share_tool --
-- Keep one tool from being deleted until the transaction ends.
SELECT tool_id
FROM tenancy.tools
WHERE tenant_id = :tenant_id AND tool_id = :tool_id AND delete_time IS NULL
FOR KEY SHARE;

-- attach_tool --
-- Attach a tool to an agent, unless it is attached.
INSERT INTO tenancy.agent_tools (tenant_id, agent_id, tool_id, create_time, created_by)
VALUES (:tenant_id, :agent_id, :tool_id, :create_time, :created_by)
ON CONFLICT ON CONSTRAINT agent_tools_pkey DO NOTHING;

-- detach_tool --
-- Detach a tool from an agent, if it is attached.
DELETE FROM tenancy.agent_tools
WHERE tenant_id = :tenant_id AND agent_id = :agent_id AND tool_id = :tool_id;
