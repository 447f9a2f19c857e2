-- find_legacy_token --
-- Read whose a legacy token is; no row: nobody's.
SELECT legacy_tenant_id
FROM auth.legacy_tokens
WHERE secret_hash = :secret_hash;

-- delete_legacy_token --
-- Remove the legacy token of a tenant.
DELETE FROM auth.legacy_tokens
WHERE legacy_tenant_id = :tenant_id;

-- set_legacy_token --
-- Give a tenant a legacy token in place of the one it had, also while another call does the same.
INSERT INTO auth.legacy_tokens (secret_hash, legacy_tenant_id, create_time)
VALUES (:secret_hash, :tenant_id, :create_time)
ON CONFLICT ON CONSTRAINT legacy_tokens_tenant_key DO UPDATE
SET secret_hash = excluded.secret_hash, create_time = excluded.create_time;
