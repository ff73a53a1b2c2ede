"""The console entry. A client that starts `mcpdesk stdio FOLDER` waits, so a pump is tried first."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the process ends with its exit code."""
    if sys.argv[1:2] == ["stdio"]:
        code = pump(sys.argv[2:])
        if code is not None:
            sys.exit(code)
    from mcpdesk.cli.main import main as command_line

    command_line()


def pump(arguments: list[str]) -> int | None:
    """Serve from a running desk; None when there is none, or the arguments ask for more than that."""
    asked = plain(arguments)
    if asked is None:
        return None
    from mcpdesk.transports import pump as transport

    return transport.run(*asked)


def plain(arguments: list[str]) -> tuple[str, str] | None:
    """Folder and mode of `FOLDER [--mode NAME]`; None for any other form, which is the command's to judge."""
    folders: list[str] = []
    mode: str | None = ""
    rest = iter(arguments)
    for argument in rest:
        if argument == "--mode":
            mode = next(rest, None)
        elif argument.startswith("--mode="):
            mode = argument.removeprefix("--mode=")
        elif argument.startswith("-"):
            return None
        else:
            folders.append(argument)
    return (folders[0], mode) if len(folders) == 1 and mode is not None else None


if __name__ == "__main__":
    main()
