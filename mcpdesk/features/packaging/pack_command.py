"""The command `pack`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from mcpdesk.auth.principal import TOKEN_VARIABLE
from mcpdesk.cli import completion
from mcpdesk.cli.printing import OK, TOOL_ERROR, aligned, print_message, print_text
from mcpdesk.cli.reach import server_folder
from mcpdesk.errors import DeskUserError
from mcpdesk.runtime.core_process import loaded_host

PACK_EXAMPLES = """\b
Examples:
  mcpdesk pack ~/servers/profiles
  mcpdesk pack ~/servers/profiles --output dist/profiles.mcpb
  mcpdesk pack ~/servers/profiles --url https://example.com/profiles.mcpb

Before you publish, fill in `publish` in mcp.json: the registry name, the author and the repository.

Exit codes: 0 ok, 1 the folder has an error, 2 invalid command.
"""


@click.command(name="pack", epilog=PACK_EXAMPLES, short_help="Make a bundle and its registry entry.")
@click.argument("folder", shell_complete=completion.folder)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Bundle file to write. Default: NAME-VERSION.mcpb in the current folder.",
)
@click.option(
    "--url",
    default="",
    metavar="URL",
    help="URL where users will download the bundle. It is written to server.json.",
)
def pack_command(folder: str, output: Path | None, url: str) -> int:
    """Make two files from the server folder FOLDER: an MCPB bundle, and server.json for the registry.

    The bundle contains the folder and mcpdesk itself. uv starts the bundle, and installs the packages that it
    needs. The command leaves some files out and lists them: test cases, lock files, secrets, files with
    environment variables, captures, hidden files and caches. If the two files exist, they are overwritten.
    """
    from hashlib import sha256

    from mcpdesk.features.packaging.bundle import START, folder_files, pack
    from mcpdesk.hosting.folder.findings import load_errors
    from mcpdesk.hosting.folder.manifest import read_manifest
    from mcpdesk.hosting.folder.requirements import script_requirements
    from mcpdesk.protocol.catalogue.publication import LOCAL, bundle_manifest, download_url, registry_entry
    from mcpdesk.setting_values import SettingKind
    from mcpdesk.settings import BY_NAME

    folder_path = server_folder(folder)
    manifest = read_manifest(folder_path)
    with loaded_host(folder_path) as host:
        hosted = host.folders[manifest.name]
        server = hosted.server
        errors = load_errors(server, hosted.warnings)
        variables = [(name, f"Needed by {user}") for name, user in hosted.variables.items()]
        if server.requires_jwt or server.token_tools:
            subject = "anything" if server.requires_jwt else ", ".join(server.token_tools)
            variables.append((TOKEN_VARIABLE, f"Bearer token, without which {subject} cannot be used"))
        tools = [(tool.name, tool.description) for tool in server.tools]
        tools += [(each.name, "") for each in server.tools.unavailable if each.is_fit]
        has_prompts = len(server.prompts) > 0
        publication = server.publication
    selection = folder_files(manifest.folder)
    problems = [str(each) for each in errors]
    problems += [f"{each}: error: seems to contain a token or a private key" for each in selection.secrets]
    problems += [
        f"{manifest.source('settings', name)}: error: settings.{name}: a bundle must not contain a secret"
        for name in manifest.settings
        if BY_NAME[name].kind is SettingKind.SECRET
    ]
    if problems:
        print_text("\n".join(problems))
        return TOOL_ERROR
    file = output or Path(f"{manifest.name}-{re.sub(r'[^A-Za-z0-9._+-]', '-', manifest.version)}.mcpb")
    publish = manifest.publish
    author = publish.author or publish.name.partition("/")[0] or "unknown"
    bundle_document = bundle_manifest(
        publication, author, publish.license, tools, has_prompts, variables, START
    )
    requires = list(manifest.requires)
    for path in selection.files.values():
        requires += script_requirements(path.read_bytes()) if path.suffix == ".py" else []
    data = pack(
        manifest.name, manifest.version, selection.files, bundle_document, requires, manifest.builtins
    )
    digest = sha256(data).hexdigest()
    bundle_url = url or publish.bundle or download_url(publication, file.name)
    entry = registry_entry(publication, bundle_url or file.name, digest, variables)
    server_file = file.with_name("server.json")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        server_file.write_text(json.dumps(entry, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        message = f"{error.filename or file} cannot be written: {error.strerror}."
        raise DeskUserError(message, "See --output.") from None
    lines = [f"{file}  {len(selection.files)} files, {len(data)} bytes, SHA-256 {digest}", str(server_file)]
    lines += ["", "left out", *aligned(selection.left_out, "  ")] if selection.left_out else []
    print_text("\n".join(lines))
    if not publish.name:
        print_message(
            f"mcpdesk: the registry rejects the name {LOCAL}/{manifest.name}: "
            'add "publish": {"name": "io.github.YOU/NAME"} to mcp.json.'
        )
    if not bundle_url:
        print_message("mcpdesk: server.json has no download URL of the bundle; see --url.")
    return OK
