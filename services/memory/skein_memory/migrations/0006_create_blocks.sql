-- Blocks, and the agents that carry them.

CREATE TABLE memory.blocks (
    tenant_id uuid NOT NULL
        CONSTRAINT blocks_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    block_id text COLLATE "C" NOT NULL
        CONSTRAINT blocks_block_id_length CHECK (char_length(block_id) BETWEEN 1 AND 255),
    label text NOT NULL CONSTRAINT blocks_label_length CHECK (char_length(label) BETWEEN 1 AND 50),
    value text NOT NULL,
    max_characters integer NOT NULL DEFAULT 2000
        CONSTRAINT blocks_max_characters_range CHECK (max_characters BETWEEN 1 AND 100000),
    description text,
    read_only boolean NOT NULL DEFAULT false,
    is_template boolean NOT NULL DEFAULT false,
    template_name text,
    -- Empty: about no subject. It is part of a key, so it is not NULL.
    subject_id text NOT NULL DEFAULT '',
    metadata jsonb,
    delete_time timestamptz,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    -- The principals that each field has words of: {"value": ["api_key:…"]}.
    writers jsonb NOT NULL,
    record_time timestamptz,
    CONSTRAINT blocks_value_within_limit CHECK (char_length(value) <= max_characters)
);
CREATE INDEX blocks_label ON memory.blocks (tenant_id, label, block_id);
CREATE INDEX blocks_subject ON memory.blocks (tenant_id, subject_id, block_id) WHERE subject_id <> '';
CREATE INDEX blocks_template_name ON memory.blocks (tenant_id, template_name, block_id)
    WHERE template_name IS NOT NULL;

-- Made last: of indexes that cost the same in a table without statistics, the planner takes the youngest.
ALTER TABLE memory.blocks ADD CONSTRAINT blocks_pkey PRIMARY KEY (tenant_id, block_id);
ALTER TABLE memory.blocks ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.blocks FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.blocks
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.blocks AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- The blocks that agents carry. Label and subject are copies of the block's, so that they are unique for each agent.
CREATE TABLE memory.block_agents (
    tenant_id uuid NOT NULL,
    agent_id text NOT NULL CONSTRAINT block_agents_agent_id_length CHECK (char_length(agent_id) BETWEEN 1 AND 255),
    block_id text COLLATE "C" NOT NULL,
    label text NOT NULL,
    subject_id text NOT NULL DEFAULT '',
    attach_time timestamptz NOT NULL,
    attached_by text NOT NULL,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT block_agents_pkey PRIMARY KEY (tenant_id, agent_id, block_id),
    CONSTRAINT block_agents_label_key UNIQUE (tenant_id, agent_id, subject_id, label),
    CONSTRAINT block_agents_block_fkey FOREIGN KEY (tenant_id, block_id)
        REFERENCES memory.blocks (tenant_id, block_id) ON DELETE CASCADE
);
CREATE INDEX block_agents_block ON memory.block_agents (tenant_id, block_id, agent_id);
ALTER TABLE memory.block_agents ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.block_agents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.block_agents
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.block_agents AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- The blocks that agents carried.
CREATE TABLE memory.block_agents_history (
    LIKE memory.block_agents,
    until_time timestamptz NOT NULL,
    CONSTRAINT block_agents_history_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX block_agents_history_agent ON memory.block_agents_history (tenant_id, agent_id, block_id, until_time);
CREATE INDEX block_agents_history_block ON memory.block_agents_history (tenant_id, block_id);
CREATE INDEX block_agents_history_until ON memory.block_agents_history (tenant_id, until_time);
ALTER TABLE memory.block_agents_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.block_agents_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.block_agents_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.block_agents_history AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);
CREATE TRIGGER keep_updated BEFORE UPDATE ON memory.block_agents
    FOR EACH ROW WHEN ((OLD.label, OLD.subject_id) IS DISTINCT FROM (NEW.label, NEW.subject_id))
    EXECUTE FUNCTION skein.keep_updated('memory.block_agents_history');
CREATE TRIGGER keep_deleted AFTER DELETE ON memory.block_agents
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION skein.keep_deleted('memory.block_agents_history');
CREATE VIEW as_of.block_agents WITH (security_invoker = true) AS
SELECT tenant_id, agent_id, block_id, label, subject_id, attach_time, attached_by, record_time
FROM memory.block_agents
WHERE record_time <= (SELECT skein.as_of_time())
UNION ALL
SELECT tenant_id, agent_id, block_id, label, subject_id, attach_time, attached_by, record_time
FROM memory.block_agents_history
WHERE record_time <= (SELECT skein.as_of_time()) AND until_time > (SELECT skein.as_of_time());
GRANT SELECT, INSERT, DELETE ON memory.block_agents_history TO skein_memory;
GRANT SELECT ON as_of.block_agents TO skein_memory;
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.blocks, memory.block_agents TO skein_memory;

-- Tenancy purges an agent's row when no other row of the agent is left.
GRANT SELECT (tenant_id, agent_id) ON memory.block_agents TO skein_tenancy;
