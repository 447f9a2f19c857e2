-- list_tenant_limits --
-- Read what was set for a tenant itself, and the revision of each.
SELECT kind, most, revision, update_time
FROM tenancy.limits
WHERE tenant_id = :tenant_id AND revision > 0;

-- lock_limits --
-- Read what was set for a tenant itself, and keep others from setting it until the transaction ends.
SELECT kind, most, revision, update_time
FROM tenancy.limits
WHERE tenant_id = :tenant_id AND revision > 0
FOR UPDATE;

-- set_limit --
-- Set a limit of a tenant; NULL leaves it to the organization.
INSERT INTO tenancy.limits AS known (tenant_id, kind, most, revision, update_time)
VALUES (:tenant_id, :kind, :most, :revision, :update_time)
ON CONFLICT ON CONSTRAINT limits_pkey DO UPDATE
    SET most = excluded.most, revision = excluded.revision, update_time = excluded.update_time;

-- leave_room --
-- Set what the organization leaves to a tenant; what was set for the tenant itself stays.
INSERT INTO tenancy.limits AS known (tenant_id, kind, organization_most, revision, update_time)
VALUES (:tenant_id, :kind, :organization_most, 0, :update_time)
ON CONFLICT ON CONSTRAINT limits_pkey DO UPDATE
    SET organization_most = excluded.organization_most;

-- free_room --
-- Take away what the organization left to a tenant of kinds that it limits no more.
UPDATE tenancy.limits
SET organization_most = NULL
WHERE tenant_id = :tenant_id AND kind <> ALL (:kinds::text[]) AND organization_most IS NOT NULL;

-- list_rates --
-- Read how many calls of a tenant are let through, by kind.
SELECT kind, least(most, organization_most) AS most
FROM tenancy.limits
WHERE tenant_id = :tenant_id AND kind = ANY (:kinds::text[]) AND (most IS NOT NULL OR organization_most IS NOT NULL);

-- list_organization_limits --
-- Read what was set for an organization.
SELECT kind, most, revision, update_time
FROM tenancy.organization_limits
WHERE organization_id = :organization_id;

-- lock_organization_limits --
-- Read what was set for an organization, and keep others from setting it or making tenants until the transaction ends.
SELECT kind, most, revision, update_time
FROM tenancy.organization_limits
WHERE organization_id = :organization_id
FOR UPDATE;

-- set_organization_limit --
-- Set a limit of an organization; NULL takes it away.
INSERT INTO tenancy.organization_limits AS known (organization_id, kind, most, revision, update_time)
VALUES (:organization_id, :kind, :most, :revision, :update_time)
ON CONFLICT ON CONSTRAINT organization_limits_pkey DO UPDATE
    SET most = excluded.most, revision = excluded.revision, update_time = excluded.update_time;

-- organization_of --
-- Return the organization of a tenant.
SELECT organization_id
FROM tenancy.tenants
WHERE tenant_id = :tenant_id;

-- find_organization --
-- Return an organization's id if it is there.
SELECT organization_id
FROM tenancy.organizations
WHERE organization_id = :organization_id AND is_active;

-- tenant_ids_of_organization --
-- List the tenants of an organization.
SELECT tenant_id
FROM tenancy.tenants
WHERE organization_id = :organization_id AND is_active
ORDER BY tenant_id;
