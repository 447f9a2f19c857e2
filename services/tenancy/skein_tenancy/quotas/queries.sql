-- list_tenant_limits --
-- Read the limits that were set for a tenant itself, and the revision of each.
SELECT kind, max_amount, revision, update_time
FROM tenancy.quotas
WHERE tenant_id = :tenant_id AND revision > 0;

-- lock_limits --
-- Read the limits that were set for a tenant itself, and keep others from setting them until the transaction ends.
SELECT kind, max_amount, revision, update_time
FROM tenancy.quotas
WHERE tenant_id = :tenant_id AND revision > 0
FOR UPDATE;

-- set_limit --
-- Set a limit of a tenant; NULL leaves it to the organization.
INSERT INTO tenancy.quotas (tenant_id, kind, max_amount, revision, update_time)
VALUES (:tenant_id, :kind, :max_amount, :revision, :update_time)
ON CONFLICT ON CONSTRAINT quotas_pkey DO UPDATE
    SET max_amount = excluded.max_amount, revision = excluded.revision, update_time = excluded.update_time;

-- set_organization_share --
-- Set a tenant's share of a limit of its organization; the tenant's own limit stays.
INSERT INTO tenancy.quotas (tenant_id, kind, max_organization_amount, revision, update_time)
VALUES (:tenant_id, :kind, :max_organization_amount, 0, :update_time)
ON CONFLICT ON CONSTRAINT quotas_pkey DO UPDATE
    SET max_organization_amount = excluded.max_organization_amount;

-- clear_organization_share --
-- Clear a tenant's shares of kinds that its organization no longer quotas.
UPDATE tenancy.quotas
SET max_organization_amount = NULL
WHERE tenant_id = :tenant_id AND kind <> ALL (:kinds::text[]) AND max_organization_amount IS NOT NULL;

-- list_organization_limits --
-- Read the limits of an organization.
SELECT kind, max_amount, revision, update_time
FROM tenancy.organization_quotas
WHERE organization_id = :organization_id;

-- lock_organization_limits --
-- Read the limits of an organization; no other transaction sets them or creates tenants until this one ends.
SELECT kind, max_amount, revision, update_time
FROM tenancy.organization_quotas
WHERE organization_id = :organization_id
FOR UPDATE;

-- set_organization_limit --
-- Set a limit of an organization; NULL removes it.
INSERT INTO tenancy.organization_quotas (organization_id, kind, max_amount, revision, update_time)
VALUES (:organization_id, :kind, :max_amount, :revision, :update_time)
ON CONFLICT ON CONSTRAINT organization_quotas_pkey DO UPDATE
    SET max_amount = excluded.max_amount, revision = excluded.revision, update_time = excluded.update_time;

-- get_organization_of_tenant --
-- Read the organization of a tenant.
SELECT organization_id
FROM tenancy.tenants
WHERE tenant_id = :tenant_id;

-- find_organization --
-- Return the id of an organization that is not deleted.
SELECT organization_id
FROM tenancy.organizations
WHERE organization_id = :organization_id AND is_active;

-- list_tenant_ids_of_organization --
-- Read the tenants of an organization that are not deleted.
SELECT tenant_id
FROM tenancy.tenants
WHERE organization_id = :organization_id AND is_active
ORDER BY tenant_id;

-- read_usage --
-- Sum up the usage of a tenant in all services, with its quotas.
SELECT used.kind, sum(used.amount)::bigint AS used,
       (SELECT least(quotas.max_amount, quotas.max_organization_amount) FROM tenancy.quotas
        WHERE quotas.tenant_id = :tenant_id AND quotas.kind = used.kind) AS max_amount
FROM (
    SELECT usage.kind, usage.amount FROM auth.usage WHERE usage.tenant_id = :tenant_id
    UNION ALL
    SELECT usage.kind, usage.amount FROM tenancy.usage WHERE usage.tenant_id = :tenant_id
    UNION ALL
    SELECT usage.kind, usage.amount FROM session.usage WHERE usage.tenant_id = :tenant_id
    UNION ALL
    SELECT usage.kind, usage.amount FROM memory.usage WHERE usage.tenant_id = :tenant_id
    UNION ALL
    SELECT quotas.kind, 0 FROM tenancy.quotas WHERE quotas.tenant_id = :tenant_id
) AS used
GROUP BY used.kind;

