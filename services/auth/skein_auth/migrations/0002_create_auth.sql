-- Auth: accounts, credentials, auth sessions, OAuth clients, signing keys and audit events.
-- 0001_create_tenancy.sql explains row-level security.

CREATE SCHEMA auth;
GRANT USAGE ON SCHEMA auth TO skein_auth;
GRANT USAGE ON SCHEMA auth TO skein_tenancy, skein_recall;
GRANT USAGE ON SCHEMA auth TO skein_memory;

-- Accounts belong to no tenant: the memberships of tenancy name their tenants.
CREATE TABLE auth.accounts (
    account_id uuid CONSTRAINT accounts_pkey PRIMARY KEY,
    email text CONSTRAINT accounts_email_key UNIQUE
        CONSTRAINT accounts_email_lower CHECK (email = lower(email) AND char_length(email) BETWEEN 3 AND 254),
    -- Replaces email once it is verified.
    new_email text CONSTRAINT accounts_new_email_lower CHECK (new_email = lower(new_email)),
    email_verify_time timestamptz,
    -- An argon2 hash; "pbkdf2_sha256$..." until the first login of an imported account.
    password_hash text,
    display_name text NOT NULL,
    status text NOT NULL CONSTRAINT accounts_status_known CHECK (status IN ('active', 'deactivated')),
    -- Encrypted under the system key. Valid once totp_confirm_time is set.
    encrypted_totp_secret bytea,
    totp_confirm_time timestamptz,
    -- The last time step with an accepted code, so that no code works twice.
    totp_step bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    -- A known device shows a signed token that names this generation. It grows when all auth sessions of the account
    -- end, as after a change of the password. Devices of earlier generations are unknown.
    device_generation bigint NOT NULL DEFAULT 1
);
GRANT SELECT (account_id, status) ON auth.accounts TO skein_tenancy, skein_memory;

CREATE TABLE auth.recovery_codes (
    account_id uuid NOT NULL
        CONSTRAINT recovery_codes_account_fkey REFERENCES auth.accounts (account_id) ON DELETE CASCADE,
    code_hash bytea NOT NULL CONSTRAINT recovery_codes_hash_length CHECK (octet_length(code_hash) = 32),
    use_time timestamptz,
    CONSTRAINT recovery_codes_pkey PRIMARY KEY (account_id, code_hash)
);

-- Identities at providers that log in to an account.
CREATE TABLE auth.identities (
    identity_id uuid CONSTRAINT identities_pkey PRIMARY KEY,
    account_id uuid NOT NULL
        CONSTRAINT identities_account_fkey REFERENCES auth.accounts (account_id) ON DELETE CASCADE,
    provider text NOT NULL,
    subject text NOT NULL,
    login text NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT identities_subject_key UNIQUE (provider, subject)
);
CREATE INDEX identities_account ON auth.identities (account_id);

CREATE TABLE auth.one_time_tokens (
    token_id uuid CONSTRAINT one_time_tokens_pkey PRIMARY KEY,
    account_id uuid NOT NULL
        CONSTRAINT one_time_tokens_account_fkey REFERENCES auth.accounts (account_id) ON DELETE CASCADE,
    purpose text NOT NULL
        CONSTRAINT one_time_tokens_purpose_known CHECK (purpose IN ('email_verification', 'password_reset')),
    secret_hash bytea NOT NULL CONSTRAINT one_time_tokens_hash_length CHECK (octet_length(secret_hash) = 32),
    -- The address of the account at creation. The token is invalid once the account has another address.
    email text NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    use_time timestamptz
);
CREATE INDEX one_time_tokens_account ON auth.one_time_tokens (account_id);
CREATE INDEX one_time_tokens_expire_time ON auth.one_time_tokens (expire_time);

-- Attempts by account, client and address, and calls without a credential that are limited. Subjects are hashed.
CREATE TABLE auth.attempts (
    kind text NOT NULL,
    subject_hash bytea NOT NULL CONSTRAINT attempts_subject_hash_length CHECK (octet_length(subject_hash) = 32),
    -- End of the counted window.
    expire_time timestamptz NOT NULL,
    -- Failed and pending attempts.
    count integer NOT NULL,
    -- Attempts whose outcome is not known yet.
    pending integer NOT NULL,
    CONSTRAINT attempts_pkey PRIMARY KEY (kind, subject_hash)
);
CREATE INDEX attempts_expire_time ON auth.attempts (expire_time);

