-- list_check_keys --
-- Read the keys of check digits, the one that makes new ones first: the newest that every replica knows by now, or the
-- oldest of all while none is old enough.
SELECT secret
FROM auth.check_keys
ORDER BY create_time <= now() - interval '5 minutes' DESC,
         CASE WHEN create_time <= now() - interval '5 minutes' THEN create_time END DESC,
         create_time, check_key_id
LIMIT 100;
