-- What distribute.py asks the catalog of a migrated database; `schemas` are those of ours.

-- tables --
-- Every table of ours, partitions apart, and whether it has a tenant's column.
SELECT n.nspname || '.' || c.relname AS name, a.attname IS NOT NULL AS has_tenant
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND n.nspname = ANY (:schemas) AND NOT c.relispartition
ORDER BY 1;

-- unique_without_tenant --
-- Unique indexes of tables with a tenant that do not hold it.
SELECT n.nspname || '.' || c.relname AS name, i.indexrelid::regclass::text AS index
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
WHERE i.indisunique AND a.attnum <> ALL (i.indkey) AND n.nspname = ANY (:schemas) AND NOT c.relispartition
ORDER BY 1, 2;

-- foreign_keys --
-- Every foreign key: from where to where, whether it holds the tenant, whether a deletion empties it, whether it follows
-- an update.
SELECT n.nspname || '.' || c.relname AS name, tn.nspname || '.' || tc.relname AS target, f.conname AS key,
    coalesce(a.attnum = ANY (f.conkey), false) AS with_tenant, f.confdeltype IN ('n', 'd') AS sets_null,
    f.confupdtype NOT IN ('a', 'r') AS follows_update
FROM pg_constraint AS f
JOIN pg_class AS c ON c.oid = f.conrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_class AS tc ON tc.oid = f.confrelid
JOIN pg_namespace AS tn ON tn.oid = tc.relnamespace
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
WHERE f.contype = 'f' AND f.conparentid = 0 AND n.nspname = ANY (:schemas) AND NOT c.relispartition
ORDER BY 1, 3;

-- triggers --
-- Every trigger that is not a foreign key's, and whether it keeps former rows.
SELECT n.nspname || '.' || c.relname AS name, t.tgname AS trigger,
    t.tgname IN ('keep_updated', 'keep_deleted') AS keeps_history
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE NOT t.tgisinternal AND n.nspname = ANY (:schemas) AND NOT c.relispartition
ORDER BY 1, 2;

-- policies --
-- The words of every policy.
SELECT n.nspname || '.' || c.relname AS name, p.polname AS policy,
    concat(pg_get_expr(p.polqual, c.oid), ' ', pg_get_expr(p.polwithcheck, c.oid)) AS words
FROM pg_policy AS p
JOIN pg_class AS c ON c.oid = p.polrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (:schemas) AND NOT c.relispartition
ORDER BY 1, 2;

-- sequences --
-- Columns that a sequence fills.
SELECT n.nspname || '.' || c.relname AS name, a.attname AS column
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind IN ('r', 'p') AND NOT a.attisdropped AND n.nspname = ANY (:schemas) AND NOT c.relispartition
    AND (a.attidentity <> '' OR pg_get_expr(d.adbin, c.oid) LIKE 'nextval(%')
ORDER BY 1, 2;

-- nested --
-- Partitions that have partitions.
SELECT inhrelid::regclass::text AS name
FROM pg_inherits
JOIN pg_class AS c ON c.oid = inhrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'p' AND n.nspname = ANY (:schemas)
ORDER BY 1;

-- definers --
-- Functions that act as their owner.
SELECT n.nspname || '.' || p.proname AS name
FROM pg_proc AS p
JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE p.prosecdef AND n.nspname = ANY (:schemas)
ORDER BY 1;
