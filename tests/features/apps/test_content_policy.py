"""The content security policy of an app allows declared origins, and nothing else."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from mcpdesk.features.apps.content_policy import (
    MAX_ORIGINS,
    allow_attribute,
    app_policy,
    permissions_header,
    policy_header,
)

HOST = "http://127.0.0.1:4000"


def directives(interface: dict[str, Any]) -> dict[str, str]:
    """Directives of the policy, by name."""
    parts = policy_header(app_policy(interface), HOST).split("; ")
    return {name: sources for name, _, sources in (part.partition(" ") for part in parts)}


def test_without_a_declaration_the_policy_is_that_of_the_specification() -> None:
    assert directives({}) == {
        "default-src": "'none'",
        "script-src": "'self' 'unsafe-inline'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "media-src": "'self' data:",
        "connect-src": "'none'",
        "frame-src": "'none'",
        "base-uri": "'self'",
        "object-src": "'none'",
        "form-action": "'none'",
        "frame-ancestors": HOST,
    }


def test_each_list_of_origins_is_in_its_directives() -> None:
    lists = {
        "connectDomains": ["https://api.example.com", "wss://live.example.com:8443"],
        "resourceDomains": ["https://*.cdn.example.com/"],
        "frameDomains": ["https://www.youtube.com"],
        "baseUriDomains": ["https://base.example.com"],
    }
    policy = directives({"csp": lists})
    assert policy["connect-src"] == "https://api.example.com wss://live.example.com:8443"
    for name in ("script-src", "style-src", "font-src", "img-src", "media-src"):
        assert policy[name].endswith(" https://*.cdn.example.com"), name
    assert policy["frame-src"] == "https://www.youtube.com"
    assert policy["base-uri"] == "https://base.example.com"
    assert policy["default-src"] == "'none'"


@pytest.mark.parametrize(
    "origin",
    [
        "https://a.example; script-src *",
        "https://a.example;",
        "https://a.example, default-src *",
        "https://a.example\r\nSet-Cookie: a=b",
        "https://a.example 'unsafe-eval'",
        "'unsafe-eval'",
        "*",
        "https:",
        "https://*",
        "https://*.com",
        "https://a.example:*",
        "data:",
        "blob:",
        "a.example",
        "file:///etc",
        "javascript:alert(1)",
        "https://user@a.example",
        "https://a.example/path",
        "https://a.ex\u0430mple",
        "https://" + "a" * 300,
        "",
        7,
        None,
        ["https://a.example"],
    ],
)
@pytest.mark.parametrize("name", ["connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"])
def test_a_text_that_is_no_origin_changes_nothing(name: str, origin: object) -> None:
    policy = app_policy({"csp": {name: [origin]}})
    assert policy_header(policy, HOST) == policy_header(app_policy({"csp": {}}), HOST)
    assert len(policy.refused) == 1


@pytest.mark.parametrize(
    "name",
    [
        "localhost",
        "api.localhost",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0.0.0.0",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "printer.local",
        socket.gethostname().lower(),
    ],
)
def test_origins_of_this_machine_and_of_private_networks_are_left_out(name: str) -> None:
    given = [f"http://{name}:3333", f"ws://{name}:3333"]
    policy = app_policy({"csp": {"connectDomains": given}})
    assert (policy.origins, policy.refused) == ({}, tuple(given))


def test_a_web_socket_is_no_origin_of_scripts() -> None:
    assert app_policy({"csp": {"resourceDomains": ["wss://a.example"]}}).origins == {}


def test_lists_have_a_limit() -> None:
    policy = app_policy({"csp": {"frameDomains": [f"https://a{n}.example" for n in range(MAX_ORIGINS + 2)]}})
    assert len(policy.origins["frameDomains"]) == MAX_ORIGINS
    assert policy.refused == ("2 more of frameDomains",)


def test_only_requested_permissions_are_granted() -> None:
    policy = app_policy({"permissions": {"clipboardWrite": {}, "camera": True, "usb": {}}})
    assert policy.permissions == ("clipboardWrite",)
    assert allow_attribute(policy) == "clipboard-write *"
    assert permissions_header(policy) == "camera=(), microphone=(), geolocation=(), clipboard-write=*"


@pytest.mark.parametrize(
    "interface", [{"csp": "*"}, {"csp": ["*"]}, {"permissions": "camera"}, {"csp": None}]
)
def test_wrong_types_give_the_restrictive_policy(interface: dict[str, Any]) -> None:
    assert directives(interface) == directives({})
