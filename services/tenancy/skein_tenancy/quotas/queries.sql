-- list_tenant_limits --
-- Read the limits that were set for a tenant itself, and the revision of each.
SELECT kind, most, revision, update_time
FROM tenancy.limits
WHERE tenant_id = :tenant_id AND revision > 0;

-- lock_limits --
-- Read the limits that were set for a tenant itself, and keep others from setting them until the transaction ends.
SELECT kind, most, revision, update_time
FROM tenancy.limits
WHERE tenant_id = :tenant_id AND revision > 0
FOR UPDATE;

-- set_limit --
-- Set a limit of a tenant; NULL leaves it to the organization.
INSERT INTO tenancy.limits (tenant_id, kind, most, revision, update_time)
VALUES (:tenant_id, :kind, :most, :revision, :update_time)
ON CONFLICT ON CONSTRAINT limits_pkey DO UPDATE
    SET most = excluded.most, revision = excluded.revision, update_time = excluded.update_time;

-- set_organization_share --
-- Set a tenant's share of a limit of its organization; the tenant's own limit stays.
INSERT INTO tenancy.limits (tenant_id, kind, organization_most, revision, update_time)
VALUES (:tenant_id, :kind, :organization_most, 0, :update_time)
ON CONFLICT ON CONSTRAINT limits_pkey DO UPDATE
    SET organization_most = excluded.organization_most;

-- clear_organization_share --
-- Clear a tenant's shares of kinds that its organization no longer limits.
UPDATE tenancy.limits
SET organization_most = NULL
WHERE tenant_id = :tenant_id AND kind <> ALL (:kinds::text[]) AND organization_most IS NOT NULL;

-- list_organization_limits --
-- Read the limits of an organization.
SELECT kind, most, revision, update_time
FROM tenancy.organization_limits
WHERE organization_id = :organization_id;

-- lock_organization_limits --
-- Read the limits of an organization; no other transaction sets them or creates tenants until this one ends.
SELECT kind, most, revision, update_time
FROM tenancy.organization_limits
WHERE organization_id = :organization_id
FOR UPDATE;

-- set_organization_limit --
-- Set a limit of an organization; NULL removes it.
INSERT INTO tenancy.organization_limits (organization_id, kind, most, revision, update_time)
VALUES (:organization_id, :kind, :most, :revision, :update_time)
ON CONFLICT ON CONSTRAINT organization_limits_pkey DO UPDATE
    SET most = excluded.most, revision = excluded.revision, update_time = excluded.update_time;

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
-- Sum up the usage of a tenant in all services, with its limits.
SELECT used.kind, sum(used.amount)::bigint AS used,
       (SELECT least(limits.most, limits.organization_most) FROM tenancy.limits
        WHERE limits.tenant_id = :tenant_id AND limits.kind = used.kind) AS most
FROM (
    SELECT usage.kind, usage.amount FROM auth.usage WHERE usage.tenant_id = :tenant_id
    UNION ALL
    SELECT usage.kind, usage.amount FROM tenancy.usage WHERE usage.tenant_id = :tenant_id
    UNION ALL
    SELECT usage.kind, usage.amount FROM session.usage WHERE usage.tenant_id = :tenant_id
    UNION ALL
    SELECT usage.kind, usage.amount FROM memory.usage WHERE usage.tenant_id = :tenant_id
    UNION ALL
    SELECT limits.kind, 0 FROM tenancy.limits WHERE limits.tenant_id = :tenant_id
) AS used
GROUP BY used.kind;

-- collect_usage --
-- Save a tenant's usage for the sums of its organization.
INSERT INTO tenancy.collected_usage (tenant_id, kind, amount, collect_time)
VALUES (:tenant_id, :kind, :amount, :collect_time)
ON CONFLICT ON CONSTRAINT collected_usage_pkey DO UPDATE
    SET amount = excluded.amount, collect_time = excluded.collect_time;

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