CREATE TABLE auth.service_accounts (
    tenant_id uuid NOT NULL
        CONSTRAINT service_accounts_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    service_account_id uuid NOT NULL,
    display_name text NOT NULL,
    permissions text[] NOT NULL,
    agent_id text,
    disabled boolean NOT NULL DEFAULT false,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    grant_ids uuid[] NOT NULL DEFAULT '{}'
        CONSTRAINT service_accounts_grant_ids_known CHECK (array_position(grant_ids, NULL) IS NULL),
    CONSTRAINT service_accounts_pkey PRIMARY KEY (tenant_id, service_account_id)
);
CREATE INDEX service_accounts_of_grants ON auth.service_accounts (tenant_id) WHERE grant_ids <> '{}' AND NOT disabled;
ALTER TABLE auth.service_accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.service_accounts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.service_accounts
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT (tenant_id, agent_id, disabled) ON auth.service_accounts TO skein_tenancy;

-- API keys. A secret is random, so its SHA-256 is enough.
CREATE TABLE auth.api_keys (
    tenant_id uuid NOT NULL
        CONSTRAINT api_keys_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    api_key_id uuid NOT NULL,
    display_name text NOT NULL,
    permissions text[] NOT NULL,
    agent_id text,
    secret_hash bytea NOT NULL CONSTRAINT api_keys_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    create_time timestamptz NOT NULL,
    expire_time timestamptz,
    revoke_time timestamptz,
    created_by text NOT NULL,
    service_account_id uuid,
    -- Rounded to the minute.
    use_time timestamptz,
    replaced_by uuid,
    -- Whether auth.usage includes the key. It does until its end was noticed.
    is_counted boolean NOT NULL DEFAULT true,
    -- The grants under which the row was created, directly or by a key of theirs. The row ends when one of them ends.
    -- No foreign key: a missing grant has ended, and the row stays for audits.
    grant_ids uuid[] NOT NULL DEFAULT '{}'
        CONSTRAINT api_keys_grant_ids_known CHECK (array_position(grant_ids, NULL) IS NULL),
    CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, api_key_id),
    CONSTRAINT api_keys_service_account_fkey FOREIGN KEY (tenant_id, service_account_id)
            REFERENCES auth.service_accounts (tenant_id, service_account_id) ON DELETE CASCADE
);
CREATE INDEX api_keys_service_account ON auth.api_keys (tenant_id, service_account_id)
    WHERE service_account_id IS NOT NULL;
CREATE INDEX api_keys_of_grants ON auth.api_keys (tenant_id) WHERE grant_ids <> '{}' AND revoke_time IS NULL;

-- Keys that end, or have ended, and that the tenant's usage includes.
CREATE INDEX api_keys_ending ON auth.api_keys (tenant_id, expire_time)
    WHERE is_counted AND (revoke_time IS NOT NULL OR expire_time IS NOT NULL);
ALTER TABLE auth.api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.api_keys
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT (tenant_id, agent_id, revoke_time) ON auth.api_keys TO skein_tenancy;

-- Keys of operators belong to no tenant.
CREATE TABLE auth.operator_keys (
    api_key_id uuid CONSTRAINT operator_keys_pkey PRIMARY KEY,
    display_name text NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT operator_keys_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    create_time timestamptz NOT NULL,
    expire_time timestamptz,
    revoke_time timestamptz
);

-- The bearer token that callers of an earlier system share. It is not a tenant's table, because the token alone names
-- the tenant.
CREATE TABLE auth.legacy_tokens (
    secret_hash bytea CONSTRAINT legacy_tokens_pkey PRIMARY KEY
        CONSTRAINT legacy_tokens_hash_length CHECK (octet_length(secret_hash) = 32),
    -- No foreign key: the purge of a tenant deletes its token. On Citus, a key between tables that have a copy on every
    -- machine needs rights to write both.
    legacy_tenant_id uuid NOT NULL CONSTRAINT legacy_tokens_tenant_key UNIQUE,
    create_time timestamptz NOT NULL
);

