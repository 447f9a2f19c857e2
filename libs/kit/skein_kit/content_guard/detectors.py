"""Detectors of secrets and personal data in a text. Pure.

A secret is recognized by the form that its issuer gives it, or by the name before it. A payment card or an account
number needs a valid checksum. The patterns repeat nothing without a bound, so that their time grows linearly with the
text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Final

# Groups of four are written with one space or hyphen between them.
_CARD_DIGITS = range(13, 20)
_LUHN_MODULUS, _IBAN_MODULUS = 10, 97
_MIN_PASSWORD = 6
_SECRET_NAME = re.compile(
    r"(?:^|[^a-z])(?:secret(?:_?value|_?key)?|passw(?:or)?d|passphrase|passcode|pwd|(?:access|auth|refresh|bearer)_?token"
    r"|api_?key|private_?key)$",
    re.IGNORECASE,
)
_KEY_LABEL = r"(?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"


class Category(StrEnum):
    """What a finding is; a policy has an action for each."""

    SECRET = "secret"  # noqa: S105 - the name of a category.
    PERSONAL_DATA = "personal_data"


@dataclass(frozen=True, slots=True)
class Finding:
    """A part of a text, by characters, and what it is. It does not hold the text."""

    kind: str
    category: Category
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Detector:
    """Finds one kind of value by a pattern, whose group `value` is the finding if there is one."""

    kind: str
    category: Category
    pattern: re.Pattern[str]
    is_valid: Callable[[str], bool] = bool
    # A finding goes on to the end of the match of this pattern right behind it.
    body: re.Pattern[str] | None = None

    def find(self, text: str) -> Iterator[Finding]:
        """Find the values in a text, in their order."""
        group: int | str = "value" if "value" in self.pattern.groupindex else 0
        position = 0
        while match := self.pattern.search(text, position):
            start, end = match.span(group)
            if self.body is not None and (body := self.body.match(text, end)):
                end = body.end()
            if self.is_valid(match[group]):
                yield Finding(self.kind, self.category, start, end)
            position = max(end, match.end())


def has_luhn_checksum(text: str) -> bool:
    """Return whether the digits of a text are a card number by their length and checksum (ISO/IEC 7812-1)."""
    digits = [int(character) for character in text if character.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    # A run of one digit passes the checksum, and is a placeholder.
    is_number = len(digits) in _CARD_DIGITS and len(set(digits)) > 1
    return is_number and (sum(digits[-1::-2]) + sum(doubled)) % _LUHN_MODULUS == 0


def has_iban_checksum(text: str) -> bool:
    """Return whether a text is an account number by its checksum (ISO 13616)."""
    compact = text.replace(" ", "").upper()
    return int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % _IBAN_MODULUS == 1


def _secret(kind: str, pattern: str, flags: int = 0) -> Detector:
    return Detector(kind=kind, category=Category.SECRET, pattern=re.compile(pattern, flags))


def _token(kind: str, pattern: str) -> Detector:
    """Return a detector of a token that is a word of its own."""
    return _secret(kind, rf"(?<![A-Za-z0-9_\-]){pattern}(?![A-Za-z0-9_\-])")


def _personal(kind: str, pattern: str, is_valid: Callable[[str], bool] = bool) -> Detector:
    return Detector(kind=kind, category=Category.PERSONAL_DATA, pattern=re.compile(pattern), is_valid=is_valid)


DETECTORS: Final[Sequence[Detector]] = (
    # To its end, or as far as the text has it: headers and lines of Base64.
    Detector(
        kind="private_key",
        category=Category.SECRET,
        pattern=re.compile(rf"-----BEGIN {_KEY_LABEL}"),
        body=re.compile(
            r"(?:(?:\\n|\s){1,8}(?:[A-Za-z-]{4,20}: [^\r\n]{1,200}|[A-Za-z0-9+/=]{1,4096})){0,2000}"
            rf"(?:(?:\\n|\s){{0,8}}-----END {_KEY_LABEL})?"
        ),
    ),
    _token("aws_access_key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    _token("github_token", r"(?:gh[oprsu]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{22,255})"),
    _token("gitlab_token", r"gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_\-]{20,255}"),
    _token("slack_token", r"xox[abeoprs]-[A-Za-z0-9\-]{10,255}"),
    _token("stripe_key", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,247}"),
    _token("openai_key", r"sk-(?:[A-Za-z0-9]{48}|(?:proj|svcacct|admin|None)-[A-Za-z0-9_\-]{20,255})"),
    _token("anthropic_key", r"sk-ant-[A-Za-z0-9_\-]{20,255}"),
    _token("google_api_key", r"AIza[A-Za-z0-9_\-]{35}"),
    _token("npm_token", r"npm_[A-Za-z0-9]{36}"),
    _token("pypi_token", r"pypi-[A-Za-z0-9_\-]{50,255}"),
    _token("sendgrid_key", r"SG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}"),
    _token("telegram_token", r"[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}"),
    _token("skein_key", r"skein_(?:[a-z]{2,8}_)?[a-z2-7]{100,128}"),
    _token("json_web_token", r"eyJ[A-Za-z0-9_\-]{8,4096}\.eyJ[A-Za-z0-9_\-]{8,4096}\.[A-Za-z0-9_\-]{8,4096}"),
    _secret(
        "url_password",
        r"(?<![A-Za-z0-9])[a-z][a-z0-9+.\-]{1,20}://[^\s/:@\"'<>]{1,64}:(?P<value>[^\s/:@\"'<>]{3,128})@(?=[A-Za-z0-9\[])",
    ),
    _secret(
        "password",
        r"(?<![a-z0-9])(?:password|passwd|passphrase|passcode|pwd|api[ _\-]?key|secret[ _\-]?key|access[ _\-]?token"
        r"|client[ _\-]?secret|auth[ _\-]?token)\\?[\"']?"
        r"(?:\s{0,3}[:=]{1,2}>?\s{0,3}|\s{1,3}is:?\s{1,3}(?=\S{0,63}[0-9!#$%&*+=?@^_~]))"
        r"[\"'`]?(?!\[)(?P<value>[^\s\"'`,;]{6,128}(?<![.!?)]))",
        re.IGNORECASE,
    ),
    _personal(
        "payment_card", r"(?<![0-9A-Za-z.\-])[2-6][0-9]{3}(?:[ \-]?[0-9]){9,15}(?![0-9A-Za-z\-])", has_luhn_checksum
    ),
    _personal(
        "bank_account",
        r"(?<![0-9A-Za-z])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![0-9A-Za-z])",
        has_iban_checksum,
    ),
    _personal(
        "social_security_number", r"(?<![0-9\-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![0-9\-])"
    ),
    _personal(
        "email_address",
        r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9][A-Za-z0-9._%+\-]{0,63}@(?:[A-Za-z0-9\-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9\-])",
    ),
    _personal("phone_number", r"(?<![0-9A-Za-z+])\+[1-9](?:[ .\-/()]{0,2}[0-9]){7,14}(?![0-9])"),
)


def find(
    text: str, categories: Collection[Category], *, name: str = "", others: Iterable[Finding] = ()
) -> list[Finding]:
    """Return the findings of some categories in a text, in their order.

    `name` is the name that the text has in a structure: under that of a secret, the whole text is one. Of overlapping
    findings a secret counts, else the first, longest one. `others` are findings of another detector.
    """
    if Category.SECRET in categories and name and len(text) >= _MIN_PASSWORD and _SECRET_NAME.search(name):
        return [Finding("password", Category.SECRET, 0, len(text))]
    found = [finding for detector in DETECTORS if detector.category in categories for finding in detector.find(text)]
    found += [finding for finding in others if finding.category in categories]
    secrets = _without_overlaps(finding for finding in found if finding.category is Category.SECRET)
    others = _without_overlaps(finding for finding in found if finding.category is not Category.SECRET)
    ends = [finding.end for finding in secrets]

    def is_free(finding: Finding) -> bool:
        """Return whether no secret overlaps a finding."""
        index = bisect_right(ends, finding.start)
        return index == len(secrets) or secrets[index].start >= finding.end

    return sorted((*secrets, *filter(is_free, others)), key=attrgetter("start"))


def _without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    result: list[Finding] = []
    for finding in sorted(findings, key=lambda finding: (finding.start, -finding.end)):
        if not result or finding.start >= result[-1].end:
            result.append(finding)
    return result
