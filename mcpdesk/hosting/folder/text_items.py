"""Items without code: files as resources, and Markdown files as prompts."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.folder.file_items import FileItems, digest, why_unreadable
from mcpdesk.hosting.folder.module_items import check_arguments, choice_completer
from mcpdesk.protocol.catalogue.front_matter import TextDocument, read_document
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.prompts import Prompt, PromptArgument
from mcpdesk.server.offer.resources import Completer, Resource

_log = logging.getLogger(__name__)

MAX_COMPARED_BYTES = 1 << 20
"""Maximum size in bytes of a file whose content is compared to find changes."""
PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}")
"""Place in a prompt that an argument replaces, such as `{{topic}}`."""
WITH_FRONT_MATTER = frozenset({".md", ".markdown", ".mdx", ".txt"})
"""Suffixes of files that may begin with front matter."""
MIME_TYPES = {
    ".md": "text/markdown", ".markdown": "text/markdown", ".mdx": "text/markdown", ".txt": "text/plain",
    ".json": "application/json", ".jsonl": "application/jsonl", ".yaml": "application/yaml",
    ".yml": "application/yaml", ".toml": "application/toml", ".csv": "text/csv", ".html": "text/html",
    ".css": "text/css", ".js": "text/javascript", ".xml": "application/xml", ".svg": "image/svg+xml",
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
    ".webp": "image/webp", ".pdf": "application/pdf", ".wav": "audio/wav", ".mp3": "audio/mpeg",
}  # fmt: skip
TEXT_TYPES = re.compile(r"text/.*|application/(json|jsonl|yaml|toml|xml|javascript|sql)|.*\+(json|xml)")
"""Media types whose content is text."""
PROMPT_KEYS = ("name", "title", "description", "arguments")
"""Known keys in the front matter of a prompt."""
ARGUMENT_KEYS = ("name", "title", "description", "required", "choices")
"""Allowed keys of an argument in this front matter."""


def read_resource_file(path: Path, folder: Path, name: str) -> FileItems:
    """Read a file as a resource. `name` is its path below `resources/` without the suffix."""
    relative = path.relative_to(folder).as_posix()
    try:
        return FileItems([_resource(path, folder, name, relative)])
    except RegistrationError as error:
        items = FileItems()
        items.refuse("resource", _uri(name), error)
        return items


def read_prompt_file(path: Path, folder: Path, name: str) -> FileItems:
    """Read a Markdown file as a prompt. `name` is its path below `prompts/` without the suffix."""
    relative = path.relative_to(folder).as_posix()
    items = FileItems()
    try:
        text = _utf8_text(path.read_bytes())
        if text is None:
            raise RegistrationError("a prompt must be UTF-8 text", f"{relative}:1")
        document = read_document(text, relative)
        items.items.append(_prompt(document, name, relative, items.remarks))
    except RegistrationError as error:
        items.refuse("prompt", name, error)
    return items


def _resource(path: Path, folder: Path, name: str, location: str) -> Resource:
    """Create a resource from a file. Raises: RegistrationError for invalid front matter; OSError."""
    size = path.stat().st_size
    is_small = size <= MAX_COMPARED_BYTES
    data = path.read_bytes() if is_small else b""
    text = _utf8_text(data) if data else None
    document = TextDocument("") if text is None else _document(path, text, location)
    fields = document.fields
    name = text_of(fields, "name", location) or name
    mime_type = text_of(fields, "mimeType", location) or mime_type_of(path, data, text)
    body = document.body.encode() if fields else data
    return Resource(
        uri=_uri(name),
        name=name,
        reader=_reader(path, folder, mime_type),
        title=text_of(fields, "title", location),
        description=text_of(fields, "description", location),
        mime_type=mime_type,
        annotations=_annotations(fields, location),
        size=len(body) if is_small else size,
        path=location,
        source=f"{location}:1",
        fingerprint=_fingerprint(path, data),
    )


def _annotations(fields: dict[str, Any], location: str) -> dict[str, Any]:
    """Return the annotations in front matter. Raises: RegistrationError if they are invalid."""
    values = mapping_of(fields, "annotations", location)
    if values:
        from mcpdesk.protocol.catalogue.annotations import check_annotations

        try:
            check_annotations(values)
        except ValueError as error:
            raise RegistrationError(str(error), f"{location}:1") from None
    return values


def _reader(path: Path, folder: Path, mime_type: str) -> Callable[..., Any]:
    """Return a function that reads the body of a file."""

    def read_content() -> str | bytes | None:
        """Return the content, or None if the file was deleted or now leads out of the folder."""
        if reason := why_unreadable(path, folder):
            _log.warning("%s %s", path.name, reason)
            return None
        content = text_or_bytes(path.read_bytes(), mime_type)
        return content if isinstance(content, bytes) else _document(path, content, path.name).body

    async def read(_uri: str, _variables: dict[str, str], _context: Context) -> str | bytes | None:
        return await asyncio.to_thread(read_content)

    return read


def _document(path: Path, text: str, location: str) -> TextDocument:
    """Split a text into front matter and body, if the type of the file can have front matter."""
    return read_document(text, location) if path.suffix.lower() in WITH_FRONT_MATTER else TextDocument(text)


def _prompt(document: TextDocument, name: str, location: str, remarks: list[str]) -> Prompt:
    """Create a prompt from a document, and add warnings about the document to `remarks`."""
    fields = document.fields
    name = text_of(fields, "name", location) or name
    placeholders = list(dict.fromkeys(PLACEHOLDER.findall(document.body)))
    if "arguments" in fields:
        arguments = tuple(_arguments(fields["arguments"], location))
    else:
        arguments = tuple(PromptArgument(placeholder, required=True) for placeholder in placeholders)
    _add_remarks(document, name, location, placeholders, arguments, remarks)

    async def render(argument_values: dict[str, str], _context: Context) -> str:
        check_arguments(name, arguments, argument_values)
        values = {argument.name: "" for argument in arguments} | argument_values
        return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), document.body).strip()

    fingerprint = digest(document.body.encode())
    return Prompt(
        name=name,
        renderer=render,
        title=text_of(fields, "title", location),
        description=text_of(fields, "description", location),
        arguments=arguments,
        completers=_choice_completers(fields.get("arguments", ()), location),
        source=f"{location}:1",
        fingerprint=fingerprint,
    )


def _arguments(value: Any, location: str) -> list[PromptArgument]:
    """Return the arguments that front matter declares. Raises: RegistrationError."""
    if not isinstance(value, list):
        raise RegistrationError("arguments in the front matter must be a list", f"{location}:1")
    arguments = [_argument({"name": entry} if isinstance(entry, str) else entry, location) for entry in value]
    names = [argument.name for argument in arguments]
    if len(set(names)) < len(names):
        raise RegistrationError("the front matter declares an argument twice", f"{location}:1")
    return arguments


def _argument(value: Any, location: str) -> PromptArgument:
    """Return one argument that front matter declares. Raises: RegistrationError."""
    if not isinstance(value, dict) or not value.get("name"):
        raise RegistrationError("each argument needs a name, like - name: topic", f"{location}:1")
    for key in value:
        if key not in ARGUMENT_KEYS:
            raise RegistrationError(
                f"unknown key {key!r} of an argument; allowed: {', '.join(ARGUMENT_KEYS)}", f"{location}:1"
            )
    required = value.get("required", False)
    if not isinstance(required, bool):
        raise RegistrationError("required of an argument must be true or false", f"{location}:1")
    return PromptArgument(
        text_of(value, "name", location),
        text_of(value, "description", location),
        text_of(value, "title", location),
        required,
    )


def _choice_completers(value: Any, location: str) -> dict[str, Completer]:
    """Return a completer for each argument for which the front matter lists the values."""
    completers: dict[str, Completer] = {}
    for argument in value:
        choices = argument.get("choices") if isinstance(argument, dict) else None
        if choices is None:
            continue
        if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
            raise RegistrationError("choices of an argument must be a list of texts", f"{location}:1")
        completers[text_of(argument, "name", location)] = choice_completer(choices)
    return completers


def _add_remarks(
    document: TextDocument,
    name: str,
    location: str,
    placeholders: list[str],
    arguments: tuple[PromptArgument, ...],
    remarks: list[str],
) -> None:
    """Add remarks about unknown arguments and misspelt keys."""
    import difflib

    declared_names = [argument.name for argument in arguments]
    for placeholder in placeholders:
        if placeholder not in declared_names:
            text = f"{{{{{placeholder}}}}} is not an argument of {name} and stays unchanged"
            remarks.append(f"{location}: {text}")
    for key in document.fields:
        matches = difflib.get_close_matches(key, PROMPT_KEYS, n=1) if key not in PROMPT_KEYS else []
        if matches:
            remarks.append(f"{location}: unknown key {key!r} in the front matter; did you mean {matches[0]}?")


def _uri(name: str) -> str:
    return f"resource://{quote(name)}"


def mime_type_of(path: Path, data: bytes = b"", text: str | None = None) -> str:
    """Guess the media type of a file from its name, or else from its content."""
    import mimetypes

    mime_type = MIME_TYPES.get(path.suffix.lower()) or mimetypes.guess_type(path.name)[0]
    if mime_type:
        return mime_type
    return "text/plain" if text is not None or not data else "application/octet-stream"


def text_or_bytes(data: bytes, mime_type: str) -> str | bytes:
    """Return the content of a file as text if its type and bytes allow this."""
    may_be_text = TEXT_TYPES.fullmatch(mime_type.partition(";")[0].strip())
    text = _utf8_text(data) if may_be_text else None
    return data if text is None else text


def _utf8_text(data: bytes) -> str | None:
    """Return the bytes as text, or None if they are not UTF-8."""
    try:
        return None if b"\0" in data else data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _fingerprint(path: Path, data: bytes) -> str:
    """Return a text that changes with the content. Without `data`, the file's size and time are used."""
    if data:
        return digest(data)
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def text_of(fields: dict[str, Any], key: str, location: str) -> str:
    """Return a field that must be a text, or "" if it is missing.

    Raises: RegistrationError if YAML reads the value as neither text nor number.
    """
    value = fields.get(key, "")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RegistrationError(
            f"{key} in the front matter must be a text; put it into quotes", f"{location}:1"
        )
    return str(value).strip()


def mapping_of(fields: dict[str, Any], key: str, location: str) -> dict[str, Any]:
    """Return a field that must be a mapping. Empty if it is missing.

    Raises: RegistrationError for another type.
    """
    value = fields.get(key, {})
    if not isinstance(value, dict):
        raise RegistrationError(f"{key} in the front matter must be a mapping", f"{location}:1")
    return value
