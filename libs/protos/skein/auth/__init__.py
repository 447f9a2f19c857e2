"""Generated stubs of the proto package skein.auth and below."""
