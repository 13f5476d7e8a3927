"""Mask keys, tokens and passwords in text before it is written; pure.

    mask("the key is sk-ant-…")     # text: "the key is [masked Anthropic key]", secrets: 1

The forms are those that issuers publish, so that leaked keys can be found, and RFC 7468, RFC 7519,
RFC 3986 and RFC 6750 for keys, tokens and addresses of no single issuer; a value that something
calls a password, a secret, a token or a key counts, too. `detect-secrets` is not used: it needs
170 ms to load, which every hook that ends a turn would wait for, and lacks today's model keys.

A form is compiled only once a text has one of its words, and tried only where these are: so a long
text without secrets costs little. No text is ever shown: only counted.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import re
from collections.abc import Iterator, Sequence
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
        words: Each match begins with one of them, in small letters.
        pattern: The secret is its group `s`, or else the whole match.
        inside: Whether matches have these words anywhere.
    """

    name: str
    words: tuple[str, ...]
    pattern: str
    inside: bool = False


_GITLAB: Final = "pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat"
_ISSUED: Final = (
    _Form(
        "private key",
        ("private key",),
        r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|[\s\w+/=\\]*)",
        inside=True,
    ),
    _Form("Anthropic key", ("sk-ant-",), r"sk-ant-[\w-]{8,}"),
    _Form(
        "model provider key",
        ("sk-", "gsk_", "xai-", "hf_", "r8_"),
        r"(?<![\w-])(?:sk-(?=[\w-]*\d)[\w-]{16,}|gsk_\w{20,}|xai-[\w-]{20,}|hf_\w{30,}|r8_\w{30,})",
    ),
    _Form(
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?<!\w)(?:gh[pousr]_\w{30,}|github_pat_\w{40,})",
    ),
    _Form(
        "GitLab token",
        tuple([f"gl{one}-" for one in _GITLAB.split("|")]),
        rf"(?<!\w)gl(?:{_GITLAB})-[\w-]{{20,}}",
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
        ("rk_live_", "rk_test_", "sk_live_", "sk_test_", "whsec_"),
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
            *("sg.", "hvs.", "dapi", "dop_v1_", "doo_v1_", "dor_v1_", "shpat_", "shpca_"),
            *("shppa_", "shpss_", "lin_api_", "ntn_", "sntrys_", "sntryu_", "atatt3"),
            "age-secret-key-1",
        ),
        r"(?<!\w)(?:SG\.[\w-]{16,}\.[\w-]{16,}|hvs\.[\w-]{20,}|dapi[0-9a-f]{32}|do[opr]_v1_[0-9a-f]{64}"
        r"|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|lin_api_\w{32,}|ntn_\w{40,}|sntry[su]_[\w+/=-]{30,}"
        r"|ATATT3[\w=-]{50,}|AGE-SECRET-KEY-1[A-Z0-9]{50,})",
    ),
    _Form("bot token", (":aa",), r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])", inside=True),
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

_KEYS: Final = "api|access|private|signing|encryption|auth"
_WORDS: Final = (
    *("passw", "pwd", "passphrase", "secret", "token", "credential"),
    *[f"{one}{sign}key" for one in _KEYS.split("|") for sign in ("", "_", " ", "-")],
)
_NAMES: Final = (
    r"(?i:(?P<pass>passw(?:or)?d|passwd|pwd|passphrase)"
    rf"|secret|token|(?:{_KEYS})[_ -]?key|credential)s?"
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
    small, count = _small(text), 0
    for form in (*_ISSUED, _NAMED):
        words = [word for word in form.words if word in small]
        if not words:
            continue
        pieces: list[str] = []
        end = 0
        for match in _matches(form, words, text, small):
            marked = _named(match) if form is _NAMED else _marked(match, form.name)
            pieces += text[end : match.start()], marked
            count += marked != match[0]
            end = match.end()
        if pieces:
            text = "".join([*pieces, text[end:]])
            small = _small(text)
    return Masked(text, count)


def _small(text: str) -> str:
    """Return a text in small letters, each at the place of its own."""
    small = text.lower()
    if len(small) != len(text):
        small = "".join([one if len(low := one.lower()) != 1 else low for one in text])
    return small


def _matches(form: _Form, words: Sequence[str], text: str, small: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a form from left to right, none inside another.

    Args:
        form: The form.
        words: Those of its words that the text has.
        text: The text.
        small: The same in small letters.
    """
    if form.inside:
        yield from re.finditer(form.pattern, text)
        return
    end, pattern = 0, re.compile(form.pattern)
    for at in sorted([at for word in words for at in _places(word, small)]):
        match = pattern.match(text, at) if at >= end else None
        if match is not None:
            end = match.end()
            yield match


def _places(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _named(match: re.Match[str]) -> str:
    """Return a match of a named value; masked if the value looks like a secret."""
    group = next(name for name in ("quoted", "bare", "said") if match[name] is not None)
    return _marked(match, _NAMED.name, group) if _is_secret(match, group) else match[0]


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
