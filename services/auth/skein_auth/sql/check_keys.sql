-- list_check_keys --
-- Read the keys of check digits, the one that makes new ones first: the newest that every replica knows by now.
SELECT secret
FROM auth.check_keys
ORDER BY create_time <= now() - interval '5 minutes' DESC, create_time DESC, check_key_id
LIMIT 100;
