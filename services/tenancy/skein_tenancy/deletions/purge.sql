-- purge_space_grants --
-- Remove some of the grants of spaces that a deleted tenant has.
DELETE FROM tenancy.space_grants
USING (SELECT grant_id FROM tenancy.space_grants WHERE tenant_id = :tenant_id LIMIT :count) AS picked
WHERE space_grants.tenant_id = :tenant_id AND space_grants.grant_id = picked.grant_id;

-- purge_space_bindings --
-- Remove some of the bindings of principals that a deleted tenant has.
DELETE FROM tenancy.space_bindings
WHERE tenant_id = :tenant_id AND principal = ANY (ARRAY(
    SELECT principal FROM tenancy.space_bindings WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_spaces --
-- Remove some of the spaces that a deleted tenant has.
DELETE FROM tenancy.spaces
WHERE tenant_id = :tenant_id AND space_id = ANY (ARRAY(
    SELECT space_id FROM tenancy.spaces WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_memberships --
-- Remove some of the memberships that a deleted tenant has.
DELETE FROM tenancy.memberships
WHERE tenant_id = :tenant_id AND account_id = ANY (ARRAY(
    SELECT account_id FROM tenancy.memberships WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_invitations --
-- Remove some of the invitations that a deleted tenant has.
DELETE FROM tenancy.invitations
WHERE tenant_id = :tenant_id AND invitation_id = ANY (ARRAY(
    SELECT invitation_id FROM tenancy.invitations WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_subject_properties --
-- Remove some of the properties of subjects that a deleted tenant has.
DELETE FROM tenancy.subject_properties
USING (
    SELECT path, value, subject_id FROM tenancy.subject_properties WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE subject_properties.tenant_id = :tenant_id
    AND subject_properties.path = picked.path AND subject_properties.value = picked.value
    AND subject_properties.subject_id = picked.subject_id;

-- purge_subjects --
-- Remove some of the subjects that a deleted tenant has.
DELETE FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND subject_id = ANY (ARRAY(
    SELECT subject_id FROM tenancy.subjects WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_subjects_history --
-- Remove some of the former versions of subjects that a deleted tenant has.
DELETE FROM tenancy.subjects_history
USING (
    SELECT subject_id, record_time, until_time FROM tenancy.subjects_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE subjects_history.tenant_id = :tenant_id
    AND subjects_history.subject_id = picked.subject_id AND subjects_history.record_time = picked.record_time
    AND subjects_history.until_time = picked.until_time;

-- purge_agent_tools --
-- Remove some of the tools of agents that a deleted tenant has.
DELETE FROM tenancy.agent_tools
USING (
    SELECT agent_id, tool_id FROM tenancy.agent_tools WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE agent_tools.tenant_id = :tenant_id
    AND agent_tools.agent_id = picked.agent_id AND agent_tools.tool_id = picked.tool_id;

-- purge_agents --
-- Remove some of the agents, those marked as deleted too, that a deleted tenant has.
DELETE FROM tenancy.agents
WHERE tenant_id = :tenant_id AND agent_id = ANY (ARRAY(
    SELECT agent_id FROM tenancy.agents WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tools --
-- Remove some of the tools that a deleted tenant has.
DELETE FROM tenancy.tools
WHERE tenant_id = :tenant_id AND tool_id = ANY (ARRAY(
    SELECT tool_id FROM tenancy.tools WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_policies --
-- Remove the policy of a deleted tenant. There is one row, so any positive count removes it.
DELETE FROM tenancy.policies
WHERE tenant_id = :tenant_id AND :count::bigint > 0;

-- purge_policies_history --
-- Remove some of the former policies of a deleted tenant.
DELETE FROM tenancy.policies_history
WHERE tenant_id = :tenant_id AND until_time = ANY (ARRAY(
    SELECT until_time FROM tenancy.policies_history WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_limits --
-- Remove some of the limits that a deleted tenant has.
DELETE FROM tenancy.quotas
WHERE tenant_id = :tenant_id AND kind = ANY (ARRAY(
    SELECT kind FROM tenancy.quotas WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_usage --
-- Remove some of the counters that a deleted tenant has.
DELETE FROM tenancy.usage
USING (
    SELECT kind, slot FROM tenancy.usage WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE usage.tenant_id = :tenant_id AND usage.kind = picked.kind AND usage.slot = picked.slot;

-- purge_collected_usage --
-- Remove some of the collected usage that a deleted tenant has.
DELETE FROM tenancy.collected_usage
WHERE tenant_id = :tenant_id AND kind = ANY (ARRAY(
    SELECT kind FROM tenancy.collected_usage WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_rate_limits --
-- Remove some of the rate limit buckets that a deleted tenant has.
DELETE FROM tenancy.rate_limit_buckets
WHERE tenant_id = :tenant_id AND caller = ANY (ARRAY(
    SELECT caller FROM tenancy.rate_limit_buckets WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_jobs --
-- Remove some of the jobs that a deleted tenant has.
DELETE FROM tenancy.jobs
WHERE tenant_id = :tenant_id AND kind = ANY (ARRAY(
    SELECT kind FROM tenancy.jobs WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_requests --
-- Remove some of the saved responses that a deleted tenant has.
DELETE FROM tenancy.requests
USING (
    SELECT principal, method, request_id FROM tenancy.requests WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE requests.tenant_id = :tenant_id
    AND requests.principal = picked.principal AND requests.method = picked.method
    AND requests.request_id = picked.request_id;
