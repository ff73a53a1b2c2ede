"""Expansion of variables in configuration entries, with the syntax of Claude and VS Code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mcpdesk.client.configs.program_names import name_excerpt
from mcpdesk.client.configs.servers import ConfiguredServer, InputVariable
from mcpdesk.errors import DeskUserError

VARIABLE = re.compile(r"\$\{(?P<name>[^{}]*)\}")
MAX_ENV_FILE_BYTES = 1 << 20
"""Largest `envFile` in bytes."""
MAX_EXPANDED_LENGTH = 1 << 20
"""Limit of a text after expansion, in characters."""
EDITOR_VARIABLES = frozenset(
    {
        "workspaceFolder", "workspaceFolderBasename", "workspaceRoot", "fileWorkspaceFolder",
        "fileWorkspaceFolderBasename", "cwd", "userHome", "pathSeparator", "/",
    }
)  # fmt: skip
"""Variables that editors define. Their values are paths, not secrets."""


class UnsetVariable(DeskUserError):
    """An entry has an environment variable that is not set. `variable` is its name."""

    def __init__(self, server: str, variable: str) -> None:
        name = name_excerpt(variable)
        super().__init__(
            f"{server}: ${{{name}}} has no value: the environment variable is not set.",
            f"Set {name} in the environment, or write a default into the file: ${{{name}:-VALUE}}.",
        )
        self.variable = variable


class _Lookup(msgspec.Struct):
    """Values of variables for one server."""

    server: ConfiguredServer
    environ: Mapping[str, str]
    inputs: Mapping[str, InputVariable]
    ask: Callable[[InputVariable], str]
    folder: Path
    own_variables: Mapping[str, str] = {}
    """Variables of the entry itself, which have precedence."""

    def value(self, match: re.Match[str]) -> str:
        """Return the value of a variable. Raises: DeskUserError for one that is unset or unknown."""
        name, has_default, default = match["name"].partition(":-")
        match name.partition(":"):
            case ("input", ":", key):
                if key not in self.inputs:
                    input_names = ", ".join(map(name_excerpt, self.inputs)) or "nothing"
                    raise self._unknown(match[0], f"inputs contains {input_names}")
                return self.ask(self.inputs[key])
            case ("env", ":", variable):
                variable_value = self.environ.get(variable, self.own_variables.get(variable))
                return default if variable_value is None else variable_value
            case (variable, "", ""):
                variable_value = self.own_variables.get(
                    variable, self.environ.get(variable, self._path(variable))
                )
                if variable_value is None and not has_default:
                    raise UnsetVariable(self.server.name, variable)
                return default if variable_value is None else variable_value
            case ("workspaceFolder" | "workspaceFolderBasename" as variable, ":", self.folder.name):
                return self._path(variable) or ""
        raise self._unknown(
            match[0], "allowed: ${NAME}, ${NAME:-default}, ${env:NAME}, ${input:NAME} and ${workspaceFolder}"
        )

    def replaced(self, text: str) -> str:
        """Return a text with its variables expanded. Values are inserted unchanged and not expanded again."""
        replaced_text = VARIABLE.sub(self.value, text)
        if len(replaced_text) > MAX_EXPANDED_LENGTH:
            raise DeskUserError(
                f"{self.server.name}: a value has more than {MAX_EXPANDED_LENGTH:,} characters."
            )
        return replaced_text

    def _path(self, variable: str) -> str | None:
        """Return the value of a variable that editors define, or None for any other variable."""
        match variable:
            case "workspaceFolder" | "workspaceRoot" | "fileWorkspaceFolder" | "cwd":
                return str(self.folder)
            case "workspaceFolderBasename" | "fileWorkspaceFolderBasename":
                return self.folder.name
            case "userHome":
                return str(Path.home())
            case "pathSeparator" | "/":
                return os.sep
        return None

    def _unknown(self, variable: str, reason: str) -> DeskUserError:
        return DeskUserError(f"{self.server.name}: {name_excerpt(variable)} has no value: {reason}.")


def expanded(
    server: ConfiguredServer,
    environ: Mapping[str, str],
    inputs: Mapping[str, InputVariable],
    ask: Callable[[InputVariable], str],
    folder: Path,
) -> ConfiguredServer:
    """Return the server with all `${...}` replaced by values.

    `ask` asks the person for an input, and `folder` is the workspace. `${NAME}` is looked up in the variables
    of the entry, then in `environ`. The values of the entry's variables are expanded once: they can refer to
    another variable of the entry only if its value contains no `${...}`.

    Raises: DeskUserError for a variable that is unset or unknown.
    """
    if server.problem:
        return server
    lookup = _Lookup(server, environ, inputs, ask, folder)
    file_path = lookup.replaced(server.environment_file)
    file_variables = _variables_of(server, folder / Path(file_path).expanduser()) if file_path else {}
    literal_values = {name: text for name, text in server.environment.items() if "${" not in text}
    own_variables = dict(file_variables)
    for name, text in server.environment.items():
        other_values = {other: value for other, value in literal_values.items() if other != name}
        lookup.own_variables = file_variables | other_values
        own_variables[name] = lookup.replaced(text)
    lookup.own_variables = own_variables
    return msgspec.structs.replace(
        server,
        argv=tuple(map(lookup.replaced, server.argv)),
        environment=own_variables,
        folder=lookup.replaced(server.folder),
        python_file=lookup.replaced(server.python_file),
        url=lookup.replaced(server.url),
        headers={name: lookup.replaced(text) for name, text in server.headers.items()},
        account=lookup.replaced(server.account),
        login=server.login.with_expanded_texts(lookup.replaced, folder),
        environment_file="",
    )


def variables(server: ConfiguredServer) -> tuple[str, ...]:
    """Return the sorted names of the variables whose values are not in the entry itself.

    An input has the name `input:NAME`.
    """
    texts = [*server.argv, server.folder, server.url, server.account, server.environment_file]
    texts += [*server.headers.values(), *server.login.texts]
    names = _names(texts) - set(server.environment)
    for name, text in server.environment.items():
        other_values = {other: value for other, value in server.environment.items() if other != name}
        names |= _names([text]) - {other for other, value in other_values.items() if "${" not in value}
    return tuple(sorted({name.removeprefix("env:") for name in names}))


def _names(texts: list[str]) -> set[str]:
    return {match["name"].partition(":-")[0] for text in texts for match in VARIABLE.finditer(text)}


def _variables_of(server: ConfiguredServer, path: Path) -> dict[str, str]:
    """Return the variables of an `envFile`. Raises: DeskUserError."""
    try:
        if not path.is_file():
            raise DeskUserError(f"{server.name}: envFile {path} does not exist.")
        with path.open("rb") as file:
            data = file.read(MAX_ENV_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise DeskUserError(f"{server.name}: envFile {path} cannot be read: {error}.") from None
    if len(data) > MAX_ENV_FILE_BYTES:
        raise DeskUserError(f"{server.name}: envFile {path} has more than {MAX_ENV_FILE_BYTES:,} bytes.")
    return {match["name"]: _unquoted(match["value"]) for match in _ENV_LINE.finditer(text)}


def _unquoted(value: str) -> str:
    """Return a value of an `envFile` without its quotes or its comment.

    In double quotes, `\\n` is a line break. Outside of quotes, ` #` begins a comment.
    """
    value = value.strip()
    quoted_match = _QUOTED.match(value)
    if quoted_match is None:
        return value.partition(" #")[0].rstrip()
    text = quoted_match["text"]
    return text.replace("\\n", "\n").replace('\\"', '"') if quoted_match["mark"] == '"' else text


_ENV_LINE = re.compile(
    r"(?m)^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)[ \t]*=(?P<value>[^\r\n]*)"
)
"""Line of an `envFile`. Comments and malformed lines are skipped, as in VS Code."""
_QUOTED = re.compile(r"""(?P<mark>["'`])(?P<text>(?:\\.|(?!(?P=mark)).)*)(?P=mark)""")
