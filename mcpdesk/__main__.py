"""The console entry. A client that starts `mcpdesk stdio FOLDER` waits: that form takes the shortest way."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130
LEFTOVERS_S = 1.0
TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpdesk.transports.pump import Moved
    from mcpdesk.transports.replay import ClientState


def main() -> None:
    """Run the command line; the process ends with its exit code."""
    asked = plain(sys.argv[2:]) if sys.argv[1:2] == ["stdio"] else None
    code = None if asked is None else serve_client(*asked)
    if code is None:
        from mcpdesk.cli.main import run

        code = run()
    _bound_end(code)
    sys.exit(code)


def _bound_end(code: int) -> None:
    """Python waits at its end for every thread: one that hosted code left behind gets a second, no more."""
    threading = sys.modules.get("threading")
    if threading is None or all(thread.daemon for thread in threading.enumerate()[1:]):
        return
    import time

    def leave() -> None:
        time.sleep(LEFTOVERS_S)
        os._exit(code)

    threading.Thread(target=leave, name="end", daemon=True).start()


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


def serve_client(folder: str, mode: str) -> int | None:
    """Serve the client on stdin and stdout from the desk that hosts `folder`, or else from here.

    Returns the exit code; None on Windows or when there is no such folder, which the command reports.
    """
    if not hasattr(os, "fork") or not os.path.isdir(folder):
        return None
    from mcpdesk.transports import pump

    return pump.serve(folder, mode, lambda client_state: serve_alone(folder, mode, client_state))


def serve_alone(folder: str, mode: str, client_state: ClientState) -> int | Moved:
    """Run a core for this one client; returns the exit code, or where the client went on."""
    import gc

    gc.disable()  # nothing that is imported is garbage; the core turns it on when it serves
    from pathlib import Path

    from mcpdesk.cli import lone_core
    from mcpdesk.errors import DeskError

    try:
        return lone_core.run(Path(folder).resolve(), mode, client_state)
    except KeyboardInterrupt:
        return INTERRUPTED
    except DeskError as error:
        from mcpdesk.cli.printing import report

        return report(error)
    except Exception:
        from mcpdesk.cli.printing import report_crash

        return report_crash()


if __name__ == "__main__":
    main()
