-- list_erasures --
-- Count the recorded erasures of all tenants, by tenant and time. Of no tenant.
SELECT tenant_id, erase_time, count(*) AS count
FROM memory.erasures
GROUP BY tenant_id, erase_time;

-- restart_recount --
-- Restart a running recount of a tenant's frequencies, because its position is a term.
UPDATE recall.corpora
SET recounted_to = NULL
WHERE tenant_id = :tenant_id AND recounted_to IS NOT NULL;
