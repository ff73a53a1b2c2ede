"""Values that a server folder may not set, because they would change who can reach or control the core.

A folder runs with the rights of the person who opened it. The folder may not decide where the core listens,
which keys and origins it accepts, or what code other programs on the desk load. The table of settings says
which settings a folder may set. This module reports the others, and lists the variables that its env files
may not set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mcpdesk.hosting.folder.manifest import FILE, Manifest
from mcpdesk.server.asks.approval_policies import EVERY_TOOL, Policy
from mcpdesk.setting_values import FolderUse, GivenValue, Setting, SettingKind, converted, quoted
from mcpdesk.settings import (
    BY_NAME,
    ENV_FILES,
    env_file_settings,
    is_allow_policy,
    is_setting,
    read_env_files,
)

OWN_FILES = (FILE, *ENV_FILES)
"""Files of a server folder that can contain settings."""
_FORBIDDEN_NAMES_BY_KIND = {
    "of the program itself": "HOME TMPDIR TEMP TMP TERM TERMCAP COLUMNS LINES",
    "programs that are found or started by name": (
        "PATH PATHEXT SHELL EDITOR VISUAL FCEDIT PAGER LESS LESSOPEN LESSCLOSE LESSKEY LESSKEYIN BROWSER "
        "KUBECONFIG CC CXX CPP FC LD AR AS NM M4 MAKE GCC_EXEC_PREFIX COMPILER_PATH HG HGMERGE "
        "AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE BOTO_CONFIG GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
    ),
    "code that loaders, shells, interpreters and editors run before the program": (
        "GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH LIBPATH SHLIB_PATH ENV SHELLOPTS IFS PS0 PS1 PS2 PS3 PS4 "
        "PROMPT_COMMAND CDPATH FPATH MAILPATH HISTFILE INPUTRC ZDOTDIR FISH_USER_PATHS FISH_FUNCTION_PATH "
        "FISH_COMPLETE_PATH NULLCMD READNULLCMD VIRTUAL_ENV RUBYOPT RUBYLIB RUBYPATH RUBYSHELL RAKEOPT "
        "CLASSPATH JDK_JAVA_OPTIONS JRUBY_OPTS PHPRC PHP_INI_SCAN_DIR R_HOME TCLLIBPATH TCL_LIBRARY "
        "PSMODULEPATH IPYTHONDIR VIM VIMINIT VIMRUNTIME EXINIT MYVIMRC GUILE_LOAD_PATH EMACSLOADPATH "
        "GI_TYPELIB_PATH LIBGL_DRIVERS_PATH"
    ),
    "input of compilers and build tools": (
        "CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH MAKEFLAGS "
        "GNUMAKEFLAGS MFLAGS MAKEFILES CARGO RUSTFLAGS GOFLAGS GOENV GOROOT GOPATH GOBIN GOPROXY GOSUMDB "
        "GONOSUMDB GONOSUMCHECK GONOPROXY GOPRIVATE GOINSECURE GOTOOLCHAIN GOTOOLDIR GOWORK GOVCS GOAUTH "
        "GOCACHE GOCACHEPROG GOMODCACHE GOTMPDIR GOEXPERIMENT GCCGO M2_HOME ANT_OPTS ANT_ARGS ANT_HOME "
        "MONO_PATH MONO_CONFIG MONO_ENV_OPTIONS STACK_ROOT STACK_YAML MIX_EXS MIX_HOME MIX_ARCHIVES"
    ),
    "files of options with which a program starts another one": (
        "TAR_OPTIONS RIPGREP_CONFIG_PATH WGETRC SYSTEM_WGETRC CURL_HOME NETRC PSQLRC PGSYSCONFDIR "
        "PGSERVICEFILE MYSQL_HOME HGRCPATH GNUPGHOME GH_CONFIG_DIR AZURE_CONFIG_DIR AZURE_EXTENSION_DIR "
        "MANOPT MANROFFOPT"
    ),
    "targets of connections, and certificates": (
        "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY FTP_PROXY WS_PROXY WSS_PROXY REQUESTS_CA_BUNDLE "
        "CURL_CA_BUNDLE AWS_CA_BUNDLE HOSTALIASES LOCALDOMAIN RES_OPTIONS"
    ),
}
"""Variables that env files may not set, by kind."""
_FORBIDDEN_NAMES = frozenset(" ".join(_FORBIDDEN_NAMES_BY_KIND.values()).split())
_FORBIDDEN_PREFIXES_BY_KIND = {
    "settings and folders of the program itself": "MCPDESK_ DZX_ ZYRA_ OTEL_ XDG_ TEXTUAL_ TERMINFO",
    "programs that start others": (
        "SSH_ SUDO_ GIT_ SVN_ CVS_ RSYNC_ DOCKER_ DBUS_ SYSTEMD_ FZF_ ANSIBLE_ HELM_ TF_CLI_ CLOUDSDK_ "
        "PKG_CONFIG CCACHE_ SCCACHE_ DISTCC_"
    ),
    "code that loaders, shells and interpreters run before the program": (
        "LD_ LDR_ DYLD_ MALLOC_ ASAN_ LSAN_ MSAN_ TSAN_ UBSAN_ BASH PYTHON PYTEST_ PYDEVD_ COVERAGE_ CONDA_ "
        "PYENV_ POETRY_ PIPX_ PIPENV_ PDM_ TOX_ UV_ PIP_ NPM_CONFIG_ YARN_ PNPM_ COREPACK_ VOLTA_ NVM_ BUN_ "
        "DENO_ NODE_ TS_NODE_ ELECTRON_ PERL GEM_ BUNDLE_ BUNDLER_ RUBYGEMS_ COMPOSER_ LUA_ R_PROFILE "
        "R_ENVIRON R_LIBS JULIA_ ERL_ ELIXIR_ GHC_ CABAL_ GTK_ GIO_ GST_PLUGIN GDK_PIXBUF_ QT_ QML "
        "VK_LAYER VK_ADD_ VK_ICD_ VK_DRIVER_ VK_INSTANCE_ __FISH_"
    ),
    "virtual machines, compilers and build tools": (
        "JAVA_ _JAVA_ MAVEN_ GRADLE_ SBT_ DOTNET_ COMPLUS_ CORECLR_ COR_ NUGET_ MSBUILD CARGO_ RUSTC RUSTDOC "
        "RUSTUP_ CGO_ CMAKE_ LLVM_ NIX_"
    ),
    "targets of connections, and certificates": "SSL OPENSSL_ RESOLV_ KRB5",
}
"""Beginnings of further variables that env files may not set, by kind."""
_FORBIDDEN_PREFIXES = tuple(" ".join(_FORBIDDEN_PREFIXES_BY_KIND.values()).split())
_FORBIDDEN_SUFFIXES = ("_ASKPASS", "_EDITOR", "_PAGER", "MANPAGER", "_PRELOAD", "_RSH", "_WRAPPER")
"""Endings of further variables that env files may not set."""


def may_set_variable(name: str) -> bool:
    """Return True if a folder's env files may set the variable in the environment of this process.

    Env files may not set a variable that makes other programs load or run code, or connect to another host.
    Such a variable affects every program of the desk, not only the folder's own code.
    """
    upper_name = name.upper()
    return (
        upper_name not in _FORBIDDEN_NAMES
        and not upper_name.startswith(_FORBIDDEN_PREFIXES)
        and not upper_name.endswith(_FORBIDDEN_SUFFIXES)
    )


def refusals(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield a message for each value of a folder that is ignored, such as `mcp.json:3: settings.host: ...`.

    Raises: DeskUserError for an env file that cannot be read.
    """
    for name, value in manifest.settings.items():
        setting_value = GivenValue(BY_NAME[name], value, FILE)
        if refusal := _refusal(setting_value):
            yield f"{manifest.source('settings', name)}: settings.{name}: {refusal}"
    for setting_value in env_file_settings(folder):
        if refusal := _refusal(setting_value):
            location, _, variable = setting_value.origin.partition(" ")
            yield f"{location}: {variable}: {refusal}"
    for name, _, location in read_env_files(folder):
        if not is_setting(name) and not may_set_variable(name):
            refusal = "is ignored: a server folder may not set it. Set it in the environment of mcpdesk."
            yield f"{location}: {name}: {refusal}"


