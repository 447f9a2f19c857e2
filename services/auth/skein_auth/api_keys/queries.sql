-- create_api_key --
-- Insert a key of a tenant.
INSERT INTO auth.api_keys
    (tenant_id, api_key_id, display_name, permissions, agent_id, secret_hash, create_time, expire_time, created_by,
     service_account_id, grant_ids)
VALUES
    (:tenant_id, :api_key_id, :display_name, :permissions, :agent_id, :secret_hash, :create_time, :expire_time,
     :created_by, :service_account_id, :grant_ids)
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids;

-- find_api_key --
-- Read what a presented key of a tenant is checked against, with the limits of its service account. The key of a deleted
-- agent counts as disabled. `grant_ids` created the key or its service account; `live_roles` has one role for each of them
-- that has not ended.
SELECT k.secret_hash, k.permissions, k.agent_id, k.expire_time, k.revoke_time, k.use_time, k.service_account_id,
    k.replaced_by, s.permissions AS service_permissions, s.agent_id AS service_agent_id, made.by AS grant_ids,
    CASE WHEN made.by = '{}' THEN '{}'::text[] ELSE ARRAY(
        SELECT live.role FROM auth.live_grants AS live
        WHERE live.tenant_id = :tenant_id AND live.grant_id = ANY (made.by) AND live.expire_time > :at) END AS live_roles,
    coalesce(s.disabled, false) OR EXISTS (
        SELECT FROM tenancy.agents AS gone
        WHERE gone.tenant_id = :tenant_id AND gone.agent_id IN (k.agent_id, s.agent_id)
            AND gone.delete_time IS NOT NULL) AS disabled
FROM auth.api_keys k
LEFT JOIN auth.service_accounts s ON s.tenant_id = k.tenant_id AND s.service_account_id = k.service_account_id
CROSS JOIN LATERAL (SELECT k.grant_ids || coalesce(s.grant_ids, '{}') AS by) AS made
WHERE k.tenant_id = :tenant_id AND k.api_key_id = :api_key_id;

-- get_creator_expire_time --
-- Read when the creator of a key expires: a key of the tenant or the operator, or a grant. No row for any other.
SELECT expire_time FROM auth.api_keys WHERE tenant_id = :tenant_id AND api_key_id = :creator_id
UNION ALL
SELECT expire_time FROM auth.operator_keys WHERE api_key_id = :creator_id
UNION ALL
SELECT expire_time FROM auth.auth_sessions WHERE tenant_id = :tenant_id AND auth_session_id = :creator_id;

-- list_api_keys --
-- Read a page of the tenant's keys, newest first, revoked ones included; `before` is the last id of the page before.
SELECT api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids
FROM auth.api_keys
WHERE tenant_id = :tenant_id AND (:before::uuid IS NULL OR api_key_id < :before)
ORDER BY api_key_id DESC
LIMIT :size;

-- lock_api_key --
-- Lock one key until the transaction ends.
SELECT api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids
FROM auth.api_keys
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
FOR UPDATE;

-- revoke_api_key --
-- Revoke a key that the transaction has locked.
UPDATE auth.api_keys
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids;

-- replace_api_key --
-- Set successor and expiry of a key that the transaction has locked.
UPDATE auth.api_keys
SET replaced_by = :replaced_by, expire_time = :expire_time
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids;

-- adopt_api_key --
-- Let a key that the transaction has locked outlive the grants that created it.
UPDATE auth.api_keys
SET grant_ids = '{}'
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids;

-- revoke_api_keys_of_ended_grants --
-- Revoke the keys that ended grants created.
UPDATE auth.api_keys
SET revoke_time = :at
WHERE tenant_id = :tenant_id AND revoke_time IS NULL AND grant_ids <> '{}' AND EXISTS (
    SELECT FROM unnest(grant_ids) AS made (by)
    WHERE NOT EXISTS (
        SELECT FROM auth.live_grants AS live
        WHERE live.tenant_id = :tenant_id AND live.grant_id = made.by AND live.expire_time > :at))
RETURNING api_key_id;

-- disable_service_accounts_of_ended_grants --
-- Disable the service accounts that ended grants created.
UPDATE auth.service_accounts
SET disabled = true, revision = revision + 1, update_time = :at
WHERE tenant_id = :tenant_id AND NOT disabled AND grant_ids <> '{}' AND EXISTS (
    SELECT FROM unnest(grant_ids) AS made (by)
    WHERE NOT EXISTS (
        SELECT FROM auth.live_grants AS live
        WHERE live.tenant_id = :tenant_id AND live.grant_id = made.by AND live.expire_time > :at))
