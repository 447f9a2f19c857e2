-- Deleted agents, subjects and tools keep their rows and their ids, until they are brought back or purged.

-- An agent that is being purged stays until the other services have nothing left of it.
ALTER TABLE tenancy.agents ADD COLUMN purge_time timestamptz;
ALTER TABLE tenancy.subjects ADD COLUMN delete_time timestamptz;
ALTER TABLE tenancy.tools ADD COLUMN delete_time timestamptz;
CREATE INDEX agents_purged ON tenancy.agents (tenant_id, purge_time) WHERE purge_time IS NOT NULL;

-- What belongs to an agent asks whether the agent is deleted.
GRANT SELECT (tenant_id, agent_id, delete_time, purge_time) ON tenancy.agents TO skein_auth, skein_session, skein_memory;
-- An agent's row goes when nothing of it is left elsewhere.
GRANT SELECT (tenant_id, agent_id) ON memory.block_agents TO skein_tenancy;
GRANT SELECT (tenant_id, agent_id) ON session.agent_states TO skein_tenancy;
GRANT SELECT (tenant_id, agent_id, revoke_time) ON auth.api_keys TO skein_tenancy;
GRANT SELECT (tenant_id, agent_id, disabled) ON auth.service_accounts TO skein_tenancy;

-- Expired memories are erased so many hours after their expiry; NULL: the default, which the code holds.
ALTER TABLE tenancy.policies
    ADD COLUMN expiry_grace_hours integer
        CONSTRAINT policies_expiry_grace_hours_range CHECK (expiry_grace_hours BETWEEN 0 AND 8760);

-- Agents that were deleted before get their ids back, the last one of an id whose place nobody took: their blocks and
-- states answer no more. Tenant by tenant, as row-level security binds the owner too.
DO $$
DECLARE
    tenant uuid;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        UPDATE tenancy.agents AS gone
        SET agent_id = gone.deleted_agent_id, deleted_agent_id = NULL
        FROM (
            SELECT DISTINCT ON (deleted_agent_id) agent_id
            FROM tenancy.agents
            WHERE tenant_id = tenant AND delete_time IS NOT NULL AND deleted_agent_id IS NOT NULL
            ORDER BY deleted_agent_id, delete_time DESC
        ) AS last
        WHERE gone.tenant_id = tenant AND gone.agent_id = last.agent_id
            AND NOT EXISTS (
                SELECT FROM tenancy.agents AS other
                WHERE other.tenant_id = tenant AND other.agent_id = gone.deleted_agent_id);
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;
