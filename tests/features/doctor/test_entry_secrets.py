"""Secrets of an entry are masked everywhere, and unsafe settings are named without their values."""

from __future__ import annotations

import pytest

from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.client.targets import UrlTarget
from mcpdesk.features.doctor.entry_secrets import Secrets, secrets_of, unsafe_settings
from mcpdesk.features.doctor.report import UnsafeKind

SERVER = ConfiguredServer(
    "shop",
    ("server", "--token", "argument-word", "--apiKey=option-word", "PASSWORD=assigned", "--name", "public"),
    environment={"SHOP_PASSWORD": "variable-word", "DSN": "postgres://me:in-a-dsn@db/x", "LEVEL": "debug"},
)
REMOTE = ConfiguredServer(
    "remote",
    url="https://example.com/mcp?api_key=in-the-query&page=third",
    headers={"Authorization": "Bearer in-a-header", "X-Team": "public-team"},
)


def test_values_of_secrets_are_masked_wherever_a_server_prints_them() -> None:
    secrets = secrets_of(SERVER)
    printed = "argument-word option-word assigned variable-word in-a-dsn debug public"
    masked = secrets.masked(f"{printed} postgres://me:in-a-dsn@db/x")
    for word in ("argument-word", "option-word", "assigned", "variable-word"):
        assert word not in masked
    assert "debug public" in masked and "in-a-dsn@" not in masked
    assert "in-a-header" not in secrets_of(REMOTE).masked("sent in-a-header to public-team")
    assert "in-the-query" not in secrets_of(REMOTE).masked("query in-the-query")


def test_values_of_variables_and_inputs_are_secrets() -> None:
    server = ConfiguredServer("shop", ("server", "${MY_TOKEN}", "${SHOP}"), environment={"A": "${input:pin}"})
    secrets = secrets_of(server, None, {"MY_TOKEN": "from-outside", "SHOP": "visible"}, ["typed-in"])
    assert secrets.masked("from-outside visible typed-in").count("••••") == 2
    assert "visible" in secrets.masked("visible")


def test_long_texts_are_cut() -> None:
    assert len(secrets_of(SERVER).masked("x" * 10_000_000, 100)) == 100


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "https://x.test/?api_key=p%40ss%2Fword%2B1",
            ["p%40ss%2Fword%2B1", "p@ss/word+1"],
        ),
        ("https://x.test/?page=3&token=two+words%21", ["two+words%21", "two words!", "two%20words%21"]),
        ("https://x.test/?token=%26first%3Dsecond", ["%26first%3Dsecond", "&first=second"]),
        ("https://me:p%40ss-word@x.test/", ["p%40ss-word", "p@ss-word"]),
    ],
)
def test_a_secret_in_a_url_is_masked_encoded_and_decoded(url: str, shown: list[str]) -> None:
    for server in (ConfiguredServer("a", url=url), ConfiguredServer("a", ("serve", f"--upstream={url}"))):
        secrets = secrets_of(server)
        for text in shown:
            assert secrets.masked(f"login {text} is refused") == "login •••• is refused"


JWT = f"eyJ{'a' * 60}.eyJ{'b' * 1500}.{'c' * 70}"


@pytest.mark.parametrize("longest", [100, 120, 300, 600])
def test_a_long_secret_is_masked_before_the_text_is_cut(longest: int) -> None:
    known = Secrets([key := "k0" * 900])
    for secret, secrets in ((JWT, Secrets([])), (JWT, Secrets([JWT])), (key, known)):
        for before in ("", "x" * (longest - 10), "x" * (longest * 4 - 50)):
            masked = secrets.masked(f"{before} {secret} after", longest)
            assert len(masked) <= longest
            assert "eyJ" not in masked and "k0k0" not in masked
    assert known.masked(f"token {key} after", longest) == "token •••• after"


def test_a_secret_that_was_cut_before_is_masked() -> None:
    secrets = Secrets(["first-secret-word", "fir-secret"])
    assert secrets.masked("key first-secr") == "key ••••"
    assert secrets.masked("program 'serve --key first-sec…' does not exist") == (
        "program 'serve --key ••••…' does not exist"
    )
    assert secrets.masked("my fir") == "my fir"  # too short to be masked
    huge = "eyJ" + "a" * 200_000 + "." + "b" * 200 + "." + "c" * 20
    assert Secrets([]).masked(f"key {huge}") == "key …"
    assert "eyJ" not in Secrets([]).masked(f"{'word ' * 30}{huge}", 300)


@pytest.mark.parametrize(
    ("server", "kinds"),
    [
        (SERVER, [UnsafeKind.KEY_IN_ARGUMENTS] * 3),
        (REMOTE, [UnsafeKind.TOKEN_IN_URL]),
        (ConfiguredServer("a", url="http://example.com/mcp"), [UnsafeKind.PLAIN_HTTP]),
        (ConfiguredServer("a", url="ws://10.0.0.7/mcp"), [UnsafeKind.PLAIN_HTTP]),
        (
            ConfiguredServer("a", url="http://token@example.com/"),
            [UnsafeKind.PLAIN_HTTP, UnsafeKind.TOKEN_IN_URL],
        ),
        (ConfiguredServer("a", url="http://127.0.0.7:3000/mcp"), []),
        (ConfiguredServer("a", url="http://[::1]:3000/mcp"), []),
        (ConfiguredServer("a", url="http://desk.localhost/mcp"), []),
        (ConfiguredServer("a", url="https://example.com/mcp?page=3"), []),
        (ConfiguredServer("a", ("docker", "run", "-e", "TOKEN", "image")), []),
        (ConfiguredServer("a", ("docker", "run", "-e", "TOKEN=abc", "image")), [UnsafeKind.KEY_IN_ARGUMENTS]),
        (ConfiguredServer("a", ("server", "--token", "--verbose")), []),
    ],
)
def test_unsafe_settings_are_named_without_values(server: ConfiguredServer, kinds: list[UnsafeKind]) -> None:
    found = list(unsafe_settings(server))
    assert [each.kind for each in found] == kinds
    texts = " ".join(each.message + each.hint for each in found)
    assert not any(
        word in texts for word in ("argument-word", "option-word", "assigned", "in-the-query", "abc")
    )


def test_url_from_a_variable_is_judged_by_its_value() -> None:
    server = ConfiguredServer("a", url="${BASE}/mcp")
    assert list(unsafe_settings(server)) == []
    found = list(unsafe_settings(server, UrlTarget("http://example.com/mcp")))
    assert [each.kind for each in found] == [UnsafeKind.PLAIN_HTTP]
