"""Facts about peers on the network."""
