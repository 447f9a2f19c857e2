-- list_erasures --
-- Read the erasures of all tenants that are noted, by tenant and time. Of no tenant.
SELECT tenant_id, erase_time, count(*) AS count
FROM memory.erasures
GROUP BY tenant_id, erase_time;

-- restart_recount --
-- Count a tenant's frequencies anew from the first term on where that is under way: the place was a term.
UPDATE recall.corpora
SET recounted_to = NULL
WHERE tenant_id = :tenant_id AND recounted_to IS NOT NULL;
