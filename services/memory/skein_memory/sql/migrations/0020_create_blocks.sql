-- Core memory blocks.
SELECT 1;
