"""The command `keys`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcpdesk.cli.printing import aligned, print_json, print_message, print_text
from mcpdesk.paths import config_folder

if TYPE_CHECKING:
    from mcpdesk.tui.action import Action

KEYS_EXAMPLES = """\b
Examples:
  mcpdesk keys
  mcpdesk keys --json
"""


@click.command(name="keys", epilog=KEYS_EXAMPLES, short_help="Show and check the keys of the screen.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of {id, keys, scope, title}.")
def keys_command(as_json: bool) -> int:
    """Show the id, the keys and the title of each action of the screen.

    The file `keys.toml` in the configuration folder gives actions other keys, by id. Each line is like
    "traffic.filter" = "ctrl+f", or has a list of keys. With an empty list, the action has no key.

    Invalid lines and keys that two actions would have are printed on stderr. The exit code is then 1.
    """
    from mcpdesk.tui.actions import ACTIONS, key_names
    from mcpdesk.tui.keymap import FILE_NAME, read_keymap

    keymap = read_keymap(config_folder() / FILE_NAME)
    rows = [(action, keymap.keys_of(action)) for action in ACTIONS]
    if as_json:
        print_json([_row(action, keys) for action, keys in rows])
    else:
        print_text("\n".join(aligned([(each.id, key_names(keys), each.title) for each, keys in rows])))
    for problem in keymap.problems:
        print_message(f"mcpdesk: {problem}")
    for conflict in keymap.conflicts:
        print_message(f"mcpdesk: {FILE_NAME}: {conflict}")
    return 1 if keymap.problems or keymap.conflicts else 0


def _row(action: Action, keys: str) -> dict[str, object]:
    """Return an action as an object of the output of `--json`. `keys` are separated by commas."""
    return {
        "id": action.id,
        "keys": keys.split(",") if keys else [],
        "scope": action.scope,
        "title": action.title,
    }
