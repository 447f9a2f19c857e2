"""How much is searched: counts of searches by day, how long they took, and how many found nothing."""