-- Keys of the MAC in API keys, so that forged keys are refused without the database.
CREATE TABLE auth.check_keys (
    check_key_id uuid DEFAULT gen_random_uuid() CONSTRAINT check_keys_pkey PRIMARY KEY,
    -- Two random UUIDs hold 244 random bits.
    secret bytea NOT NULL DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
        CONSTRAINT check_keys_secret_length CHECK (octet_length(secret) = 32),
    create_time timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON auth.check_keys TO skein_auth;

-- Keys that sign tokens. The newest key signs; the others verify until expire_time.
CREATE TABLE auth.signing_keys (
    key_id text CONSTRAINT signing_keys_pkey PRIMARY KEY,
    public_jwk text NOT NULL,
    -- Encrypted under the system key.
    encrypted_private_jwk bytea NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz,
    -- One key of each purpose signs: identity tokens inside the cluster, access tokens for other systems, and
    -- certificates of erasures with receipts and checkpoints of audit events.
    purpose text NOT NULL DEFAULT 'identity'
        CONSTRAINT signing_keys_purpose_known CHECK (purpose IN ('identity', 'access', 'certificate'))
);
CREATE UNIQUE INDEX signing_keys_active_key ON auth.signing_keys (purpose) WHERE expire_time IS NULL;

-- OAuth clients. A registered client keeps its row; the row of a client-id metadata document is fetched again.
CREATE TABLE auth.clients (
    client_id text CONSTRAINT clients_pkey PRIMARY KEY,
    source text NOT NULL CONSTRAINT clients_source_known CHECK (source IN ('registered', 'document')),
    client_name text NOT NULL,
    redirect_uris text[] NOT NULL,
    grant_types text[] NOT NULL,
    response_types text[] NOT NULL,
    token_endpoint_auth_method text NOT NULL
        CONSTRAINT clients_method_known
        CHECK (token_endpoint_auth_method IN ('none', 'client_secret_basic', 'client_secret_post')),
    scope text NOT NULL,
    client_uri text NOT NULL DEFAULT '',
    logo_uri text NOT NULL DEFAULT '',
    tos_uri text NOT NULL DEFAULT '',
    policy_uri text NOT NULL DEFAULT '',
    contacts text[] NOT NULL DEFAULT '{}',
    software_id text NOT NULL DEFAULT '',
    software_version text NOT NULL DEFAULT '',
    secret_hash bytea CONSTRAINT clients_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    secret_expire_time timestamptz,
    registration_hash bytea CONSTRAINT clients_registration_hash_length CHECK (octet_length(registration_hash) = 32),
    -- When a metadata document is fetched again.
    stale_time timestamptz,
    -- All earlier grants of the client have ended. No role can update the grants of all tenants at once.
    revoke_time timestamptz,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    -- SHA-256 of the address, or the /64 of IPv6, that registered the client; NULL when an operator imported it.
    source_hash bytea
        CONSTRAINT clients_source_hash_length CHECK (octet_length(source_hash) = 32),
    -- No grant of the client ends later, to the day; NULL: it never had a grant.
    grant_expire_time timestamptz,
    CONSTRAINT clients_secret_fits_method CHECK ((token_endpoint_auth_method = 'none') = (secret_hash IS NULL))
);
CREATE INDEX clients_never_granted_of_source ON auth.clients (source_hash, create_time) WHERE grant_expire_time IS NULL;
CREATE INDEX clients_never_granted ON auth.clients (create_time)
    WHERE source_hash IS NOT NULL AND grant_expire_time IS NULL;
CREATE INDEX clients_idle_since ON auth.clients ((coalesce(grant_expire_time, create_time)));
GRANT SELECT (client_id, revoke_time) ON auth.clients TO skein_tenancy, skein_memory;

-- Auth sessions: logins of an account (under the nil tenant), or grants of an OAuth client in a tenant. They can be
-- revoked, and refresh tokens descend from them.
CREATE TABLE auth.auth_sessions (
    tenant_id uuid NOT NULL,
    auth_session_id uuid NOT NULL,
    account_id uuid NOT NULL
        CONSTRAINT auth_sessions_account_fkey REFERENCES auth.accounts (account_id) ON DELETE CASCADE,
    -- NULL: a login of the account itself.
    client_id text CONSTRAINT auth_sessions_client_fkey REFERENCES auth.clients (client_id) ON DELETE CASCADE,
    -- Granted permissions and scopes of OpenID Connect.
    scopes text[] NOT NULL,
    resources text[] NOT NULL,
    nonce text NOT NULL DEFAULT '',
    address text NOT NULL DEFAULT '',
    user_agent text NOT NULL DEFAULT '',
    -- Time of the login.
    auth_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    use_time timestamptz NOT NULL,
    -- No token of the session lives longer.
    expire_time timestamptz NOT NULL,
    revoke_time timestamptz,
    revoke_reason text,
    CONSTRAINT auth_sessions_login_tenant_nil CHECK
        (client_id IS NOT NULL OR tenant_id = '00000000-0000-0000-0000-000000000000')
);
CREATE INDEX auth_sessions_account ON auth.auth_sessions (account_id, auth_session_id);
CREATE INDEX auth_sessions_client ON auth.auth_sessions (client_id) WHERE client_id IS NOT NULL;
CREATE INDEX auth_sessions_expire_time ON auth.auth_sessions (tenant_id, expire_time);
CREATE INDEX auth_sessions_revoke_time ON auth.auth_sessions (tenant_id, revoke_time) WHERE revoke_time IS NOT NULL;

-- Made last: of indexes that cost the same in a table without statistics, the planner takes the youngest.
ALTER TABLE auth.auth_sessions ADD CONSTRAINT auth_sessions_pkey PRIMARY KEY (tenant_id, auth_session_id);

-- An account sees its own auth sessions in every tenant; other callers see those of the transaction's tenant.
ALTER TABLE auth.auth_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.auth_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.auth_sessions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid
           OR account_id = nullif(current_setting('skein.account_id', true), '')::uuid);
