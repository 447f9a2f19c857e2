"""The certificates by which services of one cluster know each other, and the authority that signs them."""
