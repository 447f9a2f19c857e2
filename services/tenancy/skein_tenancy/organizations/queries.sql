-- create_organization --
-- Create an organization; no row comes back when another one has the slug.
INSERT INTO tenancy.organizations (organization_id, display_name, slug, metadata, create_time, update_time)
VALUES (:organization_id, :display_name, :slug, :metadata::jsonb, :create_time, :create_time)
ON CONFLICT (slug) WHERE is_active DO NOTHING
RETURNING organization_id, display_name, slug, metadata, revision, create_time, update_time;

-- get_organization --
-- Read one organization that is not deleted.
SELECT organization_id, display_name, slug, metadata, revision, create_time, update_time
FROM tenancy.organizations
WHERE organization_id = :organization_id AND is_active;

-- list_organizations --
-- Read a page of the organizations but the canary's, newest first; `before` is the last one of the page before.
SELECT organization_id, display_name, slug, metadata, revision, create_time, update_time
FROM tenancy.organizations
WHERE is_active AND organization_id <> :canary_organization_id AND (:before::uuid IS NULL OR organization_id < :before)
ORDER BY organization_id DESC
LIMIT :size;

-- lock_organization --
-- Read one organization and keep others from changing it, and from creating tenants in it, until the transaction ends.
SELECT organization_id, display_name, slug, metadata, revision, create_time, update_time
FROM tenancy.organizations
WHERE organization_id = :organization_id AND is_active
FOR NO KEY UPDATE;

-- share_organization --
-- Keep one organization from being deleted until the transaction ends; the oldest but the canary's when none is named,
-- by id or by slug.
SELECT organization_id
FROM tenancy.organizations
WHERE is_active
  AND (:organization_id::uuid IS NULL OR organization_id = :organization_id)
  AND (:slug::text = '' OR slug = :slug)
  AND (organization_id <> :canary_organization_id OR organization_id = :organization_id OR slug = :slug)
ORDER BY organization_id
LIMIT 1
FOR SHARE;

-- update_organization --
-- Change an organization that the transaction has locked.
UPDATE tenancy.organizations
SET display_name = :display_name, slug = :slug, metadata = :metadata::jsonb, revision = revision + 1,
    update_time = :update_time
WHERE organization_id = :organization_id
RETURNING organization_id, display_name, slug, metadata, revision, create_time, update_time;

-- organization_has_tenants --
-- Return whether an organization has a tenant that is not deleted.
SELECT EXISTS (SELECT tenant_id FROM tenancy.tenants WHERE organization_id = :organization_id AND is_active);

-- delete_organization --
-- Mark an organization that the transaction has locked as deleted.
UPDATE tenancy.organizations
SET is_active = false, delete_time = :update_time, revision = revision + 1, update_time = :update_time
WHERE organization_id = :organization_id;
