"""Values at the limits of what a field can hold, and beyond what a service may expect there."""

from __future__ import annotations

# Floats, of which some are no number.
FLOATS = (
    0.0, -0.0, 1.0, 0.5, -1.0, 1e-310, 3.4e38, 1e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip

# Seconds of Timestamp: its own limits, one beyond each, those of Postgres, of 32 bits, and of 64.
SECONDS = (
    0, 1, -1, 1_700_000_000, 4_102_444_800, 2**31, -(2**31) - 1, 253_402_300_799, 253_402_300_800, -62_135_596_800,
    -62_135_596_801, 9_224_318_015_999, -210_866_803_200, 2**63 - 1, -(2**63),
)  # fmt: skip

# Seconds of Duration: its own limits and one beyond each.
LENGTHS = (
    0, 1, -1, 60, 86_400, 3_153_600_000, 315_576_000_000, 315_576_000_001, -315_576_000_000, 2**63 - 1, -(2**63),
)  # fmt: skip

# Nanoseconds of both, of which some are beyond a second.
NANOS = (
    0, 1, 999_999_999, -1, 1_000_000_000, 500_000_000, 2**31 - 1, -(2**31),
)  # fmt: skip

# Texts that are empty, invisible, beyond ASCII, of another syntax, or names of what there is.
TEXTS = (
    "", " ", "\n", "\t \r", "\0", "a\0b", "\x7f\x1b[31m", "\u00ad", "\u200b", "\u202eabc", "\ufeff", "\ufffe",
    "\uffff", "\ud7ff", "\U0010ffff", "e\u0301" * 20, "\u0130\u0131\u017fK", "Ⅷ²", "\U0001f469\u200d\U0001f467",
    "ﷺ", "%s%n{}{0}", "';--", '"', "\\",
    "\\u0000", "a'b\"c", "$1", ":a", "../../etc/passwd", "C:\\x", "/", ".", "..", "~", "*", "%", "_", "?", "null",
    "true", "NaN", "-0", "1e400", "0x10", "9" * 30, "1.5", "-1", "skein_", "skein_once_nonsense", "x@y",
    "a@b.example", "http://", "https://example.org/x", "http://[::1]:0/", "file:///etc/passwd", "urn:x", "2024-02-30",
    "2024-01-01T00:00:00Z", "infinity", "BC", "1day", "00000000-0000-0000-0000-000000000000",
    "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "global", "related", "supports", "de", "C", "simple", "UTC",
    "Europe/Berlin", "No/Where", "kettle", "red kettle", "{{x}}", "{x}", "[x](y)", "# x", "<script>",
    "a\r\nset-cookie: x", "QUJD", "====", "-", "a.b", "a..b", ".a", "a.", "a[0]", "a.b.c.d.e.f",
)  # fmt: skip

# Texts in the search language, in tsquery, in patterns and in paths of JSON, some of them unfinished.
QUERIES = (
    'content:"x"', 'content:"', "content:", "a AND", "NOT", "(((((a", ")", "a OR (b AND", "tag:x",
    "created_time>2024-01-01", "created_time>9999-99-99T99:99:99Z", "confidence>=1e999", "confidence>NaN",
    "importance<-0", "a & | !", "a:*", "'a", "a <-> b", "memory_id=00000000-0000-0000-0000-000000000000", "data.a=1",
    'data."a\\"b"=1', "data.a.b.c=null", "-a", "^(a+)+$", "a" * 3000 + "!", "(" * 200 + "a" + ")" * 200,
    "NOT " * 200 + "a", "type:fact level:", "\u0000:x", "subject_id=x", "created_time>2024-01-01T00:00:00+99:00",
    "metadata.x=1e400", 'metadata.x="\\u0000"', "a OR " * 150 + "a",
)  # fmt: skip

# Texts that are JSON, or nearly.
JSON_TEXTS = (
    "{}", "[]", "null", "1", '"x"', "{", '{"a":1e400}', '{"a":NaN}', '{"a":12345678901234567890123}', '{"a":1,"a":2}',
    '{"\\u0000":1}', '{"a":"\\u0000"}', '{"a":"\\ud800"}', '{"":{}}', '{"a":-0.0}', '{"a":1E-400}',
    "[" * 70 + "]" * 70, "[" * 5000 + "]" * 5000, '{"a":' * 60 + "1" + "}" * 60, '{"a":0.1}',
    '{"a":' + "9" * 5000 + "}", '{"type":"object"}', '{"type":"nonsense"}', '{"$ref":"#"}', '{"pattern":"("}',
    '{"a":1e131072}', '{"a":1e-16384}', '{"a":123456789.123456789123}',
)  # fmt: skip

# JSON objects that are Structs.
STRUCTS = (
    "{}", '{"a":1}', '{"a":null}', '{"a":1e308}', '{"a":9007199254740993}', '{"":""}', '{"a":[[],{}]}',
    '{"a":"\\u0000"}', '{"\\u0000":1}', '{"a":{"b":{"c":{"d":[1,"x",null,true]}}}}',
    '{"type":"object","properties":{"a":{"type":"string"}}}', '{"$ref":"#/$defs/x"}',
    '{"type":"array","items":{"pattern":"^(a+)+$"}}', '{"a":' * 30 + "1" + "}" * 30,
)  # fmt: skip

# Paths of field masks.
PATHS = (
    "", "*", ".", "a", "a.b", "memory_id", "tenant_id", "create_time", "update_mask", "Content", "content.x", "\0",
    "é", "a" * 300, "metadata.x",
)  # fmt: skip

# Texts that the walk over all fields puts into each.
ODDEST = (
    "", " ", "\0", "\u202e", "\U0010ffff", "\ufffe", "%", "\\", "'", '"', "*",
)  # fmt: skip
