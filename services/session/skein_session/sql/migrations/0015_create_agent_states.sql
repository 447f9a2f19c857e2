-- Agent states and short-term items.
SELECT 1;
