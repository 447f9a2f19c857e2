-- find_legacy_token --
-- Read whose a legacy token is; no row: nobody's.
SELECT legacy_tenant_id
FROM auth.legacy_tokens
WHERE secret_hash = :secret_hash;

-- delete_legacy_token --
-- Remove the legacy token of a tenant.
DELETE FROM auth.legacy_tokens
WHERE legacy_tenant_id = :tenant_id;

-- create_legacy_token --
-- Give a tenant a legacy token.
INSERT INTO auth.legacy_tokens (secret_hash, legacy_tenant_id, create_time)
VALUES (:secret_hash, :tenant_id, :create_time);
