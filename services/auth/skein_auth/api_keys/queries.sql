-- create_api_key --
-- Keep a new key of a tenant.
INSERT INTO auth.api_keys
    (tenant_id, api_key_id, display_name, permissions, agent_id, secret_hash, create_time, expire_time, created_by,
     service_account_id, grant_ids)
VALUES
    (:tenant_id, :api_key_id, :display_name, :permissions, :agent_id, :secret_hash, :create_time, :expire_time,
     :created_by, :service_account_id, :grant_ids)
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids;

-- find_api_key --
-- Read what decides whether a presented key of a tenant is good, and what its service account leaves of it. A key that is
-- bound to a deleted agent is as good as a disabled one. `grant_ids` made the key or its service account; `live_roles`
-- holds one role for each of them that has not ended.
SELECT k.secret_hash, k.permissions, k.agent_id, k.expire_time, k.revoke_time, k.use_time, k.service_account_id,
    k.replaced_by, s.permissions AS most, s.agent_id AS service_agent_id, made.by AS grant_ids,
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

-- end_of_creator --
-- Read when the key that makes another one expires: one of the tenant's or of the operator's, or what an application was
-- let into. No row: it is neither.
SELECT expire_time FROM auth.api_keys WHERE tenant_id = :tenant_id AND api_key_id = :creator_id
UNION ALL
SELECT expire_time FROM auth.operator_keys WHERE api_key_id = :creator_id
UNION ALL
SELECT expire_time FROM auth.sign_ins WHERE tenant_id = :tenant_id AND sign_in_id = :creator_id;

-- list_api_keys --
-- Read a page of the tenant's keys, newest first, revoked ones included; `before` is the last one of the page before.
SELECT api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids
FROM auth.api_keys
WHERE tenant_id = :tenant_id AND (:before::uuid IS NULL OR api_key_id < :before)
ORDER BY api_key_id DESC
LIMIT :size;

-- lock_api_key --
-- Read one key and keep others from changing it until the transaction ends.
SELECT api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids
FROM auth.api_keys
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
FOR UPDATE;

-- revoke_api_key --
-- End a key that the transaction has locked.
UPDATE auth.api_keys
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids;

-- replace_api_key --
-- Give a key that the transaction has locked a successor, and an end.
UPDATE auth.api_keys
SET replaced_by = :replaced_by, expire_time = :expire_time
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids;

-- adopt_api_key --
-- Let a key that the transaction has locked outlive the grants that made it.
UPDATE auth.api_keys
SET grant_ids = '{}'
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by,
    service_account_id, use_time, replaced_by, grant_ids;

-- revoke_api_keys_of_ended_grants --
-- End the keys that a grant made which has ended.
UPDATE auth.api_keys
SET revoke_time = :at
WHERE tenant_id = :tenant_id AND revoke_time IS NULL AND grant_ids <> '{}' AND EXISTS (
    SELECT FROM unnest(grant_ids) AS made (by)
    WHERE NOT EXISTS (
        SELECT FROM auth.live_grants AS live
        WHERE live.tenant_id = :tenant_id AND live.grant_id = made.by AND live.expire_time > :at))
RETURNING api_key_id;

-- disable_service_accounts_of_ended_grants --
-- Disable the service accounts that a grant made which has ended.
UPDATE auth.service_accounts
SET disabled = true, revision = revision + 1, update_time = :at
WHERE tenant_id = :tenant_id AND NOT disabled AND grant_ids <> '{}' AND EXISTS (
    SELECT FROM unnest(grant_ids) AS made (by)
    WHERE NOT EXISTS (
        SELECT FROM auth.live_grants AS live
        WHERE live.tenant_id = :tenant_id AND live.grant_id = made.by AND live.expire_time > :at))
RETURNING service_account_id;

-- count_out_api_keys --
-- Take the keys of a tenant that are over out of those that are counted.
UPDATE auth.api_keys
SET counted = false
WHERE tenant_id = :tenant_id AND counted AND (revoke_time IS NOT NULL OR expire_time <= :at);

-- record_api_key_uses --
-- Write when some keys of a tenant were last used.
UPDATE auth.api_keys k
SET use_time = u.use_time
FROM unnest(:api_key_ids::uuid[], :use_times::timestamptz[]) AS u (api_key_id, use_time)
WHERE k.tenant_id = :tenant_id AND k.api_key_id = u.api_key_id AND (k.use_time IS NULL OR k.use_time < u.use_time);

-- revoke_api_keys --
-- End every key of a tenant that is not over.
UPDATE auth.api_keys
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND revoke_time IS NULL;

-- revoke_api_keys_of_purged_agents --
-- End the keys that are bound to agents which are being purged.
UPDATE auth.api_keys
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND revoke_time IS NULL
    AND agent_id IN (SELECT gone.agent_id FROM tenancy.agents AS gone
                     WHERE gone.tenant_id = :tenant_id AND gone.purge_time IS NOT NULL)
RETURNING api_key_id;

-- disable_service_accounts_of_purged_agents --
-- Disable the service accounts that are bound to agents which are being purged.
UPDATE auth.service_accounts
SET disabled = true, revision = revision + 1, update_time = :at
WHERE tenant_id = :tenant_id AND NOT disabled
    AND agent_id IN (SELECT gone.agent_id FROM tenancy.agents AS gone
                     WHERE gone.tenant_id = :tenant_id AND gone.purge_time IS NOT NULL);

-- revoke_api_keys_of_service_account --
-- End every key of a service account that is not over.
UPDATE auth.api_keys
SET revoke_time = :revoke_time
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id AND revoke_time IS NULL;

-- free_api_keys_of_service_account --
-- Let the ended keys of a service account outlive it.
UPDATE auth.api_keys
SET service_account_id = NULL
WHERE tenant_id = :tenant_id AND service_account_id = :service_account_id;

-- delete_over_api_keys --
-- Remove some keys of a tenant that were over before a time.
DELETE FROM auth.api_keys
WHERE tenant_id = :tenant_id
  AND api_key_id IN (SELECT k.api_key_id FROM auth.api_keys k
                     WHERE k.tenant_id = :tenant_id AND coalesce(k.revoke_time, k.expire_time) < :before AND NOT k.counted
                     LIMIT :size);
