-- A credential that is bound to an agent sees the memories that its agent sees, by row-level security.
SET LOCAL lock_timeout = '5s';

-- skein.agent_id is the agent of the call in hand; empty for a caller that acts for no single agent. As visible_to has it,
-- a memory that is not for all and names an agent is for that agent alone.
CREATE POLICY agent ON memory.memories AS RESTRICTIVE
    USING (scope = 'global'
           OR coalesce(current_setting('skein.agent_id', true), '') IN ('', agent_id)
           OR (agent_id IS NULL AND scope <> 'agent'));
CREATE POLICY agent ON memory.versions AS RESTRICTIVE
    USING (scope = 'global'
           OR coalesce(current_setting('skein.agent_id', true), '') IN ('', agent_id)
           OR (agent_id IS NULL AND scope <> 'agent'));
