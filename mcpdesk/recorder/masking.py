"""Masking of secrets in frames that are shown, copied or exported. The capture itself is not masked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from mcpdesk.late_pattern import LatePattern

MASK: Final = "••••"
"""Text that is shown instead of a secret."""

SECRET_HEADERS: Final = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "cookie",
        "set-cookie",
        "x-auth-token",
        "x-csrf-token",
        "x-amz-security-token",
        "x-operator-key",
        "x-mcpdesk-page",
    }
)
"""Headers whose whole value is a secret, except the scheme of a token."""
SESSION_HEADERS: Final = frozenset({"mcp-session-id"})
"""Headers with a session id. An id gives access to its session. Different ids get different masks."""
_SECRET_WORDS = (
    "password passwd passphrase secret token apikey accesskey privatekey secretkey clientsecret credential "
    "credentials authorization jwt bearer cookie accesstoken refreshtoken idtoken sessiontoken authtoken pin "
    "mcpsessionid"
)
_SECRET_NAMES = frozenset(_SECRET_WORDS.split())
"""Names of secrets in lower case, without other characters than letters and digits."""
_SECRET_NAME_ENDINGS = (
    "password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "secretkey", "token",
    "accountkey", "signingkey", "encryptionkey",
)  # fmt: skip
"""Endings of further names of secrets."""
_HARMLESS_NAMES = frozenset({"progresstoken", "maxtokens", "tokens", "canceltoken", "nexttoken", "pagetoken"})
"""Names that end like the name of a secret, although their values are no secrets."""

_URL_SECRET_NAMES = frozenset({"key", "code", "sig", "signature", "auth", "sessionid", "session_id"})
"""Names of URL parameters that contain secrets, although JSON members with these names do not."""
_URL_PARAMETER = LatePattern(
    r"""(?: [?&;#] | %(?:25)*(?:3f|26|3b|23) | \\u00(?:3f|26|3b|23) )
        (?P<name> (?: [a-z0-9._~+\[\]-] | %(?!(?:25)*3d)[0-9a-f]{2} ){1,120}+ )
        (?: = | %(?:25)*3d | \\u003d )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Beginning of a URL parameter, up to the value.

If the URL is itself a value, its separators may be escaped.
"""
_URL_VALUE = LatePattern(
    r"""(?: [^&\s"'#;\\<>] | ["'\\<>](?=[a-z0-9]) | ;(?![a-z0-9._~+\[\]%-]{1,120}=) )+""",
    re.IGNORECASE | re.VERBOSE,
)
"""Value of a URL parameter. A quote or semicolon belongs to the value if more of the value follows."""
_MAX_DECODINGS = 5
"""Maximum number of times that a name is percent-decoded."""
_BEARER = LatePattern(r"\b(Bearer|Basic)(\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
"""Scheme and value of a token, as in the header `Authorization`."""
# Possessive quantifiers, because malicious texts could otherwise cause endless backtracking.
_JWT = LatePattern(r"\beyJ[A-Za-z0-9_-]{8,}+(\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+)?")
"""JSON Web Token. Without the optional group, the text may only begin like a token."""
_USERINFO = LatePattern(r"(://[^/\s:@]*+:)[^/\s@]++(@)")
"""Password in a URL, with the text around it in two groups."""
_JSON_KEY = LatePattern(r"""(\\{0,63}")([A-Za-z0-9_.-]{2,40})\1\s*+:\s*+(\1|(?=[^\s"'\\,;<>{}\[\]]))""")
"""Beginning of a JSON member, up to the value. The value is a string, a number or a plain word."""
_STRING = LatePattern(r'(?:[^"\\]|\\.)*')
"""Content of a JSON string, up to its closing quote."""
_ASSIGNED = LatePattern(
    r"(?<![\w.%-])(?:--(?P<option>[A-Za-z][\w-]{1,60}+)(?:=|[ \t](?!-))|"
    r"(?P<name>[A-Za-z_][\w.-]{1,63}+)(?:=|[ \t]{1,8}=[ \t]{1,8}))"
)
"""Name in a command or a log line, with everything up to the value:

`TOKEN=...`, `--password ...`, `api_key = ...`.
"""
_ASSIGNED_VALUE = LatePattern(r"""\\*+["'][^"'\\]++|[^\s"'\\&;,()<>|`]++""")
"""Value after a name in a command or a log line."""
_KNOWN_TOKEN = LatePattern(
    r"""\b(?: gh[pousr]_[A-Za-z0-9]{30,}+ | github_pat_[A-Za-z0-9_]{22,}+ | glpat-[A-Za-z0-9_-]{20,}+
        | xox[abeoprs]-[A-Za-z0-9-]{10,}+ | (?:AKIA|ASIA)[0-9A-Z]{16}\b | sk-[A-Za-z0-9_-]{32,}+
        | AIza[A-Za-z0-9_-]{35} | npm_[A-Za-z0-9]{36} | hf_[A-Za-z0-9]{30,}+ | pypi-[A-Za-z0-9_-]{40,}+
        | [sr]k_(?:live|test)_[A-Za-z0-9]{16,}+ )""",
    re.VERBOSE,
)
"""Tokens with known prefixes: GitHub, GitLab, Slack, AWS, OpenAI, Anthropic, Google, npm, Stripe and
others.
"""
_SECRET_SIGN = LatePattern(
    r'[=:"%\\]|--|gh[pousr]_|github_pat_|glpat-|xox|A(?:KI|SI|Iz)|[sr]k[-_]|npm_|hf_|pypi-|eyJ|[Bb](?i:earer|asic)'
)
"""Text that occurs in every text with a secret, but not in most short texts."""
_NAME_TAILS = "|".join(sorted({word[-3:] for word in (*_SECRET_NAMES, *_SECRET_NAME_ENDINGS)} | {"-id"}))
"""Last three letters of all names of secrets, as alternatives."""
_COLON = LatePattern(rf":(?:(?<=(?:{_NAME_TAILS}):)|(?<=(?:{_NAME_TAILS})[ \t']:))", re.IGNORECASE)
"""Colon after a name that ends like the name of a secret, as in YAML, logs and headers: `password: ...`."""
_NAME = LatePattern(r"(?<![\w.-])[\w.-]++(?=[ \t']?\Z)")
"""Name at the end of a text."""
_GAP = LatePattern(r"[ \t]*+(?:(?:token|bearer|basic|digest|apikey)[ \t]+)?", re.IGNORECASE)
"""Text between the colon and the value. The scheme of a token is not masked."""
_NAMED_VALUE = LatePattern(
    r"""\\*+["'](?![\s,:;)}\]])[^"'\\]++
        | [^\s"'\\,;<>{}\[\]] (?: [^\s"'\\,;<>{}\[\]] | ["'](?=[A-Za-z0-9]) )*+""",
    re.VERBOSE,
)
"""Value after a name and a colon."""
_MORE_COOKIES = LatePattern(r"""(?:;[ \t]*[^\s;"'\\]+)*+""")
"""Further cookies after the first one in the same header."""
_BARE_VALUE = LatePattern(r"""[^\s"'\\,;<>{}\[\]]++""")
"""JSON value without quotes."""
_PLAIN_WORDS = frozenset(
    {"str", "string", "int", "integer", "float", "number", "bool", "boolean", "bytes", "any"}
    | {"null", "none", "nil", "undefined", "true", "false", "|", ">"}
)
"""Words that are not secrets, although they follow the name of a secret in code or schemas."""
_PRIVATE_KEY = LatePattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
"""Private key up to its last line, or up to the end of the text if the last line is missing."""


def holds_token(text: str) -> bool:
    """Return True if a text contains a token with a known prefix or a private key."""
    return _KNOWN_TOKEN.regex.search(text) is not None or _PRIVATE_KEY.regex.search(text) is not None


def is_secret(name: str) -> bool:
    """Return True if the value of a JSON key, parameter or header with this name is a secret."""
    return _is_secret_name(name) if len(name) <= _MAX_CACHED_LENGTH else _has_secret_name(name)


def _has_secret_name(name: str) -> bool:
    """Return True if the name is that of a secret. Not cached."""
    normalized = re.sub(r"[^a-z0-9]", "", name.lower())
    if normalized in _HARMLESS_NAMES:
        return False
    return normalized in _SECRET_NAMES or normalized.endswith(_SECRET_NAME_ENDINGS)


_MAX_CACHED_LENGTH = 100
"""Maximum length in characters of a name whose result is cached."""
_is_secret_name = lru_cache(4_096)(_has_secret_name)


def mask_headers(
    headers: Iterable[tuple[str, str]], extra_names: Iterable[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Mask secret values of headers. `extra_names` has names of further secret headers.

    The scheme of a token (such as `Bearer`) is kept.
    """
    secret_names = SECRET_HEADERS | {name.lower() for name in extra_names}
    return tuple((name, _masked_header_value(name, value, secret_names)) for name, value in headers)


def _masked_header_value(name: str, value: str, secret_names: frozenset[str]) -> str:
    """Return the value of a header. Mask all of it if it is a secret, or else the secrets in it."""
    if name.lower() in SESSION_HEADERS:
        return mask_session(value)
    return mask_header(value) if name.lower() in secret_names or is_secret(name) else mask_text(value)


def mask_text(text: str) -> str:
    """Mask the secrets in a text: tokens, keys in URLs and commands, and JSON members with secret names."""
    if _SECRET_SIGN.regex.search(text) is None:
        return text
    text = _PRIVATE_KEY.regex.sub(MASK, text) if "-----BEGIN " in text else text
    text = _mask_parameters(text) if "=" in text or "%" in text or "\\u00" in text else text
    text = _mask_assigned(text) if "=" in text or "--" in text else text
    text = _KNOWN_TOKEN.regex.sub(MASK, text)
    text = _USERINFO.regex.sub(rf"\1{MASK}\2", text) if "://" in text else text
    text = _BEARER.regex.sub(rf"\1\2{MASK}", text)
    text = (
        _JWT.regex.sub(lambda match: match[0] if match[1] is None else MASK, text) if "eyJ" in text else text
    )
    text = _mask_members(text) if '"' in text else text
    return _mask_named(text) if ":" in text else text


def mask_json(value: Any, schema: Any = None) -> Any:
    """Return a copy of a JSON value with secrets masked: by key, by `schema`, and in strings.

    `schema` is a JSON Schema of the value. Values that are `writeOnly` or have the format `password` are
    masked.
    """
    if schema is None:
        return _mask_value(value)
    if _is_declared_secret(schema):
        return MASK if value is not None else None
    if isinstance(value, dict):
        return {key: _mask_entry(key, item, schema) for key, item in value.items()}
    if isinstance(value, list):
        items = _subschema(schema, "items")
        return [mask_json(item, items) for item in value]
    return mask_text(value) if isinstance(value, str) else value


def _mask_value(value: Any) -> Any:
    """Mask a JSON value without a schema."""
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, dict):
        return {
            key: MASK if is_secret(key) and _must_hide(item) else _mask_value(item)
            for key, item in value.items()
        }
    return [_mask_value(item) for item in value] if isinstance(value, list) else value


def mask_message(message: Any, schema: Any = None) -> Any:
    """Return a copy of a JSON-RPC message with secrets masked. `schema` is the tool's input schema."""
    masked = mask_json(message)
    params = message.get("params") if isinstance(message, dict) else None
    if schema is not None and isinstance(params, dict) and "arguments" in params:
        masked["params"]["arguments"] = mask_json(params["arguments"], schema)
    return masked


def mask_declared(value: Any, schema: Any = None) -> Any:
    """Return a copy of a JSON value in which only values that `schema` marks as secret are masked.

    For questions that ask a person for approval. The caller chooses names and texts, so masking by names
    could hide what will run.
    """
    if _is_declared_secret(schema):
        return MASK if value is not None else None
    if isinstance(value, dict):
        declared = _subschema(schema, "properties")
        return {key: mask_declared(item, _subschema(declared, key)) for key, item in value.items()}
    items = _subschema(schema, "items")
    return [mask_declared(item, items) for item in value] if isinstance(value, list) else value


def mask_header(value: str) -> str:
    """Return the masked value of a secret header. The scheme of a token, if any, is kept."""
    scheme, _, credentials = value.partition(" ")
    return f"{scheme} {MASK}" if credentials and scheme.lower() in {"bearer", "basic", "digest"} else MASK


def mask_session(value: str) -> str:
    """Return the mask of a session id. Equal ids have equal masks, but a mask gives no access."""
    from hashlib import sha256

    return value if value.startswith(MASK) else f"{MASK}{sha256(value.encode()).hexdigest()[:6]}"


def _mask_entry(key: str, value: Any, schema: Any) -> Any:
    """Mask one member."""
    if is_secret(key) and _must_hide(value):
        return MASK
    return mask_json(value, _subschema(_subschema(schema, "properties"), key))


def _must_hide(value: Any) -> bool:
    """Return True if a value with the name of a secret must be masked: a string, number or container."""
    return value is not None and not isinstance(value, bool) and not _is_schema(value)


def _is_schema(value: Any) -> bool:
    """Return True for a schema that describes a parameter such as `password`. It contains no secret."""
    return isinstance(value, dict) and not value.keys().isdisjoint({"type", "$ref", "anyOf", "oneOf", "enum"})


def _is_declared_secret(schema: Any) -> bool:
    """Return True if a schema marks its value as secret."""
    return isinstance(schema, Mapping) and (
        schema.get("writeOnly") is True or schema.get("format") == "password"
    )


def _subschema(schema: Any, key: str) -> Any:
    return schema.get(key) if isinstance(schema, Mapping) else None


def _mask_parameters(text: str) -> str:
    """Mask the values of secret URL parameters in a text."""
    pieces, end = [], 0
    for parameter in _URL_PARAMETER.regex.finditer(text):
        if parameter.start() < end or not _is_secret_parameter(parameter["name"]):
            continue
        if value := _URL_VALUE.regex.match(text, parameter.end()):
            pieces += [text[end : value.start()], MASK]
            end = value.end()
    return "".join([*pieces, text[end:]]) if pieces else text


def _mask_assigned(text: str) -> str:
    """Mask values that are assigned to secret names in a text, as in commands and environments."""
    pieces, end = [], 0
    for match in _ASSIGNED.regex.finditer(text):
        if match.start() < end or not is_secret(match["option"] or match["name"]):
            continue
        if value := _ASSIGNED_VALUE.regex.match(text, match.end()):
            pieces += [text[end : match.end()], MASK]
            end = value.end()
    return "".join([*pieces, text[end:]]) if pieces else text


def _mask_named(text: str) -> str:
    """Mask values that follow a secret name and a colon in a text."""
    pieces, end = [], 0
    for colon in _COLON.regex.finditer(text):
        name = _NAME.regex.search(text[max(end, colon.start() - _MAX_CACHED_LENGTH) : colon.start()])
        if colon.start() < end or name is None or not is_secret(name[0]):
            continue
        lower_name = name[0].lower()
        gap = _GAP.regex.match(text, colon.end())
        if gap is None or not (gap[0] or lower_name in SECRET_HEADERS):
            continue
        value = _NAMED_VALUE.regex.match(text, gap.end()) or _NAMED_VALUE.regex.match(text, colon.end())
        if value is None or _is_plain_word(value[0]):
            continue
        other_cookies = (
            _MORE_COOKIES.regex.match(text, value.end()) if lower_name.endswith("cookie") else None
        )
        pieces += [text[end : value.start()], MASK]
        end = (other_cookies or value).end()
    return "".join([*pieces, text[end:]]) if pieces else text


def _is_plain_word(value: str) -> bool:
    """Return True if a value is a type, or another word that is not a secret."""
    return value.rstrip(").:?").lower() in _PLAIN_WORDS


def _is_secret_parameter(name: str) -> bool:
    """Return True if a URL parameter with this name, which may be percent-encoded, is a secret."""
    for _ in range(_MAX_DECODINGS):
        if "%" not in name:
            break
        name = unquote(name)
    return is_secret(name) or name.strip(" +[]").lower() in _URL_SECRET_NAMES


def _mask_members(text: str) -> str:
    """Mask strings of secret members in a text, even if JSON is quoted within JSON."""
    pieces, end = [], 0
    for key in _JSON_KEY.regex.finditer(text):
        if key.start() < end or not is_secret(key[2]):
            continue
        bare_value = None if key[3] else _BARE_VALUE.regex.match(text, key.end())
        if bare_value is not None and _is_plain_word(bare_value[0]):
            continue
        pieces += [text[end : key.end()], MASK]
        end = bare_value.end() if bare_value is not None else _end_of_string(text, key.end(), key[1])
    return "".join([*pieces, text[end:]])


def _end_of_string(text: str, start: int, quote: str) -> int:
    """Return the end of the string that begins at `start`.

    If the string is not closed, return the end of the text.
    """
    if quote == '"' and (content := _STRING.regex.match(text, start)):
        return content.end()
    end = text.find(quote, start)
    return len(text) if end < 0 else end
