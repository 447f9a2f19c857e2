"""Generated stubs of the proto package skein.errors and below."""
