-- schema_version --
-- Read the number of the newest migration.
SELECT coalesce(max(number), 0) FROM skein.migrations;