-- mark_auth_usage_collected --
-- Mark the usage of a tenant in auth as collected, and lock it; what a writer has locked waits for the next collection.
UPDATE auth.usage
SET is_collected = true
FROM (
    SELECT kind, slot FROM auth.usage
    WHERE tenant_id = :tenant_id AND NOT is_collected
    FOR NO KEY UPDATE SKIP LOCKED
) AS picked
WHERE usage.tenant_id = :tenant_id AND usage.kind = picked.kind AND usage.slot = picked.slot;

-- mark_tenancy_usage_collected --
-- Mark the usage of a tenant in tenancy as collected, and lock it; what a writer has locked waits for the next collection.
UPDATE tenancy.usage
SET is_collected = true
FROM (
    SELECT kind, slot FROM tenancy.usage
    WHERE tenant_id = :tenant_id AND NOT is_collected
    FOR NO KEY UPDATE SKIP LOCKED
) AS picked
WHERE usage.tenant_id = :tenant_id AND usage.kind = picked.kind AND usage.slot = picked.slot;

-- mark_session_usage_collected --
-- Mark the usage of a tenant in session as collected, and lock it; what a writer has locked waits for the next collection.
UPDATE session.usage
SET is_collected = true
FROM (
    SELECT kind, slot FROM session.usage
    WHERE tenant_id = :tenant_id AND NOT is_collected
    FOR NO KEY UPDATE SKIP LOCKED
) AS picked
WHERE usage.tenant_id = :tenant_id AND usage.kind = picked.kind AND usage.slot = picked.slot;

-- mark_memory_usage_collected --
-- Mark the usage of a tenant in memory as collected, and lock it; what a writer has locked waits for the next collection.
UPDATE memory.usage
SET is_collected = true
FROM (
    SELECT kind, slot FROM memory.usage
    WHERE tenant_id = :tenant_id AND NOT is_collected
    FOR NO KEY UPDATE SKIP LOCKED
) AS picked
WHERE usage.tenant_id = :tenant_id AND usage.kind = picked.kind AND usage.slot = picked.slot;

-- collect_usage --
-- Save a tenant's usage for the sums of its organization.
INSERT INTO tenancy.collected_usage AS present (tenant_id, kind, amount, collect_time, change_time)
VALUES (:tenant_id, :kind, :amount, :collect_time, :collect_time)
ON CONFLICT ON CONSTRAINT collected_usage_pkey DO UPDATE
    SET amount = excluded.amount, collect_time = excluded.collect_time,
        change_time = CASE WHEN present.amount = excluded.amount THEN present.change_time ELSE excluded.change_time END;

-- list_usage_tenants --
-- Read tenants, after one, whose usage is to be collected.
SELECT due.tenant_id
FROM tenancy.list_usage_tenants(:after, :size) AS due (tenant_id);

-- read_organization_usage --
-- Sum up the usage collected last of each tenant of an organization.
SELECT collected.kind, sum(collected.amount)::bigint AS used, min(collected.collect_time) AS collect_time
FROM tenancy.tenants
JOIN tenancy.collected_usage AS collected ON collected.tenant_id = tenants.tenant_id
WHERE tenants.organization_id = :organization_id AND tenants.is_active
GROUP BY collected.kind;

-- read_usage_of_others --
-- Sum up the usage collected last of each tenant of an organization but one.
SELECT collected.kind, sum(collected.amount)::bigint AS used
FROM tenancy.tenants
JOIN tenancy.collected_usage AS collected ON collected.tenant_id = tenants.tenant_id
WHERE tenants.organization_id = :organization_id AND tenants.is_active AND tenants.tenant_id <> :tenant_id
GROUP BY collected.kind;

-- list_collected_usage --
-- Read the usage collected last of each tenant of an organization.
SELECT collected.tenant_id, collected.kind, collected.amount
FROM tenancy.tenants
JOIN tenancy.collected_usage AS collected ON collected.tenant_id = tenants.tenant_id
WHERE tenants.organization_id = :organization_id AND tenants.is_active;