GRANT SELECT (tenant_id, auth_session_id, account_id, client_id, create_time, expire_time, revoke_time)
    ON auth.auth_sessions TO skein_tenancy, skein_memory;

-- An auth session has at most one code, which works once.
CREATE TABLE auth.authorization_codes (
    tenant_id uuid NOT NULL,
    code_id uuid NOT NULL,
    auth_session_id uuid NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT authorization_codes_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    redirect_uri text NOT NULL,
    code_challenge text NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    use_time timestamptz,
    CONSTRAINT authorization_codes_pkey PRIMARY KEY (tenant_id, code_id),
    CONSTRAINT authorization_codes_auth_session_key UNIQUE (tenant_id, auth_session_id),
    CONSTRAINT authorization_codes_auth_session_fkey FOREIGN KEY (tenant_id, auth_session_id)
        REFERENCES auth.auth_sessions (tenant_id, auth_session_id) ON DELETE CASCADE
);
ALTER TABLE auth.authorization_codes ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.authorization_codes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.authorization_codes
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Each token is replaced by its successor; only the last token of an auth session is valid.
CREATE TABLE auth.refresh_tokens (
    tenant_id uuid NOT NULL,
    refresh_token_id uuid NOT NULL,
    auth_session_id uuid NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT refresh_tokens_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    replace_time timestamptz,
    replaced_by uuid,
    CONSTRAINT refresh_tokens_pkey PRIMARY KEY (tenant_id, refresh_token_id),
    CONSTRAINT refresh_tokens_auth_session_fkey FOREIGN KEY (tenant_id, auth_session_id)
        REFERENCES auth.auth_sessions (tenant_id, auth_session_id) ON DELETE CASCADE,
    CONSTRAINT refresh_tokens_replaced CHECK ((replace_time IS NULL) = (replaced_by IS NULL))
);

-- The database refuses a second valid token of an auth session.
CREATE UNIQUE INDEX refresh_tokens_live_key ON auth.refresh_tokens (tenant_id, auth_session_id)
    WHERE replace_time IS NULL;
