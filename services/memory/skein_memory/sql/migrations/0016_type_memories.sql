-- Typed memories and secrets.
SELECT 1;
