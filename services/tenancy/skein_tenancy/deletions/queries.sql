-- create_deletion --
-- Record the deletion of a tenant, and when its purge begins.
INSERT INTO tenancy.deletions
    (tenant_id, deletion_id, organization_id, state, create_time, purge_time, created_by)
VALUES (:tenant_id, :deletion_id, :organization_id, 'grace', :create_time, :purge_time, :created_by)
RETURNING tenant_id, deletion_id, organization_id, state, stage, deleted_counts, create_time, purge_time, finish_time,
    created_by, is_certified;

-- get_deletion --
-- Read the last deletion of a tenant.
SELECT tenant_id, deletion_id, organization_id, state, stage, deleted_counts, create_time, purge_time, finish_time,
    created_by, is_certified
FROM tenancy.deletions
WHERE tenant_id = :tenant_id
ORDER BY deletion_id DESC
LIMIT 1;

-- lock_deletion --
-- Read the last deletion of a tenant and keep others from changing it until the transaction ends.
SELECT tenant_id, deletion_id, organization_id, state, stage, deleted_counts, create_time, purge_time, finish_time,
    created_by, is_certified
FROM tenancy.deletions
WHERE tenant_id = :tenant_id
ORDER BY deletion_id DESC
LIMIT 1
FOR UPDATE;

-- list_deletions --
-- Read a page of the deletions of all tenants, newest first; `before` is the last one of the page before.
SELECT tenant_id, deletion_id, organization_id, state, stage, deleted_counts, create_time, purge_time, finish_time,
    created_by, is_certified
FROM tenancy.deletions
WHERE :before::uuid IS NULL OR deletion_id < :before
ORDER BY deletion_id DESC
LIMIT :size;

-- list_due_deletions --
-- Read a page of the deletions whose grace is over and that are not certified, the oldest first; `after_time` and
-- `after_id` are those of the last one of the page before.
SELECT tenant_id, deletion_id, organization_id, state, stage, deleted_counts, create_time, purge_time, finish_time,
    created_by, is_certified
FROM tenancy.deletions
WHERE state <> 'cancelled' AND NOT is_certified AND purge_time <= :at
  AND (:after_time::timestamptz IS NULL OR (purge_time, deletion_id) > (:after_time, :after_id::uuid))
ORDER BY purge_time, deletion_id
LIMIT :size;

-- list_organization_deletions --
-- Read the unfinished deletions of an organization's tenants.
SELECT tenant_id, deletion_id, organization_id, state, stage, deleted_counts, create_time, purge_time, finish_time,
    created_by, is_certified
FROM tenancy.deletions
WHERE organization_id = :organization_id AND state IN ('grace', 'purging')
ORDER BY deletion_id;

-- update_deletion --
-- Change the progress of a deletion that the transaction has locked.
UPDATE tenancy.deletions
SET state = :state, stage = :stage, deleted_counts = :deleted_counts::jsonb, finish_time = :finish_time,
    is_certified = :is_certified
WHERE tenant_id = :tenant_id AND deletion_id = :deletion_id
RETURNING tenant_id, deletion_id, organization_id, state, stage, deleted_counts, create_time, purge_time, finish_time,
    created_by, is_certified;

-- delete_tenant --
-- Mark a tenant as deleted; no row comes back when it is already.
UPDATE tenancy.tenants
SET is_active = false, purge_time = :purge_time, revision = revision + 1, update_time = :update_time
WHERE tenant_id = :tenant_id AND is_active
RETURNING tenant_id, organization_id;

-- delete_tenants --
-- Mark up to `count` of an organization's tenants as deleted.
UPDATE tenancy.tenants
SET is_active = false, purge_time = :purge_time, revision = revision + 1, update_time = :update_time
WHERE organization_id = :organization_id AND tenant_id = ANY (ARRAY(
    SELECT tenant_id FROM tenancy.tenants
    WHERE organization_id = :organization_id AND is_active
    ORDER BY tenant_id
    LIMIT :count))
RETURNING tenant_id, organization_id;

-- undelete_tenant --
-- Bring a deleted tenant back.
UPDATE tenancy.tenants
SET is_active = true, purge_time = NULL, revision = revision + 1, update_time = :update_time
WHERE tenant_id = :tenant_id AND NOT is_active;

-- undelete_organization --
-- Bring the organization of an undeleted tenant back, if it is deleted.
UPDATE tenancy.organizations
SET is_active = true, delete_time = NULL, revision = revision + 1, update_time = :update_time
WHERE organization_id = :organization_id AND NOT is_active;

-- purge_tenant_row --
-- Purge the row of a deleted tenant; no other row refers to it by now.
DELETE FROM tenancy.tenants
WHERE tenant_id = :tenant_id AND NOT is_active;

-- lock_organization_any --
-- Lock an organization, deleted or not, until the transaction ends.
SELECT organization_id
FROM tenancy.organizations
WHERE organization_id = :organization_id
FOR UPDATE;

-- purge_organization_row --
-- Purge the row of a deleted organization that has no tenant left.
DELETE FROM tenancy.organizations
WHERE organization_id = :organization_id AND delete_time IS NOT NULL
  AND NOT EXISTS (SELECT tenant_id FROM tenancy.tenants WHERE organization_id = :organization_id);