RETURNING service_account_id;

-- discount_ended_api_keys --
-- Discount the revoked and expired keys of a tenant from its quota.
UPDATE auth.api_keys
SET is_counted = false
WHERE tenant_id = :tenant_id AND is_counted AND (revoke_time IS NOT NULL OR expire_time <= :at);

-- record_api_key_uses --
-- Record when some keys of a tenant were last used.
UPDATE auth.api_keys k
SET use_time = u.use_time
FROM unnest(:api_key_ids::uuid[], :use_times::timestamptz[]) AS u (api_key_id, use_time)
WHERE k.tenant_id = :tenant_id AND k.api_key_id = u.api_key_id AND (k.use_time IS NULL OR k.use_time < u.use_time);

-- revoke_api_keys --
-- Revoke every key of a tenant.
UPDATE auth.api_keys
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND revoke_time IS NULL;

-- revoke_api_keys_of_purged_agents --
-- Revoke the keys of agents that are being purged.
UPDATE auth.api_keys
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND revoke_time IS NULL
    AND agent_id IN (SELECT gone.agent_id FROM tenancy.agents AS gone
                     WHERE gone.tenant_id = :tenant_id AND gone.purge_time IS NOT NULL)
RETURNING api_key_id;

-- disable_service_accounts_of_purged_agents --
-- Disable the service accounts of agents that are being purged.
UPDATE auth.service_accounts
SET disabled = true, revision = revision + 1, update_time = :at
WHERE tenant_id = :tenant_id AND NOT disabled
    AND agent_id IN (SELECT gone.agent_id FROM tenancy.agents AS gone
                     WHERE gone.tenant_id = :tenant_id AND gone.purge_time IS NOT NULL);

-- revoke_api_keys_of_service_account --
-- Revoke every key of a service account.
UPDATE auth.api_keys
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id AND revoke_time IS NULL;

-- detach_api_keys_of_service_account --
-- Detach the revoked keys of a service account, so that they outlive it.
UPDATE auth.api_keys
SET service_account_id = NULL
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id;

-- delete_ended_api_keys --
-- Delete some keys of a tenant that ended before a time.
DELETE FROM auth.api_keys
WHERE tenant_id = :tenant_id
  AND api_key_id IN (SELECT k.api_key_id FROM auth.api_keys k
                     WHERE k.tenant_id = :tenant_id AND coalesce(k.revoke_time, k.expire_time) < :before AND NOT k.is_counted
                     LIMIT :size);

-- create_operator_key --
-- Insert a key of the operator; no row is inserted when there is one with this id.
INSERT INTO auth.operator_keys (api_key_id, display_name, secret_hash, create_time)
VALUES (:api_key_id, :display_name, :secret_hash, :create_time)
ON CONFLICT ON CONSTRAINT operator_keys_pkey DO NOTHING;

-- find_operator_key --
-- Read what a presented key of the operator is checked against.
SELECT secret_hash, expire_time, revoke_time
FROM auth.operator_keys
WHERE api_key_id = :api_key_id;

-- list_check_keys --
-- Read the keys of check digits, the one for new keys first: the newest that every replica has read by now, or the oldest
-- of all while none is old enough.
SELECT secret
FROM auth.check_keys
ORDER BY create_time <= now() - interval '5 minutes' DESC,
         CASE WHEN create_time <= now() - interval '5 minutes' THEN create_time END DESC,
         create_time, check_key_id
LIMIT 100;

-- find_legacy_token --
-- Read the tenant of a legacy token.
SELECT legacy_tenant_id
FROM auth.legacy_tokens
WHERE secret_hash = :secret_hash;

-- delete_legacy_token --
-- Delete the legacy token of a tenant.
DELETE FROM auth.legacy_tokens
WHERE legacy_tenant_id = :tenant_id;

-- set_legacy_token --
-- Replace the legacy token of a tenant; concurrent calls are safe.
INSERT INTO auth.legacy_tokens (secret_hash, legacy_tenant_id, create_time)
VALUES (:secret_hash, :tenant_id, :create_time)
ON CONFLICT ON CONSTRAINT legacy_tokens_tenant_key DO UPDATE
SET secret_hash = excluded.secret_hash, create_time = excluded.create_time;
