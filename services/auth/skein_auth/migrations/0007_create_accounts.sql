-- Accounts and how they sign in, service accounts, attempts and the audit: everybody who may come in, and who tried.

-- Accounts belong to no tenant: memberships, which tenancy keeps, say where they may act.
CREATE TABLE auth.accounts (
    account_id uuid CONSTRAINT accounts_pkey PRIMARY KEY,
    email text CONSTRAINT accounts_email_key UNIQUE
        CONSTRAINT accounts_email_lower CHECK (email = lower(email) AND char_length(email) BETWEEN 3 AND 254),
    -- Takes the place of email once it is verified.
    new_email text CONSTRAINT accounts_new_email_lower CHECK (new_email = lower(new_email)),
    email_verify_time timestamptz,
    -- As argon2 writes it; "pbkdf2_sha256$..." until the first sign-in of somebody who moved in.
    password_hash text,
    display_name text NOT NULL,
    status text NOT NULL CONSTRAINT accounts_status_known CHECK (status IN ('active', 'deactivated')),
    -- Encrypted under the system key. Counts only when totp_confirm_time is set.
    encrypted_totp_secret bytea,
    totp_confirm_time timestamptz,
    -- The last time step that a code was accepted for: no code works twice.
    totp_step bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL
);

CREATE TABLE auth.recovery_codes (
    account_id uuid NOT NULL
        CONSTRAINT recovery_codes_account_fkey REFERENCES auth.accounts (account_id) ON DELETE CASCADE,
    code_hash bytea NOT NULL CONSTRAINT recovery_codes_hash_length CHECK (octet_length(code_hash) = 32),
    use_time timestamptz,
    CONSTRAINT recovery_codes_pkey PRIMARY KEY (account_id, code_hash)
);

-- What signs into an account besides its password.
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
    -- The address that it was made for: a token is worth nothing once the account has another.
    email text NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    use_time timestamptz
);
CREATE INDEX one_time_tokens_account ON auth.one_time_tokens (account_id);
CREATE INDEX one_time_tokens_expire_time ON auth.one_time_tokens (expire_time);

-- Failed attempts by account, client and address, and what anonymous people may do only so often. Subjects are hashed.
CREATE TABLE auth.attempts (
    kind text NOT NULL,
    subject_hash bytea NOT NULL CONSTRAINT attempts_subject_hash_length CHECK (octet_length(subject_hash) = 32),
    -- When the window that is counted ends.
    expire_time timestamptz NOT NULL,
    -- Those that failed, and those of which it is not known yet.
    count integer NOT NULL,
    -- Of these, those of which it is not known yet.
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
    CONSTRAINT service_accounts_pkey PRIMARY KEY (tenant_id, service_account_id)
);
ALTER TABLE auth.service_accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.service_accounts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.service_accounts
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

ALTER TABLE auth.api_keys
    ADD COLUMN service_account_id uuid,
    -- To the minute.
    ADD COLUMN use_time timestamptz,
    ADD COLUMN replaced_by uuid,
    -- Whether it is part of auth.usage: until it is seen to be over.
    ADD COLUMN is_counted boolean NOT NULL DEFAULT true,
    ADD CONSTRAINT api_keys_service_account_fkey FOREIGN KEY (tenant_id, service_account_id)
        REFERENCES auth.service_accounts (tenant_id, service_account_id) ON DELETE CASCADE;
CREATE INDEX api_keys_service_account ON auth.api_keys (tenant_id, service_account_id)
    WHERE service_account_id IS NOT NULL;

-- The one bearer token that callers of an earlier system share; not a tenant's table, because nothing else in a request
-- says whose it is.
CREATE TABLE auth.legacy_tokens (
    secret_hash bytea CONSTRAINT legacy_tokens_pkey PRIMARY KEY
        CONSTRAINT legacy_tokens_hash_length CHECK (octet_length(secret_hash) = 32),
    legacy_tenant_id uuid NOT NULL CONSTRAINT legacy_tokens_tenant_key UNIQUE
        CONSTRAINT legacy_tokens_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    create_time timestamptz NOT NULL
);

-- What happened to credentials. Events that concern no tenant are kept under the nil tenant.
CREATE TABLE auth.audit_events (
    tenant_id uuid NOT NULL,
    audit_event_id uuid NOT NULL,
    event text NOT NULL,
    outcome text NOT NULL CONSTRAINT audit_events_outcome_known CHECK (outcome IN ('success', 'refused')),
    reason text NOT NULL DEFAULT '',
    principal text NOT NULL DEFAULT '',
    -- The account that it happened to, or that did it.
    account_id uuid,
    target text NOT NULL DEFAULT '',
    client_id text NOT NULL DEFAULT '',
    address text NOT NULL DEFAULT '',
    user_agent text NOT NULL DEFAULT '',
    request_id text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL,
    CONSTRAINT audit_events_pkey PRIMARY KEY (tenant_id, audit_event_id)
);
CREATE INDEX audit_events_account ON auth.audit_events (tenant_id, account_id, audit_event_id)
    WHERE account_id IS NOT NULL;
ALTER TABLE auth.audit_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.audit_events FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.audit_events
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- How much of a tenant's quota is used: the sum over a few slots, so that writers do not wait for one another.
CREATE TABLE auth.usage (
    tenant_id uuid NOT NULL
        CONSTRAINT usage_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    slot smallint NOT NULL,
    amount bigint NOT NULL,
    CONSTRAINT usage_pkey PRIMARY KEY (tenant_id, kind, slot)
);
ALTER TABLE auth.usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE auth.usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON auth.usage
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- One key of each purpose signs: internal identities, and the access tokens that the world verifies.
ALTER TABLE auth.signing_keys ADD COLUMN purpose text NOT NULL DEFAULT 'identity'
    CONSTRAINT signing_keys_purpose_known CHECK (purpose IN ('identity', 'access'));
DROP INDEX auth.signing_keys_active_key;
CREATE UNIQUE INDEX signing_keys_active_key ON auth.signing_keys (purpose) WHERE expire_time IS NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON
    auth.accounts, auth.recovery_codes, auth.identities, auth.one_time_tokens, auth.attempts, auth.service_accounts,
    auth.legacy_tokens, auth.audit_events, auth.usage TO skein_auth;

-- Count what is there already: tenant by tenant, as row-level security binds the owner too.
DO $$
DECLARE
    tenant uuid;
    found bigint;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        SELECT count(*) INTO found FROM auth.api_keys WHERE tenant_id = tenant;
        IF found > 0 THEN
            INSERT INTO auth.usage (tenant_id, kind, slot, amount) VALUES (tenant, 'api_keys', 0, found);
        END IF;
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;
