-- create_tenant --
-- Create a tenant; no row comes back when another one of the organization has the slug.
INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, metadata, create_time, update_time)
VALUES (:tenant_id, :organization_id, :display_name, :slug, :metadata::jsonb, :create_time, :create_time)
ON CONFLICT (organization_id, slug) WHERE is_active DO NOTHING
RETURNING tenant_id, organization_id, display_name, slug, metadata, revision, create_time, update_time;

-- get_tenant --
-- Read one tenant that is not deleted.
SELECT tenant_id, organization_id, display_name, slug, metadata, revision, create_time, update_time
FROM tenancy.tenants
WHERE tenant_id = :tenant_id AND is_active;

-- list_tenants --
-- Read a page of the tenants, newest first: all or only `visible_tenant_id`, of any or one organization,
-- or of all but `hidden_organization_id`; `before` is the last one of the page before.
SELECT tenant_id, organization_id, display_name, slug, metadata, revision, create_time, update_time
FROM tenancy.tenants
WHERE is_active
  AND (:visible_tenant_id::uuid IS NULL OR tenant_id = :visible_tenant_id)
  AND (:organization_id::uuid IS NULL OR organization_id = :organization_id)
  AND (:hidden_organization_id::uuid IS NULL OR organization_id <> :hidden_organization_id)
  AND (:before::uuid IS NULL OR tenant_id < :before)
ORDER BY tenant_id DESC
LIMIT :size;

-- get_tenant_of_account --
-- Read one tenant that is not deleted, with the role of an account that is a member of it.
SELECT tenants.tenant_id, tenants.organization_id, tenants.display_name, tenants.slug, tenants.metadata,
    tenants.revision, tenants.create_time, tenants.update_time, memberships.role
FROM tenancy.memberships
JOIN tenancy.tenants ON tenants.tenant_id = memberships.tenant_id
WHERE memberships.tenant_id = :tenant_id AND memberships.account_id = :account_id AND tenants.is_active;

-- list_tenants_of_account --
-- Read a page of the tenants that an account is a member of, newest first, with its role: all or only
-- `visible_tenant_id`, of any or one organization; `before` is the last one of the page before.
SELECT tenants.tenant_id, tenants.organization_id, tenants.display_name, tenants.slug, tenants.metadata,
    tenants.revision, tenants.create_time, tenants.update_time, memberships.role
FROM tenancy.memberships
JOIN tenancy.tenants ON tenants.tenant_id = memberships.tenant_id
WHERE memberships.account_id = :account_id AND tenants.is_active
  AND (:visible_tenant_id::uuid IS NULL OR memberships.tenant_id = :visible_tenant_id)
  AND (:organization_id::uuid IS NULL OR tenants.organization_id = :organization_id)
  AND (:before::uuid IS NULL OR memberships.tenant_id < :before)
ORDER BY memberships.tenant_id DESC
LIMIT :size;

-- lock_tenant --
-- Read one tenant and keep others from changing it until the transaction ends.
SELECT tenant_id, organization_id, display_name, slug, metadata, revision, create_time, update_time
FROM tenancy.tenants
WHERE tenant_id = :tenant_id AND is_active
FOR NO KEY UPDATE;

-- update_tenant --
-- Change a tenant that the transaction has locked.
UPDATE tenancy.tenants
SET display_name = :display_name, slug = :slug, metadata = :metadata::jsonb, revision = revision + 1,
    update_time = :update_time
WHERE tenant_id = :tenant_id
RETURNING tenant_id, organization_id, display_name, slug, metadata, revision, create_time, update_time;
