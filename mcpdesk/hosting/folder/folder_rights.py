"""Values of a server folder that do not count, because they would widen who may reach or steer the core.

A folder runs with the rights of the person who named it. It may not decide where the core listens, who has
a key, which origins may call, or what other programs on the desk load. The table of settings says which
settings a folder may set; this module reports the others, and lists the variables that its env file may not
set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mcpdesk.hosting.folder.manifest import FILE, Manifest
from mcpdesk.server.asks.approval_policies import EVERY, Policy
from mcpdesk.settings import (
    BY_NAME,
    ENV_FILE,
    FolderMay,
    GivenValue,
    Setting,
    SettingKind,
    converted,
    env_file_settings,
    is_setting,
    loosens,
    quoted,
    read_env_file,
)

OWN_FILES = (FILE, ENV_FILE)
_STEERING = re.compile(
    # Variables of the program itself, of its state folders and its telemetry.
    r"(MCPDESK|DZX|ZYRA|OTEL|XDG|TEXTUAL)_.*|HOME|TMPDIR|TEMP|TMP|TERM|TERMINFO.*|TERMCAP|COLUMNS|LINES"
    # Programs that are found or started by name.
    r"|PATH|PATHEXT|SHELL|EDITOR|VISUAL|(MAN)?PAGER|LESS(OPEN|CLOSE)|BROWSER|(SSH|SUDO|GIT)_.*|DOCKER_.*"
    r"|DBUS_.*|KUBECONFIG"
    # Code that loaders, shells and interpreters run before the program.
    r"|(LD|DYLD)_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|MALLOC_.*|ENV|BASH.*|SHELLOPTS|IFS|PS4|PROMPT_COMMAND|CDPATH"
    r"|ZDOTDIR|PYTHON.*|VIRTUAL_ENV|CONDA_.*|(UV|PIP|NPM_CONFIG|BUN|DENO|NODE)_.*|PERL5.*|PERLLIB|RUBY(OPT|LIB)"
    r"|GEM_.*|LUA_.*|CLASSPATH|_?JAVA_.*|JDK_JAVA_OPTIONS|DOTNET_.*|COMPLUS_.*"
    # Where connections go, and which certificates count.
    r"|(HTTPS?|ALL|NO|FTP|WSS?)_PROXY|SSL.*|OPENSSL_.*|(REQUESTS|CURL)_CA_BUNDLE|HOSTALIASES|LOCALDOMAIN"
    r"|RES_OPTIONS|RESOLV_.*|KRB5.*",
    re.IGNORECASE,
)
"""Variables that steer every program of the desk rather than the folder's own code."""


def may_set_variable(name: str) -> bool:
    """True if a folder's env file may put the variable into the environment of the process."""
    return _STEERING.fullmatch(name) is None


def refusals(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Report each value of a folder that is ignored, as `mcp.json:3: settings.host: ...`.

    Raises: DeskUserError for an env file that cannot be read.
    """
    for name, value in manifest.settings.items():
        given = GivenValue(BY_NAME[name], value, FILE)
        if told := _refusal(given):
            yield f"{manifest.source('settings', name)}: settings.{name}: {told}"
    for given in env_file_settings(folder / ENV_FILE):
        if told := _refusal(given):
            place, _, variable = given.origin.partition(" ")
            yield f"{place}: {variable}: {told}"
    for name, _, line in read_env_file(folder / ENV_FILE):
        if not is_setting(name) and not may_set_variable(name):
            told = "is ignored: a server folder may not set it. Set it in the environment of mcpdesk."
            yield f"{ENV_FILE}:{line}: {name}: {told}"


def _refusal(given: GivenValue) -> str:
    setting = given.setting
    if setting.folder is FolderMay.TIGHTEN:
        loose = [item for item in converted(given) if loosens(item)]
        value = ", ".join(map(repr, loose))
        reason = "a server folder may make a policy stricter, not looser" if loose else ""
    else:
        value = quoted(setting, given.value)
        reason = "a server folder may not set it" if setting.folder is FolderMay.NOT else ""
    return f"{value} is ignored: {reason}. {_how_to_set(setting)}" if reason else ""


def _how_to_set(setting: Setting) -> str:
    variable = f"the environment variable {setting.environment[0]}"
    if setting.kind is SettingKind.SECRET:
        return f"Use {variable}."
    return f"Use the flag {setting.flag} or {variable}."


def is_from_folder(origin: str) -> bool:
    """True for the origin of a setting that a folder gave, such as `mcp.json:3`."""
    return origin.startswith(OWN_FILES)


def strictest(first: Mapping[str, Policy], second: Mapping[str, Policy]) -> dict[str, Policy]:
    """Combine two tables of policies: each tool has the stricter one of both, as has `*`."""
    ranks = list(Policy)

    def policy(table: Mapping[str, Policy], name: str) -> Policy:
        return table.get(name) or table.get(EVERY) or Policy.ALLOW

    names = dict.fromkeys((*first, *second))
    return {name: max(policy(first, name), policy(second, name), key=ranks.index) for name in names}
