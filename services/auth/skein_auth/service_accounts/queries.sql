-- create_service_account --
-- Insert a service account.
INSERT INTO auth.service_accounts
    (tenant_id, service_account_id, display_name, permissions, agent_id, disabled, create_time, update_time, created_by,
     grant_ids)
VALUES
    (:tenant_id, :service_account_id, :display_name, :permissions, :agent_id, :disabled, :create_time, :create_time,
     :created_by, :grant_ids)
RETURNING service_account_id, display_name, permissions, agent_id, disabled, revision, create_time, update_time,
    created_by, grant_ids;

-- get_service_account --
-- Read one service account.
SELECT service_account_id, display_name, permissions, agent_id, disabled, revision, create_time, update_time, created_by,
    grant_ids
FROM auth.service_accounts
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id;

-- lock_service_account_for_share --
-- Read the limits of a service account's keys, and lock the account against deletion until the transaction ends.
SELECT permissions, agent_id
FROM auth.service_accounts
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id
FOR KEY SHARE;

-- list_service_accounts --
-- Read a page of the tenant's service accounts, newest first; `before` is the last id of the page before.
SELECT service_account_id, display_name, permissions, agent_id, disabled, revision, create_time, update_time, created_by,
    grant_ids
FROM auth.service_accounts
WHERE tenant_id = :tenant_id AND (:before::uuid IS NULL OR service_account_id < :before)
ORDER BY service_account_id DESC
LIMIT :size;

-- lock_service_account --
-- Lock one service account against changes and new keys until the transaction ends.
SELECT service_account_id, display_name, permissions, agent_id, disabled, revision, create_time, update_time, created_by,
    grant_ids
FROM auth.service_accounts
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id
FOR UPDATE;

-- update_service_account --
-- Update a service account that the transaction has locked.
UPDATE auth.service_accounts
SET display_name = :display_name, permissions = :permissions, agent_id = :agent_id, disabled = :disabled,
    revision = revision + 1, update_time = :update_time
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id
RETURNING service_account_id, display_name, permissions, agent_id, disabled, revision, create_time, update_time,
    created_by, grant_ids;

-- adopt_service_account --
-- Let a service account that the transaction has locked outlive the grants that created it.
UPDATE auth.service_accounts
SET grant_ids = '{}', revision = revision + 1, update_time = :update_time
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id
RETURNING service_account_id, display_name, permissions, agent_id, disabled, revision, create_time, update_time,
    created_by, grant_ids;

-- disable_service_accounts --
-- Disable every service account of a tenant.
UPDATE auth.service_accounts
SET disabled = true, revision = revision + 1, update_time = :update_time
WHERE tenant_id = :tenant_id AND NOT disabled;

-- delete_service_account --
-- Delete a service account that the transaction has locked.
DELETE FROM auth.service_accounts
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id;
