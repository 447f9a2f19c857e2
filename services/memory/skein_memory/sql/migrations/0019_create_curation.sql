-- Curation.
SELECT 1;