def _refusal(setting_value: GivenValue) -> str:
    """Return a sentence that says why a value is ignored, or "" if the folder may set it."""
    setting = setting_value.setting
    if setting.folder is FolderUse.TIGHTEN:
        looser_policies = [item for item in converted(setting_value) if is_allow_policy(item)]
        value = ", ".join(map(repr, looser_policies))
        reason = "a server folder may make a policy stricter, not looser" if looser_policies else ""
    else:
        value = quoted(setting, setting_value.value)
        reason = "a server folder may not set it" if setting.folder is FolderUse.NOT else ""
    return f"{value} is ignored: {reason}. {_how_to_set(setting)}" if reason else ""


def _how_to_set(setting: Setting) -> str:
    """Return a sentence that names the flag and the variable of a setting."""
    variable = f"the environment variable {setting.environment[0]}"
    if setting.kind is SettingKind.SECRET:
        return f"Use {variable}."
    return f"Use the flag {setting.flag} or {variable}."


def is_from_folder(origin: str) -> bool:
    """Return True for the origin of a setting that a folder gave, such as `mcp.json:3`."""
    return origin.startswith(OWN_FILES)


def strictest(first: Mapping[str, Policy], second: Mapping[str, Policy]) -> dict[str, Policy]:
    """Combine two tables of policies: each tool, and `*`, gets the stricter policy of the two."""
    ranks = list(Policy)

    def policy(table: Mapping[str, Policy], name: str) -> Policy:
        return table.get(name) or table.get(EVERY_TOOL) or Policy.ALLOW

    names = dict.fromkeys((*first, *second))
    return {name: max(policy(first, name), policy(second, name), key=ranks.index) for name in names}
