"""Commands for one server: `mcpdesk new`, `pack`, `schemas` and `config`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from mcpdesk import paths
from mcpdesk.auth.principal import TOKEN_VARIABLE
from mcpdesk.cli import completion
from mcpdesk.cli.core_process import loaded
from mcpdesk.cli.options import server_folder
from mcpdesk.cli.printing import OK, TOOL_ERROR, aligned, print_json, print_message, print_text
from mcpdesk.cli.reach import reach_options, secret
from mcpdesk.cli.requests import TIMEOUT
from mcpdesk.errors import DeskUserError, UnknownMode
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.bridge import ApiName, ToolSchemas
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.hosting.folder.lint import Finding

NEW_EXAMPLES = """\b
Examples:
  mcpdesk new profiles
  mcpdesk new ~/servers/profiles
  mcpdesk new profiles --with tools,tests
  mcpdesk new shop --from-openapi shop.yaml --tags orders,customers

The folder has a tool, a resource, a prompt, a skill and test cases. Change them while the desk shows them.
"""
PARTS = {
    "tools": "Call greet with a name.",
    "resources": "",
    "prompts": "",
    "skills": "InvokeSkill knows the skill welcome.",
    "tests": "",
}
"""Parts of a new folder, each with its sentence in the server's instructions."""
PACK_EXAMPLES = """\b
Examples:
  mcpdesk pack ~/servers/profiles
  mcpdesk pack ~/servers/profiles --output dist/profiles.mcpb
  mcpdesk pack ~/servers/profiles --url https://example.com/profiles.mcpb

`publish` in mcp.json says how the server is called in the registry, who wrote it, and where its source is.

Exit codes: 0 ok, 1 the folder has a mistake, 2 usage.
"""
SCHEMAS_EXAMPLES = """\b
Examples:
  mcpdesk schemas sample_servers/hello --for openai
  mcpdesk schemas ~/servers/profiles --for anthropic --mode review
  mcpdesk schemas http://127.0.0.1:3333/mcp/hello --for openai --key-env MCPDESK_API_KEY

The list goes to stdout, ready to be the `tools` of a request; what had to be changed for the API, to stderr.

Exit codes: 0 ok, 2 usage, 3 cannot connect, 4 protocol error, 5 timed out.
"""
CONFIG_EXAMPLES = """\b
Examples:
  mcpdesk config sample_servers/hello --for claude-desktop
  mcpdesk config ~/servers/profiles --for claude-code --mode review
  mcpdesk config ~/servers/profiles --for cursor --http http://127.0.0.1:3333
  mcpdesk config ~/servers/wallet --for cursor --token-env WALLET_TOKEN

Without --http the client starts `mcpdesk stdio FOLDER` itself. With it, somebody has to run the desk or
`mcpdesk serve`; the key goes along when callers need it, so keep the text to yourself.
The token of --token-env is in it, too: as MCPDESK_TOKEN for the command, as a header for a URL.
"""
APIS = ("openai", "anthropic")
PLACES = {
    "claude-desktop": "Paste it into claude_desktop_config.json (Settings, Developer, Edit Config); restart.",
    "cursor": "Paste it into ~/.cursor/mcp.json, or .cursor/mcp.json of a project.",
    "vscode": "Paste it into .vscode/mcp.json, or run `MCP: Open User Configuration`.",
    "claude-code": "Run it in a shell; add `--scope user` before the name for all your projects.",
}
"""Instruction for adding the configuration, by client."""


@click.command(name="new", epilog=NEW_EXAMPLES, short_help="Make a server folder.")
@click.argument("name")
@click.option(
    "--with",
    "parts",
    metavar="PARTS",
    default=",".join(PARTS),
    help=f"Parts to make: {','.join(PARTS)}; by default all.",
)
@click.option(
    "--from-openapi",
    "document",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With tools that call the service an OpenAPI document (3.0 or 3.1, JSON or YAML) describes.",
)
@click.option("--tags", default="", metavar="TAGS", help="Only operations with these tags.")
@click.option("--operations", default="", metavar="IDS", help="Only operations with these ids.")
def new_command(name: str, parts: str, document: Path | None, tags: str, operations: str) -> int:
    """Make the server folder NAME, which may be a path, and print the next steps."""
    place = checked_place(name)
    if document is not None:
        if parts != ",".join(PARTS):
            raise DeskUserError("--with is for folders of examples.", "Leave it out with --from-openapi.")
        return _new_from_openapi(place, name, document, tags, operations)
    if tags or operations:
        raise DeskUserError("--tags and --operations choose from a document.", "Add --from-openapi FILE.")
    chosen = checked_parts(parts)
    files = make(place, chosen)
    told = shlex.quote(as_argument(name))
    lines = [f"{told}", *(f"  {path}" for path in files), "", "Next:"]
    lines += [f"  mcpdesk {told}"]
    lines += [f"  mcpdesk call {told} greet name=Ada"] if "tools" in chosen else []
    lines += [f"  mcpdesk test {told}"] if "tests" in chosen else []
    print_text("\n".join(lines))
    return OK


