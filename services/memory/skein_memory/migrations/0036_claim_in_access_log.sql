-- The access log tells the agent that a credential is bound to from what its caller claims in metadata.

-- agent_id is the verified one from here on; rows of the version before may name the agent of a memory there.
ALTER TABLE memory.access_log ADD COLUMN claimed_agent_id text, ADD COLUMN claimed_session_id text;
CREATE INDEX access_log_claimed_agent ON memory.access_log (tenant_id, claimed_agent_id, access_id)
    WHERE claimed_agent_id IS NOT NULL;
CREATE INDEX access_log_claimed_session ON memory.access_log (tenant_id, claimed_session_id, access_id)
    WHERE claimed_session_id IS NOT NULL;
