-- What an application's grant made ends with the grant; clients that nobody uses go, and are few per source.

-- The grants that made a row, itself or through a key that they made; the row ends when one of them does. No foreign key:
-- a grant that is gone has ended, and the row stays for those who read what there was.
ALTER TABLE auth.api_keys ADD COLUMN grant_ids uuid[] NOT NULL DEFAULT '{}'
    CONSTRAINT api_keys_grant_ids_known CHECK (array_position(grant_ids, NULL) IS NULL);
ALTER TABLE auth.service_accounts ADD COLUMN grant_ids uuid[] NOT NULL DEFAULT '{}'
    CONSTRAINT service_accounts_grant_ids_known CHECK (array_position(grant_ids, NULL) IS NULL);
ALTER TABLE tenancy.invitations ADD COLUMN grant_ids uuid[] NOT NULL DEFAULT '{}'
    CONSTRAINT invitations_grant_ids_known CHECK (array_position(grant_ids, NULL) IS NULL);
ALTER TABLE memory.webhooks ADD COLUMN grant_ids uuid[] NOT NULL DEFAULT '{}'
    CONSTRAINT webhooks_grant_ids_known CHECK (array_position(grant_ids, NULL) IS NULL);
CREATE INDEX api_keys_of_grants ON auth.api_keys (tenant_id) WHERE grant_ids <> '{}' AND revoke_time IS NULL;
CREATE INDEX service_accounts_of_grants ON auth.service_accounts (tenant_id) WHERE grant_ids <> '{}' AND NOT disabled;
CREATE INDEX webhooks_of_grants ON memory.webhooks (tenant_id) WHERE grant_ids <> '{}' AND is_active;

-- Grants of applications that are not revoked, with the role that their account has now; those whose account left the
-- tenant, or is deactivated, are not there. Readers compare expire_time with their clock. Row-level security is the
-- reader's.
CREATE VIEW auth.live_grants WITH (security_invoker = true) AS
SELECT s.tenant_id, s.auth_session_id AS grant_id, s.expire_time, m.role
FROM auth.auth_sessions AS s
JOIN auth.clients AS c ON c.client_id = s.client_id
JOIN auth.accounts AS a ON a.account_id = s.account_id
JOIN tenancy.memberships AS m ON m.tenant_id = s.tenant_id AND m.account_id = s.account_id
WHERE s.revoke_time IS NULL AND (c.revoke_time IS NULL OR c.revoke_time < s.create_time) AND a.status = 'active';
GRANT USAGE ON SCHEMA auth TO skein_memory;
GRANT SELECT ON auth.live_grants TO skein_auth, skein_tenancy, skein_memory;
GRANT SELECT (tenant_id, auth_session_id, account_id, client_id, create_time, expire_time, revoke_time) ON auth.auth_sessions
    TO skein_tenancy, skein_memory;
GRANT SELECT (client_id, revoke_time) ON auth.clients TO skein_tenancy, skein_memory;
GRANT SELECT (account_id, status) ON auth.accounts TO skein_tenancy, skein_memory;
GRANT SELECT (tenant_id, account_id, role) ON tenancy.memberships TO skein_auth, skein_memory;

ALTER TABLE auth.clients
    -- SHA-256 of the address, of IPv6 the /64, that it was registered from; NULL when the operator imported it.
    ADD COLUMN source_hash bytea
        CONSTRAINT clients_source_hash_length CHECK (octet_length(source_hash) = 32),
    -- No grant of it lives longer, to the day; NULL: it was never granted anything.
    ADD COLUMN grant_expire_time timestamptz;
CREATE INDEX clients_never_granted_of_source ON auth.clients (source_hash, create_time) WHERE grant_expire_time IS NULL;
CREATE INDEX clients_never_granted ON auth.clients (create_time)
    WHERE source_hash IS NOT NULL AND grant_expire_time IS NULL;
CREATE INDEX clients_idle_since ON auth.clients ((coalesce(grant_expire_time, create_time)));
-- Clients from before this migration are idle from now on, or from the end of their last grant on. Tenant by tenant, as
-- row-level security binds the owner too.
UPDATE auth.clients SET grant_expire_time = now();
DO $$
DECLARE
    tenant uuid;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN
        SELECT tenant_id FROM tenancy.tenants UNION ALL SELECT '00000000-0000-0000-0000-000000000000'
    LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        UPDATE auth.clients AS c
        SET grant_expire_time = greatest(c.grant_expire_time, granted.expire_time)
        FROM (
            SELECT s.client_id, max(s.expire_time) AS expire_time
            FROM auth.auth_sessions AS s
            WHERE s.tenant_id = tenant AND s.client_id IS NOT NULL
            GROUP BY s.client_id
        ) AS granted
        WHERE c.client_id = granted.client_id;
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;
