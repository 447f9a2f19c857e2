-- list_expiry_tenants --
-- Read tenants, after one, with expired rows, idle rate limits or purged agents.
SELECT due.tenant_id
FROM tenancy.list_expiry_tenants(:at, :requested_before, :idle_since, :after, :size) AS due (tenant_id);
