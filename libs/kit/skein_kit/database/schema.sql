-- schema_version --
-- Read the number of the newest migration.
SELECT coalesce(max(number), 0) FROM skein.migrations;

-- page_token_key --
-- Read the newest key that page tokens are signed with.
SELECT secret FROM skein.page_token_keys ORDER BY create_time DESC, key_id LIMIT 1;
