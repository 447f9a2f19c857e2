-- Signed receipts of answers of Recall.

-- One row for each receipt, and one more where BuildContext packed a text from the answer. Its content, which is signed,
-- has ids and numbers, and digests of the request. The request and the text of the query are stored beside it, because
-- the erasure of a person removes them.
CREATE TABLE recall.receipts (
    tenant_id uuid NOT NULL
        CONSTRAINT receipts_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    receipt_id uuid NOT NULL,
    is_context boolean NOT NULL,
    -- Who asked; empty for a context. Lists of one principal's receipts read it.
    principal text NOT NULL,
    -- Of the call. The access log knows by it which memories the answer had.
    request_id text NOT NULL,
    content bytea NOT NULL,
    key_id text NOT NULL,
    signature bytea NOT NULL,
    -- A salt and the request without its text; of a context, its inputs. NULL after an erasure.
    request bytea,
    -- NULL: the content has a digest of it, or it was erased. Of a context always.
    query text,
    -- The people whom hits of the answer are about. Empty after an erasure.
    subject_ids text[] NOT NULL,
    CONSTRAINT receipts_pkey PRIMARY KEY (tenant_id, receipt_id, is_context)
) PARTITION BY RANGE (receipt_id);
CREATE INDEX receipts_principal ON recall.receipts (tenant_id, principal, receipt_id);
CREATE INDEX receipts_request ON recall.receipts (tenant_id, request_id) WHERE request IS NOT NULL;
ALTER TABLE recall.receipts ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.receipts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.receipts
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, DELETE ON recall.receipts TO skein_recall;

-- Memory and session erase what may name a person.
GRANT SELECT, UPDATE (request_id, request, query, subject_ids) ON recall.receipts TO skein_memory, skein_session;

-- The differences of two answers are explained by events.
GRANT SELECT ON memory.changes TO skein_recall;

-- A replay tells items in cold storage from purged ones.
GRANT SELECT (tenant_id, memory_id) ON memory.archived_memories TO skein_recall;
GRANT SELECT (tenant_id, message_id) ON session.archived_messages TO skein_recall;

-- Create the partition of a month; return whether it was missing.
CREATE FUNCTION recall.ensure_month(month timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER
SET search_path = ''
RETURN skein.make_month('recall.receipts', month);
REVOKE ALL ON FUNCTION recall.ensure_month(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recall.ensure_month(timestamptz) TO skein_recall;

-- Drop the months of receipts that end before a time, for all tenants; return how many.
CREATE FUNCTION recall.drop_receipts(before timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ''
SET timezone = 'UTC'
SET lock_timeout = '5s'
AS $$
DECLARE
    child name;
    dropped integer := 0;
BEGIN
    FOR child IN
        SELECT c.relname FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'recall.receipts'::regclass
            AND to_timestamp(right(c.relname, 8), '"y"YYYY"m"MM') + interval '1 month' <= before
        ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE recall.receipts DETACH PARTITION recall.%I', child);
        EXECUTE format('DROP TABLE recall.%I', child);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;
REVOKE ALL ON FUNCTION recall.drop_receipts(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recall.drop_receipts(timestamptz) TO skein_recall;

SELECT recall.ensure_month(now() + make_interval(months => ahead)) FROM generate_series(0, 1) AS ahead;
