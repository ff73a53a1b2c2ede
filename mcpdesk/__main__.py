"""Console entry point. Simple forms of `mcpdesk stdio` start without click, to answer the client sooner."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130
"""Exit code after Ctrl+C."""
LEFTOVERS_S = 1.0
"""Time limit in seconds for threads that still run when the process exits."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpdesk.transports.pump import MovedToDesk
    from mcpdesk.transports.relay import RelayTraffic
    from mcpdesk.transports.replay import ClientState


def main() -> None:
    """Run the command line and end the process with its exit code."""
    code = None
    if sys.argv[1:2] == ["stdio"] and sys.stderr is not None and sys.stderr.isatty():
        from mcpdesk.transports import clean_terminal

        clean_terminal.guard()
    if sys.argv[1:3] == ["stdio", "--"]:
        code = relay_program(sys.argv[3:])
    elif sys.argv[1:2] == ["stdio"] and (folder_and_mode := simple_arguments(sys.argv[2:])) is not None:
        code = serve_client(*folder_and_mode)
    if code is None:
        from mcpdesk.cli.main import run

        code = run()
    if (terminal_guard := sys.modules.get("mcpdesk.transports.clean_terminal")) is not None:
        terminal_guard.settle()
    _limit_exit_time(code)
    sys.exit(code)


def _limit_exit_time(code: int) -> None:
    """Make sure that the process exits within `LEFTOVERS_S`. Without this limit, Python would wait for the
    threads of hosted code.
    """
    threading = sys.modules.get("threading")
    if threading is None or all(thread.daemon for thread in threading.enumerate()[1:]):
        return
    import time

    def exit_after_limit() -> None:
        time.sleep(LEFTOVERS_S)
        os._exit(code)

    threading.Thread(target=exit_after_limit, name="exit limit", daemon=True).start()


def simple_arguments(arguments: list[str]) -> tuple[str, str] | None:
    """Return the folder and the mode if the arguments are `FOLDER [--mode NAME]`. Otherwise return None;
    click then parses the arguments.
    """
    folders: list[str] = []
    mode: str | None = ""
    words = iter(arguments)
    for argument in words:
        if argument == "--mode":
            mode = next(words, None)
        elif argument.startswith("--mode="):
            mode = argument.removeprefix("--mode=")
        elif argument.startswith("-"):
            return None
        else:
            folders.append(argument)
    return (folders[0], mode) if len(folders) == 1 and mode is not None else None


def serve_client(folder: str, mode: str) -> int | None:
    """Serve the client on stdin and stdout through the desk that hosts `folder`, or else from this process.

    Return the exit code. Return None on Windows or if the folder does not exist; the click command then
    reports the error.
    """
    if not hasattr(os, "fork") or not os.path.isdir(folder):
        return None
    from mcpdesk.transports import pump

    return pump.serve(folder, mode, lambda client_state: serve_alone(folder, mode, client_state))


def relay_program(argv: list[str]) -> int | None:
    """Relay between the client on stdin and stdout and the server that a command starts.

    Return the exit code. Return None on Windows or without a command; the click command then reports the
    error.
    """
    if not hasattr(os, "fork") or not argv:
        return None
    from mcpdesk.transports import relay

    try:
        return relay.run(argv, lambda traffic: record_relay(argv, traffic))
    except (OSError, ValueError) as error:
        from mcpdesk.cli.printing import CANNOT_CONNECT, report
        from mcpdesk.errors import DeskUserError

        reason = error.strerror if isinstance(error, OSError) else error
        message = f"The program {argv[0]!r} cannot be started: {reason}."
        report(DeskUserError(message, "Check that it is installed, on PATH and executable."))
        return CANNOT_CONNECT


def record_relay(argv: list[str], traffic: RelayTraffic) -> None:
    """Record the traffic of a relay. This function runs in a separate process that only records."""
    from mcpdesk.features import features_with

    for feature in features_with("record_relay"):
        feature.record_relay(argv, traffic)


def serve_alone(folder: str, mode: str, client_state: ClientState) -> int | MovedToDesk:
    """Run a core for one client. Return the exit code, or the desk that took over the client."""
    import gc

    gc.disable()  # imported objects are never garbage; the core enables collection when it serves
    from pathlib import Path

    from mcpdesk.errors import DeskError
    from mcpdesk.runtime import lone_core

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