MOST_OPERATIONS = 80
"""Limit of tools, because Cursor warns of more."""


def _new_from_openapi(place: Path, name: str, file: Path, tags: str, operations: str) -> int:
    from mcpdesk.hosting.folder.lint import Level
    from mcpdesk.hosting.openapi.api_document import read_document, tag_counts
    from mcpdesk.hosting.openapi.api_folder import make_api_folder

    document = read_document(file, _words(tags), _words(operations))
    if (count := len(document.operations)) > MOST_OPERATIONS:
        raise DeskUserError(
            f"{count:,} operations are more than the {MOST_OPERATIONS} tools that a model can choose from.",
            f"Choose with --tags or --operations. Tags: {tag_counts(document)}.",
        )
    folder = make_api_folder(document, place.name)
    write_folder(place, {path: text.encode() for path, text in folder.files.items()})
    told = shlex.quote(as_argument(name))
    lines = [told, *(f"  {path}" for path in folder.files), ""]
    count = len(folder.tools)
    lines += [f"{count} {'tool calls' if count == 1 else 'tools call'} {document.title}."]
    if folder.left_out:
        lines += ["Left out:", *(f"  {each}" for each in folder.left_out)]
    lines += ["", "Next:", *(f"  export {each}=..." for each in folder.variables)]
    lines += [f"  mcpdesk test {told}", f"  mcpdesk {told}"]
    print_text("\n".join(lines))
    errors = [each for each in folder_findings(place) if each.level is Level.ERROR]
    for each in errors:
        print_message(f"mcpdesk: {each}")
    if errors:
        print_message(
            f"mcpdesk: {told} was made, and `mcpdesk check {told}` finds {len(errors)} errors in it."
        )
    return TOOL_ERROR if errors else OK


def folder_findings(place: Path) -> list[Finding]:
    """Findings of `mcpdesk check` for a folder. Raises: DeskError if it cannot be hosted."""
    from mcpdesk.hosting.folder.lint import lint
    from mcpdesk.hosting.folder.manifest import read_manifest

    with loaded(place) as host:
        server = host.endpoints()[0].server
        return lint(server, read_manifest(place), host.folders[server.name].warnings, os.environ)


def _words(text: str) -> list[str]:
    return [each for each in (part.strip() for part in text.split(",")) if each]


def checked_place(name: str) -> Path:
    """Return the path of a new folder. Raises: DeskUserError for an invalid name or an existing path."""
    from mcpdesk.hosting.folder.manifest import NAME, NAME_RULE

    place = Path(name).expanduser()
    if "://" in name or not re.fullmatch(NAME, place.name):
        raise DeskUserError(f"{place.name!r} is no name for a server.", f"Allowed: {NAME_RULE}.")
    if place.exists() or place.is_symlink():
        what = "folder" if place.is_dir() else "file"
        hint = "Choose another name, or remove it first."
        raise DeskUserError(f"There is a {what} {name!r} already.", hint)
    if not place.parent.is_dir():
        message = f"There is no folder {str(place.parent)!r} to make it in."
        raise DeskUserError(message, "Make that one first.")
    return place


def checked_parts(text: str) -> frozenset[str]:
    """Return the parts listed in a text. Raises: DeskUserError for unknown parts, and for tests alone."""
    chosen = frozenset(each.strip() for each in text.split(","))
    if unknown := sorted(chosen - PARTS.keys()):
        raise DeskUserError(
            f"--with: {unknown[0]!r} is no part of a server.", f"Allowed: {', '.join(PARTS)}."
        )
    if chosen == {"tests"}:
        raise DeskUserError(
            "--with: tests alone have nothing to test.", "Add what they are for: tools,tests."
        )
    return chosen


