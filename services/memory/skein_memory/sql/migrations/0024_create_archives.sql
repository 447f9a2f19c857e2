-- Cold storage.
SELECT 1;
