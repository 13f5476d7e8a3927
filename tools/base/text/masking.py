"""Mask keys, tokens and passwords in text before it is written; pure.

    mask("the key is sk-ant-…")     # text: "the key is [masked Anthropic key]", secrets: 1

The forms are those that issuers publish, so that leaked keys can be found, and RFC 7468, RFC 7519,
RFC 3986 and RFC 6750 for keys, tokens and addresses of no single issuer; a value that something
calls a password, a secret, a token or a key counts, too. `detect-secrets` is not used: it needs
170 ms to load, which every hook that ends a turn would wait for, and lacks today's model keys.

A form is compiled only once a text has one of its words. No text is ever shown: only counted.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import re
from functools import partial
from typing import Final, NamedTuple

_MARK: Final = "[masked "


class Masked(NamedTuple):
    """A text without its secrets.

    Attributes:
        text: The text; each secret is replaced by what it was, as in `[masked GitHub token]`.
        secrets: How many were replaced.
    """

    text: str
    secrets: int


class _Form(NamedTuple):
    """How a secret looks.

    Attributes:
        name: What it is.
        words: A text without any of them, in small letters, has no such secret.
        pattern: The secret is its group `s`, or else the whole match.
    """

    name: str
    words: tuple[str, ...]
    pattern: str


_ISSUED: Final = (
    _Form(
        "private key",
        ("private key",),
        r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|[\s\w+/=\\]*)",
    ),
    _Form("Anthropic key", ("sk-ant-",), r"sk-ant-[\w-]{8,}"),
    _Form(
        "model provider key",
        ("sk-", "gsk_", "xai-", "hf_", "r8_"),
        r"(?<![\w-])(?:sk-(?=[\w-]*\d)[\w-]{16,}|gsk_\w{20,}|xai-[\w-]{20,}|hf_\w{30,}|r8_\w{30,})",
    ),
    _Form(
        "GitHub token", ("gh", "github_pat_"), r"(?<!\w)(?:gh[pousr]_\w{30,}|github_pat_\w{40,})"
    ),
    _Form(
        "GitLab token", ("gl",), r"(?<!\w)gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-[\w-]{20,}"
    ),
    _Form("AWS key id", ("akia", "asia"), r"(?<!\w)A(?:KI|SI)A[A-Z0-9]{16}(?!\w)"),
    _Form(
        "Google key",
        ("aiza", "gocspx-", "ya29."),
        r"(?<!\w)(?:AIza[\w-]{35}|GOCSPX-[\w-]{20,}|ya29\.[\w-]{20,})",
    ),
    _Form("Azure key", ("accountkey=",), r"AccountKey=(?P<s>[\w+/=]{40,})"),
    _Form(
        "Slack token",
        ("xox", "xapp-", "hooks.slack.com"),
        r"(?<!\w)(?:xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,})"
        r"|hooks\.slack\.com/services/(?P<s>[\w/]{20,})",
    ),
    _Form(
        "payment key",
        ("k_live_", "k_test_", "whsec_"),
        r"(?<!\w)(?:[rs]k_(?:live|test)_\w{10,}|whsec_[\w+/=]{20,})",
    ),
    _Form(
        "package registry token",
        ("npm_", "pypi-", "dckr_"),
        r"(?<!\w)(?:npm_\w{36}|pypi-[\w-]{50,}|dckr_[ps]at_[\w-]{20,})",
    ),
    _Form(
        "service token",
        (
            "sg.",
            "hvs.",
            "dapi",
            "do",
            "shp",
            "lin_api_",
            "ntn_",
            "sntry",
            "atatt3",
            "key-1",
            "glc_",
        ),
        r"(?<!\w)(?:SG\.[\w-]{16,}\.[\w-]{16,}|hvs\.[\w-]{20,}|dapi[0-9a-f]{32}|do[opr]_v1_[0-9a-f]{64}"
        r"|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|lin_api_\w{32,}|ntn_\w{40,}|sntry[su]_[\w+/=-]{30,}"
        r"|ATATT3[\w=-]{50,}|AGE-SECRET-KEY-1[A-Z0-9]{50,})",
    ),
    _Form("bot token", (":aa",), r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])"),
    _Form("JSON web token", ("eyj",), r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    _Form("password", ("://",), r"://[^\s/:@\"'<>]{0,100}:(?P<s>(?![${<\[])[^\s/@\"'<>]{2,200})@"),
    _Form(
        "credentials",
        ("bearer", "basic", "authorization"),
        r"(?i:(?:bearer|basic|authorization:\s{0,3}\w{0,10})\s{1,3})"
        r"(?P<s>(?=[\w.~+/=-]*\d)[\w.~+/-]{16,}={0,2})",
    ),
)
"""Secrets that are known by their own form."""

_WORDS: Final = ("passw", "pwd", "passphrase", "secret", "token", "key", "credential")
_NAMES: Final = (
    r"(?i:(?P<pass>passw(?:or)?d|passwd|pwd|passphrase)"
    r"|secret|token|(?:api|access|private|signing|encryption|auth)[_ -]?key|credential)s?"
)
_ASSIGNED: Final = r"[\w-]{0,20}\\?[\"']?\s{0,3}(?:=>|:=|=|:)\s{0,3}"
_BARE: Final = r"[^\s\"'`\\,;(){}\[\]<>$&|]{4,500}"
_NAMED: Final = _Form(
    "secret",
    _WORDS,
    rf"{_NAMES}(?:"
    # assigned, in quotes: password = "…", "token": "…", also inside a quoted text
    rf"{_ASSIGNED}(?P<q>\\?[\"'`])(?P<quoted>[^\"'`\\\n]{{4,500}})(?P=q)"
    # assigned without: TOKEN=…, password: …
    rf"|{_ASSIGNED}(?P<bare>{_BARE})(?![\w(\[])"
    # an option of a command, or a sentence
    rf"|[ =](?:(?:is|was)[: ]{{1,2}})?\\?[\"'`]?(?P<said>{_BARE})"
    r")",
)
_PLACEHOLDER: Final = (
    r"(?i)[\W_]*(?:x+|\*+|\.+|your[\w-]*|example[\w-]*|change-?me|none|null|true|false)[\W_]*"
)
_LEAST_CHARS: Final = 8
"""Shorter values of tokens and keys are names or numbers."""
_IDENTIFIER: Final = r"[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+"


def mask(text: str) -> Masked:
    """Return a text without its keys, tokens and passwords."""
    small, count = text.lower(), 0
    for form in _ISSUED:
        if any(word in small for word in form.words):
            text, found = re.subn(form.pattern, partial(_marked, name=form.name), text)
            count += found
    if any(word in small for word in _WORDS):
        found = 0

        def named(match: re.Match[str]) -> str:
            nonlocal found
            group = next(name for name in ("quoted", "bare", "said") if match[name] is not None)
            if not _is_secret(match, group):
                return match[0]
            found += 1
            return _marked(match, _NAMED.name, group)

        text = re.sub(_NAMED.pattern, named, text)
        count += found
    return Masked(text, count)


def _marked(match: re.Match[str], name: str, group: str = "s") -> str:
    begin, end = match.span()
    if group in match.re.groupindex and match[group] is not None:
        begin, end = match.span(group)
    before, after = match.string[match.start() : begin], match.string[end : match.end()]
    return f"{before}{_MARK}{name}]{after}"


def _is_secret(match: re.Match[str], group: str) -> bool:
    """Return whether the value of something that is called a secret looks like one."""
    value, is_password = match[group], match["pass"] is not None
    if value.startswith((_MARK, "$", "{", "<", "%")) or re.fullmatch(_PLACEHOLDER, value):
        return False
    if group == "quoted" and is_password:
        return True
    if re.fullmatch(_IDENTIFIER, value):  # an expression of a program
        return False
    if is_password and match.string[match.start(group) - 1] == "=":  # as in a file of settings
        return True
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    return has_digit and has_letter and (is_password or len(value) >= _LEAST_CHARS)


__all__ = ["Masked", "mask"]
