-- list_erasures --
-- Read in which tenants something was erased a moment ago, and when last.
SELECT tenant_id, max(erase_time) AS erase_time
FROM memory.erasures
GROUP BY tenant_id;

-- restart_recount --
-- Count a tenant's frequencies anew from the first term on where that is under way: the place was a term.
UPDATE recall.corpora
SET recounted_to = NULL
WHERE tenant_id = :tenant_id AND recounted_to IS NOT NULL;
