"""What was said of a server on the command line."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from mcpdesk.cli.reach import (
    HERE,
    Reach,
    folder_needs_no_key,
    hinted,
    is_url,
    reach_options,
    refusal,
    schemas_need_neither,
    secret,
)
from mcpdesk.errors import DeskUserError, HttpError, RemoteProtocolError


def test_options_arrive_as_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", " t0k\n")

    @click.command()
    @click.argument("target")
    @reach_options
    def command(target: str, reach: Reach) -> None:
        click.echo(f"{target} {tuple(reach)}")

    ask = CliRunner().invoke(command, ["x", "--mode", "calm", "--token-env", "A_TOKEN"])
    assert ask.output == "x ('calm', 't0k', None)\n"
    assert CliRunner().invoke(command, ["x"]).output == "x ('', None, None)\n"


def test_variable_that_is_not_set_is_named() -> None:
    assert secret(None, "--key-env") is None
    with pytest.raises(DeskUserError, match="--key-env: the environment variable NOT_SET_HERE is not set"):
        secret("NOT_SET_HERE", "--key-env")


def test_folders_and_urls_are_told_apart() -> None:
    assert is_url("http://x/mcp") and not is_url("servers/x")
    folder_needs_no_key(HERE)
    folder_needs_no_key(Reach(token="t"))
    with pytest.raises(DeskUserError, match="A folder needs no key"):
        folder_needs_no_key(Reach(key="k"))
    schemas_need_neither(HERE)
    for reach in (Reach(key="k"), Reach(token="t")):
        with pytest.raises(DeskUserError, match="The schemas of a folder need no token and no key"):
            schemas_need_neither(reach)


@pytest.mark.parametrize(("status", "code"), [(401, 3), (403, 3)])
def test_refusal_says_what_opens_the_server(status: int, code: int) -> None:
    error = hinted(HttpError("no", "http://x", status))
    assert isinstance(error, DeskUserError)
    assert error.exit_code == code and "--token-env" in error.hint
    other = HttpError("no", "http://x", 500)
    assert hinted(other) is other


@pytest.mark.parametrize("code", [-32001, -32003])
def test_refusal_of_a_folder_says_what_opens_it(code: int) -> None:
    error = refusal(RemoteProtocolError(code, "no"))
    assert isinstance(error, DeskUserError)
    assert (error.exit_code, str(error)) == (4, "no") and "--token-env" in error.hint
    other = RemoteProtocolError(-32602, "no")
    assert refusal(other) is other
