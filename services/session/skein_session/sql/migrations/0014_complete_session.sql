-- Conversations complete.
SELECT 1;
