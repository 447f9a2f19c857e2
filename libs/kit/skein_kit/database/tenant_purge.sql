-- lock_purge --
-- Wait until no other transaction purges the tenant: a worker would take rows that another one has locked for purged.
SELECT pg_advisory_xact_lock(hashtextextended(place.tenant_id::text || ' purge', 0))
FROM (SELECT :tenant_id::uuid AS tenant_id) AS place;
