-- create_api_key --
-- Keep a new key of a tenant.
INSERT INTO auth.api_keys
    (tenant_id, api_key_id, display_name, permissions, agent_id, secret_hash, create_time, expire_time, created_by)
VALUES
    (:tenant_id, :api_key_id, :display_name, :permissions, :agent_id, :secret_hash, :create_time, :expire_time,
     :created_by)
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by;

-- find_api_key --
-- Read what decides whether a presented key of a tenant is good.
SELECT secret_hash, permissions, agent_id, expire_time, revoke_time
FROM auth.api_keys
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id;

-- end_of_creator --
-- Read when the key that makes another one expires: one of the tenant's or of the operator's. No row: it is no key.
SELECT expire_time FROM auth.api_keys WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
UNION ALL
SELECT expire_time FROM auth.operator_keys WHERE api_key_id = :api_key_id;

-- list_api_keys --
-- Read a page of the tenant's keys, newest first, revoked ones included; `before` is the last one of the page before.
SELECT api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by
FROM auth.api_keys
WHERE tenant_id = :tenant_id AND (:before::uuid IS NULL OR api_key_id < :before)
ORDER BY api_key_id DESC
LIMIT :size;

-- revoke_api_key --
-- End a key; one that was revoked before keeps its time. No row comes back when the tenant has no such key.
UPDATE auth.api_keys
SET revoke_time = coalesce(revoke_time, :revoke_time)
WHERE tenant_id = :tenant_id AND api_key_id = :api_key_id
RETURNING api_key_id, display_name, permissions, agent_id, create_time, expire_time, revoke_time, created_by;
