-- list_webhook_tenants --
-- Read tenants, after one, with events to queue for webhooks or deliveries to attempt.
SELECT due.tenant_id
FROM memory.list_webhook_tenants(:at, :after, :size) AS due (tenant_id);

-- list_snapshot_tenants --
-- Read tenants, after one, with snapshots that are being created or deleted.
SELECT due.tenant_id
FROM memory.list_snapshot_tenants(:after, :size) AS due (tenant_id);

-- list_trust_tenants --
-- Read tenants, after one, with memories whose trust is to be computed again.
SELECT due.tenant_id
FROM memory.list_trust_tenants(:after, :size) AS due (tenant_id);

-- list_expiry_tenants --
-- Read tenants, after one, with expired rows, keys to encrypt again, blocks of purged agents, or capped levels.
SELECT due.tenant_id
FROM memory.list_expiry_tenants(
    :at, :requested_before, :finished_before, :expired_before, :master_key, :after, :size
) AS due (tenant_id);

-- list_lifecycle_tenants --
-- Read tenants, after one, with memories to archive, to purge by age or to reindex, or too old former rows.
SELECT due.tenant_id
FROM memory.list_lifecycle_tenants(:at, :retention_days, :after, :size) AS due (tenant_id);

-- list_decay_tenants --
-- Read tenants, after one, with memories whose scores are to decay.
SELECT due.tenant_id
FROM memory.list_decay_tenants(:at, :decay_days, :after, :size) AS due (tenant_id);