def make(place: Path, parts: Collection[str] = tuple(PARTS)) -> list[str]:
    """Create a folder from the sample `starter`, with its own name. Nothing is left behind on failure.

    Return the relative paths of its files. Raises: DeskUserError if it cannot be written.
    """
    starter = paths.sample_servers() / "starter"
    found = [path for path in sorted(starter.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    files = [path for each in found if _is_of(path := each.relative_to(starter), parts)]
    content = {str(path): (starter / path).read_bytes() for path in files}
    manifest = json.loads(content["mcp.json"])
    title = place.name.replace("-", " ").replace("_", " ").capitalize()
    manifest |= {"name": place.name, "title": title}
    manifest["instructions"] = " ".join(PARTS[each] for each in PARTS if each in parts and PARTS[each])
    if "skills" not in parts:
        del manifest["builtins"]
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    write_folder(place, content | {"mcp.json": f"{text}\n".encode()})
    return list(map(str, files))


def write_folder(place: Path, content: Mapping[str, bytes]) -> None:
    """Create a folder with these files. Nothing is left behind on failure. Raises: DeskUserError."""
    try:
        place.mkdir()
        try:
            for path, data in content.items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(data)
        except OSError:
            shutil.rmtree(place, ignore_errors=True)
            raise
    except OSError as error:
        message = f"{place} cannot be written: {error.strerror}."
        raise DeskUserError(message, "Choose another place.") from None


def _is_of(path: Path, parts: Collection[str]) -> bool:
    """Return True if a file of the sample belongs to the parts. Test cases of a part have the part's name."""
    if path.parts[0] == "cases":
        return "tests" in parts and path.stem in parts
    return len(path.parts) == 1 or path.parts[0] in parts


def as_argument(name: str) -> str:
    """Return the name as an argument that is not mistaken for a command."""
    from mcpdesk.cli.main import COMMANDS

    return f"./{name}" if name in COMMANDS else name


@click.command(name="pack", epilog=PACK_EXAMPLES, short_help="Make a bundle and its registry entry.")
@click.argument("folder", shell_complete=completion.folder)
@click.option(
    "--output",
    "out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Bundle file; by default NAME-VERSION.mcpb in the current folder.",
)
@click.option("--url", default="", metavar="URL", help="Download URL of the bundle.")
def pack_command(folder: str, out: Path | None, url: str) -> int:
    """Make an MCPB bundle of the server folder FOLDER, and beside it server.json for the registry.

    The bundle contains mcpdesk as a wheel and is started by uv, which installs the requirements of both.
    Test cases, locks, secrets, files of variables, captures, hidden files and caches are left out and listed.
    Both files are overwritten.
    """
    from hashlib import sha256

    from mcpdesk.hosting.folder.lint import Level, lint
    from mcpdesk.hosting.folder.manifest import read_manifest
    from mcpdesk.hosting.folder.requirements import script_requirements
    from mcpdesk.hosting.packing.bundle import START, folder_files, pack
    from mcpdesk.protocol.catalogue.publication import LOCAL, bundle_manifest, download_url, registry_entry
    from mcpdesk.settings import BY_NAME, SettingKind

    place = server_folder(folder)
    manifest = read_manifest(place)
    with loaded(place) as host:
        hosted = host.folders[manifest.name]
        server = hosted.server
        mistakes = [
            each for each in lint(server, manifest, hosted.warnings, os.environ) if each.level is Level.ERROR
        ]
        variables = [(name, f"Needed by {where}") for name, where in hosted.variables.items()]
        if server.requires_jwt or server.token_tools:
            what = "anything" if server.requires_jwt else ", ".join(server.token_tools)
            variables.append((TOKEN_VARIABLE, f"Bearer token, without which {what} cannot be used"))
        tools = [(tool.name, tool.description) for tool in server.tools]
        tools += [(each.name, "") for each in server.tools.unavailable if each.is_fit]
        has_prompts, publication = len(server.prompts) > 0, server.publication
    chosen = folder_files(manifest.folder)
    told = [str(each) for each in mistakes]
    told += [f"{each}: error: holds what looks like a token or a private key" for each in chosen.secrets]
    told += [
        f"{manifest.source('settings', name)}: error: settings.{name}: a secret does not belong into a bundle"
        for name in manifest.settings
        if BY_NAME[name].kind is SettingKind.SECRET
    ]
    if told:
        print_text("\n".join(told))
        return TOOL_ERROR
    file = out or Path(f"{manifest.name}-{re.sub(r'[^A-Za-z0-9._+-]', '-', manifest.version)}.mcpb")
    publish = manifest.publish
    author = publish.author or publish.name.partition("/")[0] or "unknown"
    described = bundle_manifest(publication, author, publish.license, tools, has_prompts, variables, START)
    requires = list(manifest.requires)
    for path in chosen.files.values():
        requires += script_requirements(path.read_bytes()) if path.suffix == ".py" else []
    data = pack(manifest.name, manifest.version, chosen.files, described, requires, manifest.builtins)
    digest = sha256(data).hexdigest()
    where = url or publish.bundle or download_url(publication, file.name)
    entry = registry_entry(publication, where or file.name, digest, variables)
    listed = file.with_name("server.json")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        listed.write_text(json.dumps(entry, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        message = f"{error.filename or file} cannot be written: {error.strerror}."
        raise DeskUserError(message, "See --output.") from None
    lines = [f"{file}  {len(chosen.files)} files, {len(data)} bytes, SHA-256 {digest}", str(listed)]
    lines += ["", "left out", *aligned(chosen.left_out, "  ")] if chosen.left_out else []
    print_text("\n".join(lines))
    if not publish.name:
        print_message(
            f"mcpdesk: the registry does not take the name {LOCAL}/{manifest.name}: "
            'add "publish": {"name": "io.github.YOU/NAME"} to mcp.json.'
        )
    if not where:
        print_message("mcpdesk: server.json does not say where the bundle is downloaded from; see --url.")
    return OK


@click.command(name="schemas", epilog=SCHEMAS_EXAMPLES, short_help="Print tools as model APIs take them.")
@click.argument("target", shell_complete=completion.folder)
@click.option("--for", "api", type=click.Choice(APIS), help="API; by default that of the setting `model`.")
@TIMEOUT
@reach_options
def schemas_command(target: str, api: ApiName | None, timeout_s: float, reach: Reach) -> None:
    """Print the tools of TARGET, any server, as JSON schemas for a model API."""
    if Path(target).expanduser().is_dir():
        if reach.token or reach.is_remote:
            message = "The schemas of a folder need no token, no key and no header."
            raise DeskUserError(message, "They are for a server that is reached as a client.")
        found = _of_folder(target, api, reach.mode)
    else:
        found = _of_server(target, api, reach, timeout_s)
    for remark in found.remarks:
        print_message(f"mcpdesk: {remark}")
    print_json(found)


def _of_server(target: str, api: ApiName | None, reach: Reach, timeout_s: float) -> ToolSchemas:
    from mcpdesk.bridge.model_schemas import ToolSchemas, model_api
    from mcpdesk.cli.command_client import client
    from mcpdesk.settings import resolve

    chosen = _chosen(api, resolve({}, os.environ).settings.model)
    with client(target, reach, lists=True) as server:
        return ToolSchemas(server.request_all("tools/list", "tools", timeout_s), model_api(chosen))


def _of_folder(folder: str, api: ApiName | None, mode: str) -> ToolSchemas:
    """Load the folder as a server would. Output of its code goes to stderr."""
    from mcpdesk.bridge import tool_schemas
    from mcpdesk.cli.command_client import print_stray_output

    with loaded(server_folder(folder)) as host:
        endpoint = host.endpoint("", mode)
        assert endpoint is not None
        chosen = _chosen(api, host.settings.model)
        found = asyncio.run(tool_schemas(endpoint.server, api=chosen))
    print_stray_output(host)
    return found


def _chosen(api: ApiName | None, model: str | None) -> ApiName:
    """Return the given API, or else the API of the model. Raises: DeskUserError without either."""
    if api is not None:
        return api
    if not model:
        raise DeskUserError("Which API are the schemas for?", f"Add --for {' or --for '.join(APIS)}.")
    from mcpdesk.bridge.model_schemas import api_of_model

    return api_of_model(model)


@click.command(name="config", epilog=CONFIG_EXAMPLES, short_help="Print a client's configuration to paste.")
@click.argument("folder", metavar="FOLDER", shell_complete=completion.folder)
@click.option("--for", "client", type=click.Choice(tuple(PLACES)), required=True, help="The client.")
@click.option(
    "--http", "url", metavar="URL", help="Address of the running server, such as http://127.0.0.1:3333."
)
@click.option("--mode", default="", metavar="NAME", help="Offer only the tools of this mode.")
@click.option(
    "--token-env", "variable", metavar="VAR", help="Environment variable with the client's bearer token."
)
def config_command(folder: str, client: str, url: str | None, mode: str, variable: str | None) -> None:
    """Print what to paste into a client so that it uses the server folder FOLDER.

    If the server requires a token for everything, one must be given, unless the client can
    get a token itself: over HTTP, from an authorization server that mcp.json names.
    """
    from mcpdesk.hosting.client_config import ServerAddress, client_config
    from mcpdesk.hosting.folder.manifest import read_manifest

    place = server_folder(folder)
    manifest = read_manifest(place)
    if mode and mode not in manifest.modes:
        raise UnknownMode(manifest.name, mode, tuple(manifest.modes))
    token = secret(variable, "--token-env") or ""
    if variable:
        os.environ.pop(variable, None)  # hosted code must not see it
    address = ServerAddress(manifest.name, str(place), mode=mode, token=token)
    notes = list[str]()
    if url or token or manifest.auth.jwt is not None:
        with loaded(place, http=bool(url)) as host:  # its tools decide whether callers need a key
            endpoint = host.endpoint("", mode)
            assert endpoint is not None
            access, key, header = (
                endpoint.access,
                host.rules.api_key if url else "",
                host.settings.api_key_header,
            )
            if token:
                notes += asyncio.run(_token_notes(endpoint, token))
            elif names := [] if access.requires_token else endpoint.server.token_tools:
                notes.append(_tools_without_token(names, bool(url)))
        address = address._replace(
            key=key,
            header=header,
            needs_token=access.requires_token,
            has_login=bool(access.authorization_servers),
        )
    if url:
        address = address._replace(url=_endpoint(url, manifest.name))
    print_text(client_config(client, address, "http" if url else "stdio"))
    for line in (PLACES[client], *notes):
        print_message(line)


async def _token_notes(endpoint: HostedEndpoint, token: str) -> list[str]:
    """Return notes about a token that is written to a configuration.

    Raises: DeskUserError if it is invalid, or the server checks no tokens.
    """
    from mcpdesk.auth.keys import KeysMissing
    from mcpdesk.auth.tokens import Rejected

    access = endpoint.access
    if access.verifier is None:
        hint = "In mcp.json auth.jwt says how tokens are checked."
        raise DeskUserError(f"{endpoint.name} looks at no tokens.", hint)
    try:
        holder = await access.verify(token)
    except Rejected as reason:
        message = f"The token does not count for {endpoint.name}: {reason}."
        raise DeskUserError(message, "See --token-env.") from None
    except KeysMissing as reason:
        return [f"The token cannot be checked now: {reason}."]
    finally:
        access.verifier.close()  # it may still load keys
    if not access.admits(holder):
        scopes = " ".join(sorted(access.scopes - holder.scopes))
        raise DeskUserError(f"The token lacks the scope {scopes}, which every request needs.")
    if holder.expires is None:
        return []
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(holder.expires))
    return [f"The token is valid until {until}; then write the configuration again, with a new one."]


def _tools_without_token(names: Sequence[str], is_http: bool) -> str:
    """Note about tools that a configuration without a token cannot use."""
    what = f"{', '.join(names)} {'needs' if len(names) == 1 else 'need'} a token"
    if is_http:
        return f"{what}: add one with --token-env VAR, or let the client log in if it can."
    verb = "is" if len(names) == 1 else "are"
    return f"{what} and {verb} not listed without one: add it with --token-env VAR."


def _endpoint(url: str, name: str) -> str:
    """Return the URL of the server, adding its path if missing. Raises: DeskUserError for an invalid URL."""
    from mcpdesk.client.http_transports import checked_url

    parts = urlsplit(checked_url(url))
    bare = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return bare if parts.path.strip("/") else f"{bare}/mcp/{name}"
