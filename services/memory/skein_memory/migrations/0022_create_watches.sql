-- Watches: who is told of what happens, by webhook.

CREATE TABLE memory.webhooks (
    tenant_id uuid NOT NULL
        CONSTRAINT webhooks_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    webhook_id uuid NOT NULL,
    display_name text NOT NULL,
    -- '*' stands for all.
    event_types text[] NOT NULL,
    condition text NOT NULL DEFAULT '',
    webhook_url text NOT NULL,
    is_active boolean NOT NULL DEFAULT true,
    -- The key that deliveries are signed with, sealed under a master key.
    master_key text NOT NULL,
    nonce bytea NOT NULL,
    ciphertext bytea NOT NULL,
    -- The place in the event log up to which deliveries are queued.
    transaction bigint NOT NULL,
    change_id uuid NOT NULL,
    -- Failed attempts since the last that succeeded.
    failures integer NOT NULL DEFAULT 0,
    last_delivery_time timestamptz,
    last_error text,
    disable_time timestamptz,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    CONSTRAINT webhooks_pkey PRIMARY KEY (tenant_id, webhook_id)
);
CREATE INDEX webhooks_active ON memory.webhooks (tenant_id, webhook_id) WHERE is_active;

-- What is still to be told, and what was: the event by its place in the log, never a copy of it.
CREATE TABLE memory.deliveries (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    change_id uuid NOT NULL,
    state text NOT NULL CONSTRAINT deliveries_state_known CHECK (state IN ('pending', 'delivered', 'dead')),
    attempts integer NOT NULL DEFAULT 0,
    -- When to try next; while somebody tries, when others may.
    next_time timestamptz NOT NULL,
    last_error text,
    create_time timestamptz NOT NULL,
    finish_time timestamptz,
    CONSTRAINT deliveries_pkey PRIMARY KEY (tenant_id, delivery_id),
    CONSTRAINT deliveries_change_key UNIQUE (tenant_id, webhook_id, change_id),
    CONSTRAINT deliveries_webhook_fkey FOREIGN KEY (tenant_id, webhook_id)
        REFERENCES memory.webhooks (tenant_id, webhook_id) ON DELETE CASCADE,
    CONSTRAINT deliveries_change_fkey FOREIGN KEY (tenant_id, change_id)
        REFERENCES memory.changes (tenant_id, change_id) ON DELETE CASCADE
);
CREATE INDEX deliveries_due ON memory.deliveries (tenant_id, next_time) WHERE state = 'pending';
CREATE INDEX deliveries_webhook ON memory.deliveries (tenant_id, webhook_id, delivery_id);
CREATE INDEX deliveries_change ON memory.deliveries (tenant_id, change_id);
CREATE INDEX deliveries_finish_time ON memory.deliveries (tenant_id, finish_time) WHERE finish_time IS NOT NULL;

ALTER TABLE memory.webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.webhooks FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.webhooks
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.deliveries FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.deliveries
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.webhooks, memory.deliveries TO skein_memory;
