-- Links as a graph.
SELECT 1;
