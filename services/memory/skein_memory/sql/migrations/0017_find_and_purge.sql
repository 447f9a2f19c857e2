-- Properties that filters ask for, and tombstones of what was purged.
SELECT 1;
