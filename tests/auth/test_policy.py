"""Origin, Host and the key, against friendly and hostile spellings."""

from __future__ import annotations

import socket

import pytest

from mcpdesk.auth.http_origin import check_host, check_origin, is_loopback

OWN_ORIGINS = [
    None,
    "http://localhost:3333",
    "http://LOCALHOST:3333",
    "http://127.0.0.1:3333",
    "http://[::1]:3333",
    "http://[0:0:0:0:0:0:0:1]:3333",
    "http://127.0.0.2:3333",
]
HOSTILE_ORIGINS = [
    "http://localhost",
    "http://localhost:80",
    "http://localhost:5173",
    "https://localhost:3333",
    "http://127.0.0.1:33330",
    "http://127.0.0.3:3333",
    "http://192.168.1.5:3333",
    "",
    "null",
    "http://evil.example",
    "http://localhost.evil.example",
    "http://evil-localhost",
    "http://127.0.0.1.nip.io",
    "http://127.0.0.1@evil.example",
    "http://localhost@evil.example:80",
    "http://evil.example#localhost",
    "http://evil.example/localhost",
    "http://localhost/",
    "http://localhost:99999",
    "http://localhost:",
    "http://localhost:80:80",
    "http://localhost, http://evil.example",
    "http://localhost http://evil.example",
    "http://localhost\n",
    "http://locаlhost",
    "http://0.0.0.0:3333",
    "http://2130706433",
    "http://0x7f000001",
    "http://[::1",
    "http://[::1]evil.example",
    "http://[::ffff:8.8.8.8]",
    "http://[::1%25evil]",
    "file://localhost",
    "file://",
    "chrome-extension://localhost",
    "javascript://localhost",
    "localhost",
    "//localhost",
    "http:/localhost",
]
LOCAL_HOSTS = [
    "localhost",
    "localhost:3333",
    "LocalHost:1",
    "127.0.0.1",
    "127.0.0.1:3333",
    "[::1]",
    "[::1]:3333",
]
HOSTILE_HOSTS = [
    None,
    "",
    ":3333",
    "evil.example",
    "evil.example:3333",
    "localhost.evil.example",
    "127.0.0.1.nip.io",
    "localhost@evil.example",
    "localhost:3333@evil.example",
    "localhost/evil",
    "localhost\r\nX: y",
    "localhost ",
    " localhost",
    "localhost:port",
    "localhost:-1",
    "localhost:123456",
    "::1",
    "[::1",
    "[localhost]",
    "0.0.0.0",
    "192.168.1.5",
    "2130706433",
    "lоcalhost",
]


@pytest.mark.parametrize("origin", OWN_ORIGINS)
def test_a_page_of_the_servers_own_port_or_a_program_may_call(origin: str | None) -> None:
    assert check_origin(origin, bound="127.0.0.2", port=3333)


@pytest.mark.parametrize(
    ("origin", "host", "expected"),
    [
        ("http://desk.example", "desk.example", True),
        ("https://desk.example", "desk.example:443", True),
        ("https://desk.example:8443", "DESK.example:8443", True),
        ("http://desk.example", "desk.example:443", False),
        ("http://desk.example:8080", "desk.example", False),
        ("http://other.example", "desk.example", False),
        ("null", "null", False),
        ("http://desk.example", None, False),
    ],
)
def test_a_page_may_call_the_very_host_it_was_loaded_from(
    origin: str, host: str | None, expected: bool
) -> None:
    assert check_origin(origin, host=host, bound="0.0.0.0", port=3333) is expected
    assert check_origin(origin, host=host, bound="", port=0) is expected


@pytest.mark.sampled(8)
@pytest.mark.requirement("12.1")
@pytest.mark.parametrize("origin", HOSTILE_ORIGINS)
def test_stranger_page_may_not_call(origin: str) -> None:
    for bound, port in (("127.0.0.2", 3333), ("", 0)):
        assert not check_origin(origin, [], "127.0.0.1:3333", bound, port)
        assert not check_origin(origin, ["https://app.example"], None, bound, port)


@pytest.mark.parametrize(
    ("origin", "allowed", "expected"),
    [
        ("https://app.example", "https://app.example", True),
        ("https://APP.example:443", "https://app.example/", True),
        ("https://app.example:8443", "https://app.example:8443", True),
        ("https://app.example:8443", "https://app.example", False),
        ("http://app.example", "https://app.example", False),
        ("https://sub.app.example", "https://app.example", False),
        ("null", "null", False),
        ("garbage", "garbage", False),
    ],
)
def test_allow_list_names_whole_origins(origin: str, allowed: str, expected: bool) -> None:
    assert check_origin(origin, [allowed]) is expected


def test_unreadable_entry_of_the_allow_list_lets_nobody_in() -> None:
    assert not check_origin("http://evil.example", ["*", ""])
    assert not check_host("evil.example", ["*", ""])
    assert not check_host("", ["", "*"])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("host", LOCAL_HOSTS)
@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "localhost", "", "0.0.0.0"])
def test_own_names_are_served_wherever_the_listener_is_bound(host: str, bound: str) -> None:
    assert check_host(host, bound=bound)


def test_listener_at_another_loopback_address_is_called_by_it_alone() -> None:
    assert check_host("127.0.0.2:3333", bound="127.0.0.2")
    assert not check_host("127.0.0.3:3333", bound="127.0.0.2")
    assert not check_host("127.0.0.2:3333", bound="localhost")


@pytest.mark.sampled(16)
@pytest.mark.requirement("12.1")
@pytest.mark.parametrize("host", HOSTILE_HOSTS)
@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "127.0.0.2", "localhost", ""])
def test_other_names_are_refused_on_loopback(host: str | None, bound: str) -> None:
    assert not check_host(host, bound=bound)


def test_listener_open_to_the_network_serves_addresses_and_its_own_names_only() -> None:
    assert check_host("192.168.1.5:3333", bound="0.0.0.0")
    assert check_host("[fe80::1]:3333", bound="::")
    assert check_host(f"{socket.gethostname()}:3333", bound="0.0.0.0")
    assert check_host("desk.lan", bound="desk.lan")
    assert not check_host("rebound.example:3333", bound="0.0.0.0")


def test_allowed_host_without_port_allows_every_port() -> None:
    assert check_host("desk.example:8080", ["desk.example"])
    assert check_host("DESK.example", ["desk.example"])
    assert check_host("desk.example:8080", ["desk.example:8080"])
    assert not check_host("desk.example:8081", ["desk.example:8080"])


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("[::1]", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("192.168.1.5", False), ("desk.lan", False), ("", False)],
)  # fmt: skip
def test_loopback_addresses_are_known(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected
