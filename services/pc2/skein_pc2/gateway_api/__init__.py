"""The cluster as pc2 calls it: public RPCs through the gateway with one API key."""
