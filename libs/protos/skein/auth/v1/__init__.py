"""Generated stubs of the proto package skein.auth.v1 and below."""
