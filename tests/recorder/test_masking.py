"""All secrets are masked, and no other text is."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.recorder.masking import (
    MASK,
    is_secret,
    mask_headers,
    mask_json,
    mask_message,
    mask_session,
    mask_text,
)
from tests.support.patience import WITHIN_S


@pytest.mark.parametrize(
    "name",
    ["password", "Password", "api_key", "apiKey", "API-KEY", "token", "access_token", "refreshToken", "jwt",
     "client_secret", "clientSecret", "privateKey", "__jwt", "db_password", "X-Auth-Token", "passphrase"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["progressToken", "maxTokens", "name", "key", "tokens", "passage", "secretary", "nextCursor", "keyboard"],
)
def test_harmless_names(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.requirement("12.5")
def test_headers() -> None:
    masked = dict(
        mask_headers(
            [
                ("Authorization", "Bearer abc.def.ghi"),
                ("X-API-Key", "k1"),
                ("Cookie", "jwt=abc; theme=dark"),
                ("X-Desk-Key", "k2"),
                ("Host", "localhost"),
                ("Referer", "http://h/?api_key=k3&x=1"),
            ],
            extra_names=["x-desk-key"],
        )
    )
    assert masked == {
        "Authorization": f"Bearer {MASK}",
        "X-API-Key": MASK,
        "Cookie": MASK,
        "X-Desk-Key": MASK,
        "Host": "localhost",
        "Referer": f"http://h/?api_key={MASK}&x=1",
    }


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("GET /mcp?api_key=abc&mode=x HTTP/1.1", f"GET /mcp?api_key={MASK}&mode=x HTTP/1.1"),
        ("GET /mcp?%61pi_key=abc&mode=x HTTP/1.1", f"GET /mcp?%61pi_key={MASK}&mode=x HTTP/1.1"),
        ("/mcp?%61%70%69%5F%6b%65%79=abc", f"/mcp?%61%70%69%5F%6b%65%79={MASK}"),
        ("/mcp?%2561pi_key=abc", f"/mcp?%2561pi_key={MASK}"),
        ("/mcp?API.Key=abc&aPi_kEy=def", f"/mcp?API.Key={MASK}&aPi_kEy={MASK}"),
        ("/mcp?mode=x;api_key=abc;b=c", f"/mcp?mode=x;api_key={MASK};b=c"),
        ("/mcp?api_key=sec;ret&b=c", f"/mcp?api_key={MASK}&b=c"),
        ("/mcp?api_key=sec'ret\"s&b=c", f"/mcp?api_key={MASK}&b=c"),
        ("/mcp?+api_key[]=abc", f"/mcp?+api_key[]={MASK}"),
        ("/cb#access_token=abc&state=x", f"/cb#access_token={MASK}&state=x"),
        (
            "/in?to=http%3A%2F%2Fh%3Fapi_key%3Dabc%26x%3D1&b=c",
            f"/in?to=http%3A%2F%2Fh%3Fapi_key%3D{MASK}&b=c",
        ),
        ("/in?to=%253Fa%253D1%2526%2561pi_key%253Dabc", f"/in?to=%253Fa%253D1%2526%2561pi_key%253D{MASK}"),
        (r'"http://h?a=b\u0026api_key=abc"', rf'"http://h?a=b\u0026api_key={MASK}"'),
        ("curl 'http://h?client_secret=abc' -H 'a: b'", f"curl 'http://h?client_secret={MASK}' -H 'a: b'"),
        ("/list?pageToken=abc&keyboard=qwertz&page=1", "/list?pageToken=abc&keyboard=qwertz&page=1"),
        ("ws://h/ws?mode=x&token=abc", f"ws://h/ws?mode=x&token={MASK}"),
        ("Authorization: Bearer abcdefgh", f"Authorization: Bearer {MASK}"),
        ("redis://user:pa55@host/0", f"redis://user:{MASK}@host/0"),
        ('{"password":"hunter2","user":"ada"}', f'{{"password":"{MASK}","user":"ada"}}'),
        (r'{"text":"{\"token\": \"abc\"}"}', r'{"text":"{\"token\": \"' + MASK + r'\"}"}'),
        ("curl -H 'X-API-Key: abc123'", f"curl -H 'X-API-Key: {MASK}'"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", MASK),
        (r'"token":"a\"b","x":"y"', f'"token":"{MASK}","x":"y"'),
        ('"token":"never ends', f'"token":"{MASK}'),
        ("the bearer of bad news", "the bearer of bad news"),
        ("a plain sentence about a token", "a plain sentence about a token"),
    ],
)
def test_text(text: str, masked: str) -> None:
    assert mask_text(text) == masked


def test_json_by_key_at_any_depth() -> None:
    value = {
        "a": [{"password": "x", "n": 1}],
        "token": 5,
        "secret": {"deep": 1},
        "apiKey": None,
        "isSecret": True,
    }
    assert mask_json(value) == {
        "a": [{"password": MASK, "n": 1}],
        "token": MASK,
        "secret": MASK,
        "apiKey": None,
        "isSecret": True,
    }
    assert value["token"] == 5


def test_json_by_schema() -> None:
    schema = {
        "properties": {
            "pin": {"type": "string", "format": "password"},
            "code": {"writeOnly": True},
            "users": {"items": {"properties": {"word": {"format": "password"}}}},
        }
    }
    value = {"pin": "1234", "code": 5, "users": [{"word": "x", "name": "ada"}], "plain": "y"}
    assert mask_json(value, schema) == {
        "pin": MASK,
        "code": MASK,
        "users": [{"word": MASK, "name": "ada"}],
        "plain": "y",
    }


def test_the_schema_of_a_secret_parameter_is_no_secret() -> None:
    schema = {"properties": {"password": {"type": "string", "description": "of the user"}}}
    assert mask_json(schema) == schema


def test_a_called_tools_arguments_follow_its_schema() -> None:
    arguments: dict[str, Any] = {"word": "x", "_meta": 1}
    message = {"method": "tools/call", "params": {"name": "t", "arguments": arguments}}
    masked = mask_message(message, {"properties": {"word": {"format": "password"}}})
    assert masked["params"]["arguments"]["word"] == MASK
    assert arguments["word"] == "x"
    assert mask_message({"params": []}, {}) == {"params": []}
    assert mask_message("text") == "text"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_a_secret_never_survives_under_its_name(value: Any) -> None:
    masked = mask_json({"outer": {"password": "s3cr3t-value", "rest": value}})
    assert masked["outer"]["password"] == MASK
    assert type(masked["outer"]["rest"]) is type(value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "x-",
        "x.",
        "eyJ-",
        "eyJ.",
        "eyJ",
        "\\",
        "://",
        "key-",
        "cookie ",
        "Bearer ",
        "?a",
        "?%61",
        ";a",
        "?keyring=;",
        "%253f",
        "&",
        "key:",
        "token: str ",
        "cookie:a;",
        "'password' : ",
        "-----BEGIN ",
        "token = ",
    ],
)
def test_what_only_begins_like_a_secret_is_read_over_once(piece: str) -> None:
    text = f'"{piece * (200_000 // len(piece))}'
    began = time.process_time()
    assert mask_text(text).startswith(text[:7])
    assert time.process_time() - began < WITHIN_S


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('echo "token=planted-SECRET-42"', 'echo "token=••••"'),
        ("GITHUB_TOKEN=planted make release", "GITHUB_TOKEN=•••• make release"),
        ("export DB_PASSWORD='planted words' && run", "export DB_PASSWORD=••••' && run"),
        (r'{"command":"API_KEY=\"planted\" curl x"}', r'{"command":"API_KEY=••••\" curl x"}'),
        ("mysql --user me --password planted -e 'select 1'", "mysql --user me --password •••• -e 'select 1'"),
        ("deploy --client-secret=planted --dry-run", "deploy --client-secret=•••• --dry-run"),
        ("it is ghp_" + "a1B2" * 9 + ", keep it", "it is ••••, keep it"),
        ("AKIAIOSFODNN7EXAMPLE and glpat-" + "x" * 20, "•••• and ••••"),
    ],
)
def test_secrets_in_commands_and_prose_are_masked(text: str, shown: str) -> None:
    assert mask_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=512 and next_token=abc stay",
        "ls --all --color auto",
        "tool --token --verbose",
        "sk-learn and ghp_short are words",
        "x=1; y==2",
        "key: value, name: ada, path: /a/b, turkey: bird, request-id: 7",
        "def login(user: str, password: str) -> None: ...",
        "def login(token: str): pass",
        "type Login = { token: string; secret?: boolean }",
        "urn:token:abc and rows[token:end]",
        "if token == other: pass",
        '{"max_tokens": 5, "progressToken": 7, "required": ["password"], "token": null}',
        "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----",
        "trace_id: abc\nsession: open",
    ],
)
def test_what_is_no_secret_in_a_command_stays(text: str) -> None:
    assert mask_text(text) == text


KEY = "-----BEGIN {0}PRIVATE KEY-----{1}MIIEplanted{1}planted+/=={1}-----END {0}PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password: correcthorse", "password: ••••"),
        ("a\napi_key: ABCDEFGH12345678ijkl\nb: c", "a\napi_key: ••••\nb: c"),
        ("{client_secret: topsecretvalue1}", "{client_secret: ••••}"),
        ("{user: ada, client_secret: planted, x: 1}", "{user: ada, client_secret: ••••, x: 1}"),
        ("turkey:password: planted", "turkey:password: ••••"),
        ("DB_PASSWORD : planted", "DB_PASSWORD : ••••"),
        ("password: 'correct horse'", "password: ••••'"),
        ("{'password': 'planted', 'user': 'ada'}", "{'password': ••••', 'user': 'ada'}"),
        (r'{"text":"password: planted\nuser: ada"}', r'{"text":"password: ••••\nuser: ada"}'),
        (r'{"text":"password: \"planted\", a"}', r'{"text":"password: ••••\", a"}'),
        ('{"text":"password: ","user":"ada"}', '{"text":"password: ","user":"ada"}'),
        ('{"token":12345,"n":1}', '{"token":••••,"n":1}'),
        ('api_key = "planted"', 'api_key = ••••"'),
        ("Authorization: token planted", "Authorization: token ••••"),
        ("Cookie: a=1; sid=planted", "Cookie: ••••"),
        ("X-API-Key:planted", "X-API-Key:••••"),
        ("Mcp-Session-Id: planted", "Mcp-Session-Id: ••••"),
        ("GET /messages/?session_id=planted HTTP/1.1", "GET /messages/?session_id=•••• HTTP/1.1"),
        ("a " + KEY.format("", "\n") + " b", "a •••• b"),
        (KEY.format("RSA ", "\\n") + "\nb", "••••\nb"),
        (KEY.format("OPENSSH ", "\n")[:60], "••••"),
    ],
)
def test_secrets_behind_a_name_and_private_keys_are_masked(text: str, shown: str) -> None:
    assert mask_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        'password: "planted$(planted"',
        "postgres://ada:planted`planted@host/db",
        "postgres://ada:$(planted@host/db",
        '{"password": "$(planted"}',
        "Cookie: sid=planted; planted; b=c`planted",
    ],
)
def test_a_secret_with_signs_of_a_shell_in_it_is_masked_whole(text: str) -> None:
    assert "planted" not in mask_text(text)


def test_sessions_are_masked_and_told_apart() -> None:
    shown = [value for _, value in mask_headers(("Mcp-Session-Id", one) for one in ("one-id", "two-id"))]
    assert shown[0] != shown[1] and all(value.startswith(MASK) and "-id" not in value for value in shown)
    assert mask_headers([("mcp-session-id", "one-id")])[0][1] == shown[0] == mask_session(shown[0])
