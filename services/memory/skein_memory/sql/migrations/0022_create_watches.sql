-- Watches and webhooks.
SELECT 1;
