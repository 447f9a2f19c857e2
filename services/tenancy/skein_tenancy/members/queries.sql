-- get_membership --
-- Return whether a tenant is open, and an account's role in it; no row comes back when there is no such tenant.
SELECT tenants.is_active, memberships.role,
    EXISTS (SELECT FROM tenancy.spaces WHERE spaces.tenant_id = :tenant_id AND spaces.open_time IS NOT NULL) AS has_spaces
FROM tenancy.tenants
LEFT JOIN tenancy.memberships
    ON memberships.tenant_id = :tenant_id AND memberships.account_id = :account_id
WHERE tenants.tenant_id = :tenant_id;

-- get_tenant_state --
-- Return whether a tenant is open; no row comes back when there is no such tenant.
SELECT is_active,
    EXISTS (SELECT FROM tenancy.spaces WHERE spaces.tenant_id = :tenant_id AND spaces.open_time IS NOT NULL) AS has_spaces
FROM tenancy.tenants
WHERE tenant_id = :tenant_id;

-- create_member --
-- Add an account as a member; no row comes back when it is one already.
INSERT INTO tenancy.memberships
    (tenant_id, account_id, role, email, display_name, create_time, update_time, created_by)
VALUES (:tenant_id, :account_id, :role, :email, :display_name, :create_time, :create_time, :created_by)
ON CONFLICT ON CONSTRAINT memberships_pkey DO NOTHING
RETURNING account_id, role, email, display_name, revision, create_time, update_time, created_by;

-- get_member --
-- Read one membership.
SELECT account_id, role, email, display_name, revision, create_time, update_time, created_by
FROM tenancy.memberships
WHERE tenant_id = :tenant_id AND account_id = :account_id;

-- list_members --
-- Read a page of the tenant's members in order of joining; `after_time` and `after_id` name the last one of the page
-- before.
SELECT account_id, role, email, display_name, revision, create_time, update_time, created_by
FROM tenancy.memberships
WHERE tenant_id = :tenant_id
  AND (:after_time::timestamptz IS NULL
       OR create_time > :after_time
       OR (create_time = :after_time AND account_id > :after_id::uuid))
ORDER BY create_time, account_id
LIMIT :size;

-- lock_members --
-- Read some members and every owner of the tenant, and keep others from changing them until the transaction ends: of
-- two owners who leave at once, the second sees that the first is gone. All lock in one order, so none deadlock.
SELECT account_id, role, revision
FROM tenancy.memberships
WHERE tenant_id = :tenant_id AND (role = 'owner' OR account_id = ANY (:account_ids::uuid[]))
ORDER BY account_id
FOR UPDATE;

-- update_member --
-- Change the role of a member that the transaction has locked.
UPDATE tenancy.memberships
SET role = :role, revision = revision + 1, update_time = :update_time
WHERE tenant_id = :tenant_id AND account_id = :account_id
RETURNING account_id, role, email, display_name, revision, create_time, update_time, created_by;

-- delete_member --
-- End a membership; no row is updated when there is none.
DELETE FROM tenancy.memberships
WHERE tenant_id = :tenant_id AND account_id = :account_id;

-- list_memberships --
-- Read every tenant that an account is a member of; seen by the account's own transactions.
SELECT tenant_id, role
FROM tenancy.memberships
WHERE account_id = :account_id
ORDER BY tenant_id;

-- count_owned_tenants --
-- Count the tenants that an account owns; seen by the account's own transactions.
SELECT count(tenant_id)
FROM tenancy.memberships
WHERE account_id = :account_id AND role = 'owner';

-- revoke_invitations_of_member --
-- Revoke the open invitations that a principal made to other roles than these.
UPDATE tenancy.invitations
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND created_by = :created_by AND use_time IS NULL AND revoke_time IS NULL
  AND expire_time > :revoke_time AND role <> ALL (:roles::text[]);
