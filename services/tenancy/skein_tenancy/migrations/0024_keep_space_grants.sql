-- Grants of spaces have ids, stay when they end, and end with the grant that they were passed on by.
SET LOCAL lock_timeout = '5s';

ALTER TABLE tenancy.space_grants
    ADD COLUMN grant_id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- The delegable grant by which a delegate gave this one; NULL: a manager gave it.
    ADD COLUMN delegating_grant_id uuid
        CONSTRAINT space_grants_not_of_itself CHECK (delegating_grant_id <> grant_id),
    -- A revoked or replaced grant stays, so that the access log's ids lead to it, and so that a restore repeats its end.
    ADD COLUMN revoke_time timestamptz,
    -- Processes of an older release know expire_time alone.
    ADD CONSTRAINT space_grants_revoked_is_expired CHECK (revoke_time IS NULL OR expire_time <= revoke_time),
    ADD CONSTRAINT space_grants_passed_on_once CHECK (delegating_grant_id IS NULL OR NOT is_delegable),
    DROP CONSTRAINT space_grants_pkey,
    ADD CONSTRAINT space_grants_pkey PRIMARY KEY (tenant_id, grant_id),
    ADD CONSTRAINT space_grants_delegating_fkey FOREIGN KEY (tenant_id, delegating_grant_id)
        REFERENCES tenancy.space_grants (tenant_id, grant_id) ON DELETE CASCADE;
CREATE UNIQUE INDEX space_grants_current ON tenancy.space_grants (tenant_id, space_id, principal)
    WHERE revoke_time IS NULL;
CREATE INDEX space_grants_delegating ON tenancy.space_grants (tenant_id, delegating_grant_id)
    WHERE delegating_grant_id IS NOT NULL;
DROP INDEX tenancy.space_grants_of_principal;
CREATE INDEX space_grants_of_principal ON tenancy.space_grants (tenant_id, principal, space_id)
    WHERE revoke_time IS NULL;

-- Which space an item lies in explains who sees it.
GRANT SELECT (memory_id) ON memory.memories TO skein_tenancy;
