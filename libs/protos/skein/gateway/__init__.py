"""Generated stubs of the proto package skein.gateway and below."""
