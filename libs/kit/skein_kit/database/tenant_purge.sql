-- lock_purge --
-- Let one transaction at a time purge a deleted tenant, so that no other worker takes locked rows for removed ones.
SELECT pg_advisory_xact_lock(hashtextextended(place.tenant_id::text || ' purge', 0))
FROM (SELECT :tenant_id::uuid AS tenant_id) AS place;
