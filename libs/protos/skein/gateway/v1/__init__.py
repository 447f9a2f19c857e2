"""Generated stubs of the proto package skein.gateway.v1 and below."""
