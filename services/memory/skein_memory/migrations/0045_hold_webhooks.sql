-- Webhooks: a destination that fails repeatedly is left alone for a while, and a tenant's webhooks are counted.

ALTER TABLE memory.webhooks
    -- Host and port, without the port that the scheme implies. The back-off belongs to it, not to one watch.
    ADD COLUMN destination text NOT NULL GENERATED ALWAYS AS (
        coalesce(lower(regexp_replace(substring(webhook_url FROM '^[A-Za-z]+://([^/?#]*)'), '[.]?(:443|:80)?$', '')), '')
    ) STORED,
    -- Failures in a row, each without a word from the destination; the same in all webhooks of one destination.
    ADD COLUMN destination_failures integer NOT NULL DEFAULT 0,
    -- Nothing is sent before this time; then one delivery tries whether the destination answers again.
    ADD COLUMN retry_time timestamptz;
CREATE INDEX webhooks_destination ON memory.webhooks (tenant_id, destination);

-- What is due of one watch is found without a look at what is due of the others.
CREATE INDEX deliveries_webhook_due ON memory.deliveries (tenant_id, webhook_id, next_time) WHERE state = 'pending';
DROP INDEX memory.deliveries_due;

-- Count what is there already: tenant by tenant, as row-level security binds the owner too.
DO $$
DECLARE
    tenant uuid;
    found bigint;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        SELECT count(*) INTO found FROM memory.webhooks WHERE tenant_id = tenant;
        IF found > 0 THEN
            INSERT INTO memory.usage (tenant_id, kind, slot, amount) VALUES (tenant, 'webhooks', 0, found);
        END IF;
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;
