"""Identity of a configured server: its package, image, program or URL, with version and arguments."""

from __future__ import annotations

import shlex

import pytest

from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.features.doctor.identities import identity_of

CASES = {
    "npx -y @x/server-git@1.2.0 --root /tmp": ("@x/server-git", "1.2.0", "--root /tmp"),
    "bunx @x/server-git": ("@x/server-git", "", ""),
    "npx --package=@x/tools@2 git-server a": ("@x/tools", "2", "a"),
    "npm exec -- server-git@latest": ("server-git", "latest", ""),
    "pnpm dlx server-git": ("server-git", "", ""),
    "cmd /c npx -y server-git@3": ("server-git", "3", ""),
    "C:\\Programs\\npx.cmd server-git@3": ("server-git", "3", ""),
    "uvx mcp-server-git==1.0 --repository .": ("mcp-server-git", "1.0", "--repository ."),
    "uvx --from 'MCP_Server_Git[all]>=2' serve x": ("mcp-server-git", "2", "x"),
    "uv tool run mcp-server-git@latest": ("mcp-server-git", "latest", ""),
    "pipx run mcp-server-git": ("mcp-server-git", "", ""),
    "docker run -i --rm -e TOKEN ghcr.io/x/server:1.4 stdio": ("ghcr.io/x/server", "1.4", "stdio"),
    "docker run -i localhost:5000/x/server": ("localhost:5000/x/server", "", ""),
    "podman run x/server@sha256:abc": ("x/server", "sha256:abc", ""),
    "python3 -u -m mcp_server_git -v": ("mcp_server_git", "", "-v"),
    "/usr/bin/python3.12 /srv/server.py a b": ("/srv/server.py", "", "a b"),
    "node dist/index.js --port 3": ("dist/index.js", "", "--port 3"),
    "python3 -c 'print(1)' x": ("python3", "", "-c 'print(1)' x"),
    "/opt/bin/github-mcp-server stdio": ("github-mcp-server", "", "stdio"),
    "npx": ("npx", "", ""),
    "docker run": ("docker", "", "run"),
    "mcpdesk stdio -- npx -y server-git@3 a": ("server-git", "3", "a"),
    "uvx mcpdesk stdio -- uvx mcp-server-git": ("mcp-server-git", "", ""),
}


@pytest.mark.parametrize(("command", "expected"), CASES.items())
def test_identity_of_a_command(command: str, expected: tuple[str, str, str]) -> None:
    argv = tuple(shlex.split(command) if "\\" not in command else command.split())
    identity = identity_of(ConfiguredServer("any", argv))
    assert identity is not None
    assert (identity.name, identity.version, shlex.join(identity.arguments)) == expected


def test_identity_of_a_url_is_host_and_path() -> None:
    for url in ("https://Mcp.Example.com/mcp/", "http://user:secret@mcp.example.com/mcp?key=1#x"):
        identity = identity_of(ConfiguredServer("any", url=url))
        assert identity is not None and identity.name == "mcp.example.com/mcp"
    assert identity_of(ConfiguredServer("any", url="http://[broken")) is None
    assert identity_of(ConfiguredServer("any", problem="it has no command")) is None
