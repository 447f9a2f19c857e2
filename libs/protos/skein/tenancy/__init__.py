"""Generated stubs of the proto package skein.tenancy and below."""
