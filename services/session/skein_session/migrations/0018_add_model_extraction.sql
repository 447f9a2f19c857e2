-- Messages that a language model has still to read, its attempts, and those that it could not read.
SET LOCAL lock_timeout = '5s';

-- "model": what rules find in it is stored, and the model has still to read it.
ALTER TABLE session.extraction_messages DROP CONSTRAINT extraction_messages_kind_known;
ALTER TABLE session.extraction_messages
    ADD CONSTRAINT extraction_messages_kind_known CHECK (kind IN ('new', 'changed', 'purged', 'model'));
-- Attempts of a model.
ALTER TABLE session.extraction_messages ADD COLUMN attempt_count integer NOT NULL DEFAULT 0;
-- When a model may read it: after a lease, or a pause between attempts. NULL for the other kinds.
ALTER TABLE session.extraction_messages ADD COLUMN retry_time timestamptz;
CREATE INDEX extraction_messages_model ON session.extraction_messages (tenant_id, retry_time) WHERE kind = 'model';
CREATE POLICY due ON session.extraction_messages FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');

-- Messages that left the queue after their last attempt, until they are read, changed or purged.
CREATE TABLE session.extraction_failures (
    tenant_id uuid NOT NULL
        CONSTRAINT extraction_failures_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    message_id uuid NOT NULL,
    session_id text NOT NULL,
    reason text NOT NULL CONSTRAINT extraction_failures_reason_length CHECK (length(reason) BETWEEN 1 AND 60),
    attempt_count integer NOT NULL,
    attempt_time timestamptz NOT NULL,
    CONSTRAINT extraction_failures_pkey PRIMARY KEY (tenant_id, message_id)
);
ALTER TABLE session.extraction_failures ENABLE ROW LEVEL SECURITY;
ALTER TABLE session.extraction_failures FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session.extraction_failures
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON session.extraction_failures TO skein_session;

-- Return tenants after one, by id, with messages that a model may read.
CREATE FUNCTION session.list_unread_tenants(at timestamptz, after uuid, size integer)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = ''
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
        SELECT DISTINCT m.tenant_id FROM session.extraction_messages AS m
        WHERE m.tenant_id > after AND m.kind = 'model' AND m.retry_time <= at
        ORDER BY 1
        LIMIT size;
END
$$;
REVOKE ALL ON FUNCTION session.list_unread_tenants(timestamptz, uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION session.list_unread_tenants(timestamptz, uuid, integer) TO skein_session;
