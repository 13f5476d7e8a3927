"""Keys, tokens and passwords are masked; what only looks a little like one stays.

No secret here was ever one: each is put together from parts, so that no scanner of repositories
takes this file for a leak.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.base.text.masking import mask
from agentforge_sessions.harness.views.quotation import quoted

KEY = "Zq9xV7b2" * 10
SECRETS = {
    "anthropic": f"sk-{'ant'}-api03-{KEY}",
    "openai": f"sk-{'proj'}-{KEY}",
    "github": f"gh{'p'}_{KEY[:36]}",
    "github, fine-grained": f"github_{'pat'}_{KEY}",
    "gitlab": f"gl{'pat'}-{KEY[:20]}",
    "aws": f"AK{'IA'}IOSFODNN7ABCDEFG",
    "google": f"AI{'za'}{KEY[:35]}",
    "slack": f"xo{'xb'}-{KEY[:24]}",
    "stripe": f"sk_{'live'}_{KEY[:24]}",
    "npm": f"np{'m_'}{KEY[:36]}",
    "pypi": f"py{'pi-'}AgEIcHlwaS5vcmc{KEY}",
    "sendgrid": f"S{'G.'}{KEY[:22]}.{KEY[:43]}",
    "hugging face": f"h{'f_'}{KEY[:34]}",
    "web token": f"ey{'J'}hbGciOiJI.ey{'J'}zdWIiOiIx.{KEY}",
    "private key": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    "private key, cut off": "-----BEGIN OPENSSH PRIVATE " + "KEY-----\nb3BlbnNzaC1rZXk\nAAAA",
}
AROUND = ["{}", "it is {}, so use it", '{{"command": "curl -H \'X: {}\'"}}', "a\n{}\nb", "key={}"]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_of_a_known_form_is_masked_wherever_it_is(kind: str, around: str) -> None:
    secret = SECRETS[kind]
    found = mask(around.format(secret))
    assert found.secrets == 1
    assert not any(line in found.text for line in secret.splitlines() if len(line) > 4)
    assert "[masked " in found.text
    assert found.text.split("[masked ")[0] == around.format(secret).split(secret)[0]
    assert mask(found.text) == (found.text, 0)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('password = "hunter2"', "hunter2"),
        ("'db_password': 'correct horse'", "correct horse"),
        ("DB_PASSWORD=correcthorse", "correcthorse"),
        ("password: hunter2!", "hunter2!"),
        ("mysql --password hunter2", "hunter2"),
        ("my password is hunter2!", "hunter2!"),
        ("export API_KEY=abc123def456", "abc123def456"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
        (r'{"env": "TOKEN=abc123def456\n"}', "abc123def456"),
        (r"{\"password\": \"hunter2\"}", "hunter2"),
        ("postgres://app:s3cret@db/app", "s3cret"),
        ("https://user:abc@host", "abc"),
        ("Authorization: Bearer abcdef1234567890abcd", "abcdef1234567890abcd"),
        ("AccountKey=" + "a1B2" * 11 + ";", "a1B2" * 11),
    ],
)
def test_a_value_that_is_called_a_secret_is_masked(text: str, secret: str) -> None:
    found = mask(text)
    assert found.secrets == 1
    assert secret not in found.text
    assert text.split(secret, maxsplit=1)[0] == found.text.split("[masked ")[0]


@pytest.mark.parametrize(
    "text",
    [
        "input_tokens: 1000, output_tokens: 50",
        "max_tokens=4096",
        "token = os.environ.get('TOKEN')",
        "token: self.tokens2.pop()",
        "password: str = field(default=None)",
        "password=${DB_PASSWORD}",
        'api_key = "YOUR_API_KEY"',
        "the password is wrong",
        "basic authentication, bearer tokens",
        "secret_manager.py:12",
        "a key: value",
        "https://example.org/a:b@c",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "sk-learn-contrib-packages",
        "session_20261127_123828_861633",
        "/home/p/.ssh/id_ed25519.pub",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == (text, 0)


@given(st.text(), st.text(), st.sampled_from(sorted(SECRETS)))
def test_no_text_around_a_secret_fails_or_is_lost(before: str, after: str, kind: str) -> None:
    found = mask(f"{before} \n{SECRETS['github']}\n {after}")
    assert SECRETS["github"] not in found.text
    assert found.secrets >= 1


def test_a_letter_that_is_longer_when_small_shifts_nothing() -> None:
    text = f"İİİİ {SECRETS['github']} İ password=hunter2x"
    assert mask(text) == ("İİİİ [masked GitHub token] İ password=[masked secret]", 2)


def test_what_a_briefing_quotes_is_masked() -> None:
    assert quoted(f"use {SECRETS['github']}, please") == "“use [masked GitHub token], please”"
