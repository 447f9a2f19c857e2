"""ZeroMQ sockets: TCP listeners, routers, publishers, CURVE, and the ports of the protocol."""
