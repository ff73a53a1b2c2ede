"""Allowed and forbidden addresses, in all notations."""

from __future__ import annotations

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.features.web_tools.fetch import is_allowed, resolve

INTERNET = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
OURS = ["127.0.0.1", "127.8.8.8", "::1"]
PRIVATE = [
    "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
    "255.255.255.255", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "::",
    "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "198.18.0.1",
    "fec0::1", "::10.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b:1::a00:1", "3fff::1", "5f00::1",
]  # fmt: skip


@pytest.mark.parametrize("address", INTERNET + OURS)
def test_the_internet_and_this_machine_are_allowed(address: str) -> None:
    assert is_allowed(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_everything_between_is_not(address: str) -> None:
    assert not is_allowed(address)


@pytest.mark.parametrize("host", ["10.1", "0x0a000001", "167772161", "[::ffff:10.0.0.1]"])
async def test_odd_ways_to_write_an_address_do_not_help(host: str) -> None:
    with pytest.raises(HandlerError, match=r"private network|cannot be found"):
        await resolve(host.strip("[]"), 80, allows_private=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_pages_of_the_internet_do_not_lead_to_this_machine(host: str) -> None:
    assert await resolve(host, 80, allows_private=False)
    with pytest.raises(HandlerError, match="is this machine, which a page of the internet must not open"):
        await resolve(host, 80, allows_private=False, allows_local=False)
    assert await resolve(host, 80, allows_private=True, allows_local=False)


async def test_a_setting_allows_the_rest() -> None:
    assert await resolve("10.0.0.1", 80, allows_private=True) == ["10.0.0.1"]