ALTER TABLE auth.refresh_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.refresh_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.refresh_tokens
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Device authorizations that wait for approval. It is not a tenant's table: the approval names the tenant.
CREATE TABLE auth.device_codes (
    device_code_id uuid CONSTRAINT device_codes_pkey PRIMARY KEY,
    secret_hash bytea NOT NULL CONSTRAINT device_codes_secret_hash_length CHECK (octet_length(secret_hash) = 32),
    -- Letters only, without the hyphen.
    user_code text NOT NULL CONSTRAINT device_codes_user_code_key UNIQUE,
    client_id text NOT NULL
        CONSTRAINT device_codes_client_fkey REFERENCES auth.clients (client_id) ON DELETE CASCADE,
    scopes text[] NOT NULL,
    resources text[] NOT NULL,
    state text NOT NULL
        CONSTRAINT device_codes_state_known CHECK (state IN ('pending', 'approved', 'denied', 'used')),
    interval_seconds integer NOT NULL,
    poll_time timestamptz,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    -- The auth session that the approval created.
    approved_tenant_id uuid,
    approved_auth_session_id uuid,
    CONSTRAINT device_codes_approved CHECK
        ((state IN ('approved', 'used')) = (approved_tenant_id IS NOT NULL AND approved_auth_session_id IS NOT NULL))
);
CREATE INDEX device_codes_expire_time ON auth.device_codes (expire_time);
CREATE INDEX device_codes_client ON auth.device_codes (client_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON
    auth.clients, auth.auth_sessions, auth.authorization_codes, auth.refresh_tokens, auth.device_codes TO skein_auth;

-- Grants that are not revoked, with the present role of their account. Grants of deactivated accounts, or of accounts
-- that left the tenant, are missing. Readers compare expire_time with their clock. The reader's row-level security
-- applies.
CREATE VIEW auth.live_grants WITH (security_invoker = true) AS
SELECT s.tenant_id, s.auth_session_id AS grant_id, s.expire_time, m.role
FROM auth.auth_sessions AS s
JOIN auth.clients AS c ON c.client_id = s.client_id
JOIN auth.accounts AS a ON a.account_id = s.account_id
JOIN tenancy.memberships AS m ON m.tenant_id = s.tenant_id AND m.account_id = s.account_id
WHERE s.revoke_time IS NULL AND (c.revoke_time IS NULL OR c.revoke_time < s.create_time) AND a.status = 'active';

GRANT SELECT ON auth.live_grants TO skein_auth, skein_tenancy, skein_memory;

-- Audit events. Events that concern no tenant are stored under the nil tenant. No role of a service may change one,
-- but for the name of a purged person. Functions of the owner remove expired ones.
CREATE TABLE auth.audit_events (
    tenant_id uuid NOT NULL,
    audit_event_id uuid NOT NULL,
    event text NOT NULL,
    outcome text NOT NULL CONSTRAINT audit_events_outcome_known CHECK (outcome IN ('success', 'refused')),
    reason text NOT NULL DEFAULT '',
    principal text NOT NULL DEFAULT '',
    -- The account that acted or was affected.
    account_id uuid,
    target text NOT NULL DEFAULT '',
    client_id text NOT NULL DEFAULT '',
    address text NOT NULL DEFAULT '',
    user_agent text NOT NULL DEFAULT '',
    request_id text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL,
    -- "subject:<id>" of an event about a person, in place of target. The purge of the person removes it with its salt.
    -- Checkpoints cover the digest, so an event without the name still verifies.
    subject_target text,
    subject_salt bytea,
    subject_digest bytea CONSTRAINT audit_events_subject_digest_length CHECK (octet_length(subject_digest) = 32),
    CONSTRAINT audit_events_pkey PRIMARY KEY (tenant_id, audit_event_id),
    CONSTRAINT audit_events_subject CHECK
        ((subject_target IS NULL) = (subject_salt IS NULL) AND (subject_target IS NULL OR subject_digest IS NOT NULL))
);
CREATE INDEX audit_events_account ON auth.audit_events (tenant_id, account_id, audit_event_id)
    WHERE account_id IS NOT NULL;
-- The planner's statistics would keep the ids of purged people.
ALTER TABLE auth.audit_events ALTER COLUMN subject_target SET STATISTICS 0;
CREATE INDEX audit_events_subject ON auth.audit_events (tenant_id, subject_target) WHERE subject_target IS NOT NULL;
-- Finds the tenants with events of a day.
CREATE INDEX audit_events_by_time ON auth.audit_events (audit_event_id, tenant_id);
ALTER TABLE auth.audit_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.audit_events FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.audit_events
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
-- An event is inserted when it happens: a checkpoint, which covers days that ended two hours ago, has all of a day.
CREATE POLICY recent ON auth.audit_events AS RESTRICTIVE FOR INSERT
    WITH CHECK (audit_event_id >= skein.first_id(now() - interval '1 hour')
                AND audit_event_id < skein.first_id(now() + interval '1 hour')
                AND create_time BETWEEN now() - interval '1 hour' AND now() + interval '1 hour');

-- Signed checkpoints of audit events: each covers events of one tenant and one UTC day, and names the one before it.
-- They remain when the events expire.
CREATE TABLE auth.audit_checkpoints (
    tenant_id uuid NOT NULL,
    -- 1 for the first of a tenant, without gaps.
    number bigint NOT NULL CONSTRAINT audit_checkpoints_number_positive CHECK (number > 0),
    day date NOT NULL,
    -- No event with this id or a lower one comes after this checkpoint.
    covered_id uuid NOT NULL,
    -- Canonical JSON.
    statement text NOT NULL,
    key_id text NOT NULL,
    signature bytea NOT NULL CONSTRAINT audit_checkpoints_signature_length CHECK (octet_length(signature) = 64),
    -- 48 bytes for each event: its id, and the digest of its other fields. Empty once the events have expired.
    event_digests bytea NOT NULL,
    create_time timestamptz NOT NULL,
    -- When the events were removed.
    expire_time timestamptz,
    CONSTRAINT audit_checkpoints_pkey PRIMARY KEY (tenant_id, number)
);
CREATE INDEX audit_checkpoints_covered ON auth.audit_checkpoints (tenant_id, covered_id);
CREATE INDEX audit_checkpoints_unexpired ON auth.audit_checkpoints (tenant_id, day, number) WHERE expire_time IS NULL;
ALTER TABLE auth.audit_checkpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.audit_checkpoints FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.audit_checkpoints
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY unexpired ON auth.audit_checkpoints AS RESTRICTIVE FOR INSERT WITH CHECK (expire_time IS NULL);
GRANT SELECT, INSERT ON auth.audit_events, auth.audit_checkpoints TO skein_auth;

-- Remove the events of a checkpoint, and keep the checkpoint; return their ids. Auth has verified them. Whatever ids the
-- checkpoint names, events of other days stay, and those of the last 30 days, but for the canary's two tenants.
CREATE FUNCTION auth.expire_audit_checkpoint(tenant uuid, checkpoint bigint, first_event_id uuid, last_event_id uuid)
RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    covered_day date;
BEGIN
    UPDATE auth.audit_checkpoints AS c
    SET expire_time = now(), event_digests = ''
    WHERE c.tenant_id = tenant AND c.number = checkpoint AND c.expire_time IS NULL
        AND tenant = nullif(current_setting('skein.tenant_id', true), '')::uuid
        AND c.statement LIKE '%"first_event_id":"' || first_event_id || '","last_event_id":"' || last_event_id || '"%'
        AND c.day < now() - CASE WHEN tenant IN ('ffca0000-0000-7000-8000-00000000000a',
                                                 'ffca0000-0000-7000-8000-00000000000b')
                            THEN interval '1 day' ELSE interval '30 days' END
    RETURNING c.day INTO covered_day;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
        DELETE FROM auth.audit_events AS e
        WHERE e.tenant_id = tenant AND e.audit_event_id BETWEEN first_event_id AND last_event_id
            AND e.audit_event_id >= skein.first_id(covered_day::timestamp AT TIME ZONE 'UTC')
            AND e.audit_event_id < skein.first_id((covered_day + 1)::timestamp AT TIME ZONE 'UTC')
        RETURNING e.audit_event_id;
END
$$;

-- Purge some events of a deleted tenant, then its checkpoints; return an id for each row.
CREATE FUNCTION auth.purge_audit_events(tenant uuid, size integer) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    PERFORM FROM tenancy.tenants AS t WHERE t.tenant_id = tenant AND t.is_active;
    IF FOUND OR tenant = '00000000-0000-0000-0000-000000000000'
        OR tenant IS DISTINCT FROM nullif(current_setting('skein.tenant_id', true), '')::uuid
    THEN
        RETURN;
    END IF;
    RETURN QUERY
        DELETE FROM auth.audit_events AS e
        WHERE e.tenant_id = tenant
            AND e.audit_event_id IN (SELECT picked.audit_event_id FROM auth.audit_events AS picked
                                     WHERE picked.tenant_id = tenant LIMIT size)
        RETURNING e.audit_event_id;
END
$$;
CREATE FUNCTION auth.purge_audit_checkpoints(tenant uuid, size integer) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    PERFORM FROM tenancy.tenants AS t WHERE t.tenant_id = tenant AND t.is_active;
    IF FOUND OR tenant = '00000000-0000-0000-0000-000000000000'
        OR tenant IS DISTINCT FROM nullif(current_setting('skein.tenant_id', true), '')::uuid
    THEN
        RETURN;
    END IF;
    RETURN QUERY
        DELETE FROM auth.audit_checkpoints AS c
        WHERE c.tenant_id = tenant
            AND c.number IN (SELECT picked.number FROM auth.audit_checkpoints AS picked
                             WHERE picked.tenant_id = tenant LIMIT size)
        RETURNING c.number;
END
$$;

REVOKE ALL ON FUNCTION
    auth.expire_audit_checkpoint(uuid, bigint, uuid, uuid), auth.purge_audit_events(uuid, integer),
    auth.purge_audit_checkpoints(uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    auth.expire_audit_checkpoint(uuid, bigint, uuid, uuid), auth.purge_audit_events(uuid, integer),
    auth.purge_audit_checkpoints(uuid, integer) TO skein_auth;

-- Signed certificates of erasures. No reference to tenants: they remain after the tenant's deletion.
CREATE TABLE auth.erasure_certificates (
    tenant_id uuid NOT NULL,
    certificate_id uuid NOT NULL,
    -- The digest that a repeated or continued erasure has too.
    erasure_key bytea NOT NULL
        CONSTRAINT erasure_certificates_erasure_key_length CHECK (octet_length(erasure_key) = 32),
    is_complete boolean NOT NULL,
    -- Canonical JSON: counts, times, positions and the Merkle root of the tombstones.
    statement text NOT NULL,
    key_id text NOT NULL,
    signature bytea NOT NULL CONSTRAINT erasure_certificates_signature_length CHECK (octet_length(signature) = 64),
    -- The leaves of the tree: digests of 32 bytes, one after the other.
    memory_tombstones bytea NOT NULL,
    session_tombstones bytea NOT NULL,
    create_time timestamptz NOT NULL,
    sign_time timestamptz NOT NULL,
    CONSTRAINT erasure_certificates_pkey PRIMARY KEY (tenant_id, certificate_id),
    CONSTRAINT erasure_certificates_erasure_key UNIQUE (tenant_id, erasure_key)
);
ALTER TABLE auth.erasure_certificates ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.erasure_certificates FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.erasure_certificates
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE ON auth.erasure_certificates TO skein_auth;

-- Usage of a tenant's quota: the sum over a few slots, so that writers do not wait for each other.
CREATE TABLE auth.usage (
    tenant_id uuid NOT NULL
        CONSTRAINT usage_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    slot smallint NOT NULL,
    amount bigint NOT NULL,
    -- tenancy.collected_usage includes the amount.
    is_collected boolean NOT NULL DEFAULT false,
    CONSTRAINT usage_pkey PRIMARY KEY (tenant_id, kind, slot)
);
CREATE INDEX usage_uncollected ON auth.usage (tenant_id) WHERE NOT is_collected;
ALTER TABLE auth.usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.usage
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON
    auth.accounts, auth.recovery_codes, auth.identities, auth.one_time_tokens, auth.attempts, auth.service_accounts,
    auth.legacy_tokens, auth.usage TO skein_auth;
GRANT SELECT, UPDATE (is_collected) ON auth.usage TO skein_tenancy;
-- Tenancy and recall record who changed what, in the transaction of the change. The purge of a person removes the names
-- of the events that are about the person, and can change nothing else.
GRANT INSERT ON auth.audit_events TO skein_tenancy, skein_recall;
GRANT SELECT (tenant_id, subject_target), UPDATE (subject_target, subject_salt) ON auth.audit_events TO skein_tenancy;
CREATE POLICY removal ON auth.audit_events AS RESTRICTIVE FOR UPDATE
    WITH CHECK (subject_target IS NULL AND subject_salt IS NULL);
CREATE POLICY due ON auth.usage FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');

-- Responses by request_id, so that a repeated request has one effect.
CREATE TABLE auth.requests (
    tenant_id uuid NOT NULL,
    principal text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    response bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (tenant_id, principal, method, request_id)
);
CREATE INDEX requests_create_time ON auth.requests (tenant_id, create_time);

-- No reference to tenants: the requests of operators are stored under the nil tenant.
ALTER TABLE auth.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON
    auth.api_keys, auth.operator_keys, auth.signing_keys, auth.requests TO skein_auth;

CREATE POLICY due ON auth.auth_sessions FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON auth.audit_events FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON auth.audit_checkpoints FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON auth.requests FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON auth.api_keys FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');
CREATE POLICY due ON auth.service_accounts FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');

-- Return tenants after one, by id, in which auth has expired rows, keys that ended, or keys of purged agents. Tenants
-- with keys of grants are always due, because a grant may end in many ways.
CREATE FUNCTION auth.list_expiry_tenants(
    at timestamptz, requested_before timestamptz, revoked_before timestamptz, audited_before date,
    canary_audited_before date, canary_tenant_ids uuid[], after uuid, size integer
) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        SELECT s.tenant_id FROM auth.auth_sessions AS s WHERE s.tenant_id > after AND s.expire_time <= at
        UNION
        SELECT s.tenant_id FROM auth.auth_sessions AS s WHERE s.tenant_id > after AND s.revoke_time <= revoked_before
        UNION
        SELECT c.tenant_id FROM auth.audit_checkpoints AS c
        WHERE c.tenant_id > after AND c.expire_time IS NULL AND c.day < audited_before
        UNION
        SELECT c.tenant_id FROM auth.audit_checkpoints AS c
        WHERE c.tenant_id = ANY (canary_tenant_ids) AND c.tenant_id > after AND c.expire_time IS NULL
            AND c.day < canary_audited_before
        UNION
        SELECT r.tenant_id FROM auth.requests AS r WHERE r.tenant_id > after AND r.create_time < requested_before
        UNION
        SELECT k.tenant_id FROM auth.api_keys AS k
        WHERE k.tenant_id > after AND k.is_counted AND (k.revoke_time IS NOT NULL OR k.expire_time IS NOT NULL)
            AND (k.revoke_time IS NOT NULL OR k.expire_time <= at)
        UNION
        SELECT k.tenant_id FROM auth.api_keys AS k
        WHERE k.tenant_id > after AND k.grant_ids <> '{}' AND k.revoke_time IS NULL
        UNION
        SELECT o.tenant_id FROM auth.service_accounts AS o
        WHERE o.tenant_id > after AND o.grant_ids <> '{}' AND NOT o.disabled
        UNION
        SELECT a.tenant_id FROM tenancy.agents AS a WHERE a.tenant_id > after AND a.purge_time IS NOT NULL
        ORDER BY 1
        LIMIT size;
END
$$;
-- Return tenants after one, by id, with events between two ids that no checkpoint covers.
CREATE FUNCTION auth.list_unchained_tenants(first_id uuid, end_id uuid, after uuid, size integer) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        SELECT DISTINCT e.tenant_id FROM auth.audit_events AS e
        WHERE e.audit_event_id >= first_id AND e.audit_event_id < end_id AND e.tenant_id > after
            AND NOT EXISTS (SELECT FROM auth.audit_checkpoints AS c
                            WHERE c.tenant_id = e.tenant_id AND c.covered_id >= e.audit_event_id)
        ORDER BY 1
        LIMIT size;
END
$$;
REVOKE ALL ON FUNCTION
    auth.list_unchained_tenants(uuid, uuid, uuid, integer),
    auth.list_expiry_tenants(timestamptz, timestamptz, timestamptz, date, date, uuid[], uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    auth.list_unchained_tenants(uuid, uuid, uuid, integer),
    auth.list_expiry_tenants(timestamptz, timestamptz, timestamptz, date, date, uuid[], uuid, integer) TO skein_auth;

INSERT INTO auth.check_keys DEFAULT VALUES;
