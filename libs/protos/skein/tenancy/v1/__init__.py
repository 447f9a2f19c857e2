"""Generated stubs of the proto package skein.tenancy.v1 and below."""
