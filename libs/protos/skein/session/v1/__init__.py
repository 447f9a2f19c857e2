"""Generated stubs of the proto package skein.session.v1 and below."""
