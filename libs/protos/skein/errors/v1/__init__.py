"""Generated stubs of the proto package skein.errors.v1 and below."""
