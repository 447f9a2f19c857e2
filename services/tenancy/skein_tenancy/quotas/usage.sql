-- read_usage --
-- Sum up what a tenant has in all services, with what it may have at most.
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
-- Keep what a tenant has for its organization's sums.
INSERT INTO tenancy.collected_usage AS known (tenant_id, kind, amount, collect_time)
VALUES (:tenant_id, :kind, :amount, :collect_time)
ON CONFLICT ON CONSTRAINT collected_usage_pkey DO UPDATE
    SET amount = excluded.amount, collect_time = excluded.collect_time;

-- read_organization_usage --
-- Sum up what the tenants of an organization had when each was last asked.
SELECT collected.kind, sum(collected.amount)::bigint AS used, min(collected.collect_time) AS collect_time
FROM tenancy.tenants
JOIN tenancy.collected_usage AS collected ON collected.tenant_id = tenants.tenant_id
WHERE tenants.organization_id = :organization_id AND tenants.is_active
GROUP BY collected.kind;

-- read_usage_of_others --
-- Sum up what the tenants of an organization but one had when each was last asked.
SELECT collected.kind, sum(collected.amount)::bigint AS used
FROM tenancy.tenants
JOIN tenancy.collected_usage AS collected ON collected.tenant_id = tenants.tenant_id
WHERE tenants.organization_id = :organization_id AND tenants.is_active AND tenants.tenant_id <> :tenant_id
GROUP BY collected.kind;

-- list_collected_usage --
-- Read what each tenant of an organization had when it was last asked.
SELECT collected.tenant_id, collected.kind, collected.amount
FROM tenancy.tenants
JOIN tenancy.collected_usage AS collected ON collected.tenant_id = tenants.tenant_id
WHERE tenants.organization_id = :organization_id AND tenants.is_active;
