-- delete_expired_one_time_tokens --
-- Delete expired one-time tokens.
DELETE FROM auth.one_time_tokens
WHERE expire_time <= :at;

-- purge_refresh_tokens --
-- Purge some refresh tokens of a deleted tenant.
DELETE FROM auth.refresh_tokens
WHERE tenant_id = :tenant_id
  AND refresh_token_id IN (SELECT t.refresh_token_id FROM auth.refresh_tokens t WHERE t.tenant_id = :tenant_id
                           LIMIT :size);

-- purge_codes --
-- Purge some authorization codes of a deleted tenant.
DELETE FROM auth.authorization_codes
WHERE tenant_id = :tenant_id
  AND code_id IN (SELECT c.code_id FROM auth.authorization_codes c WHERE c.tenant_id = :tenant_id LIMIT :size);

-- purge_api_keys --
-- Purge some keys of a deleted tenant.
DELETE FROM auth.api_keys
WHERE tenant_id = :tenant_id
  AND api_key_id IN (SELECT k.api_key_id FROM auth.api_keys k WHERE k.tenant_id = :tenant_id LIMIT :size);

-- purge_service_accounts --
-- Purge some service accounts of a deleted tenant.
DELETE FROM auth.service_accounts
WHERE tenant_id = :tenant_id
  AND service_account_id IN (SELECT s.service_account_id FROM auth.service_accounts s WHERE s.tenant_id = :tenant_id
                             LIMIT :size);

-- purge_legacy_tokens --
-- Purge the legacy token of a deleted tenant.
DELETE FROM auth.legacy_tokens
WHERE legacy_tenant_id = :tenant_id AND :size > 0;

-- purge_audit_events --
-- Purge some events of a deleted tenant.
SELECT purged.audit_event_id
FROM (SELECT :tenant_id::uuid AS tenant_id) AS place,
    auth.purge_audit_events(place.tenant_id, :size) AS purged (audit_event_id);

-- purge_audit_checkpoints --
-- Purge some checkpoints of a deleted tenant.
SELECT purged.number
FROM (SELECT :tenant_id::uuid AS tenant_id) AS place,
    auth.purge_audit_checkpoints(place.tenant_id, :size) AS purged (number);

-- purge_usage --
-- Purge the usage counts of a deleted tenant: a few rows.
DELETE FROM auth.usage
WHERE tenant_id = :tenant_id AND :size > 0;

-- purge_requests --
-- Purge some saved responses of a deleted tenant.
DELETE FROM auth.requests
USING (
    SELECT r.principal, r.method, r.request_id FROM auth.requests r WHERE r.tenant_id = :tenant_id LIMIT :size
) AS picked
WHERE requests.tenant_id = :tenant_id
  AND requests.principal = picked.principal AND requests.method = picked.method
  AND requests.request_id = picked.request_id;

-- revoke_client --
-- Revoke all present grants of a client.
UPDATE auth.clients
SET revoke_time = :at
WHERE client_id = :client_id;

-- list_expiry_tenants --
-- Read tenants, after one, with expired rows or with keys that ended.
SELECT due.tenant_id
FROM auth.list_expiry_tenants(
    :at, :requested_before, :revoked_before, :audited_before, :canary_audited_before, :canary_tenant_ids, :after, :size
) AS due (tenant_id);
