"""Secrets in the entry of a server, and unsafe settings.

`Secrets` masks them in everything that a server prints or an error quotes. A server may print its own key.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit

from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.client.configs.variables import variables
from mcpdesk.client.oauth.login_options import LoginOptions
from mcpdesk.client.oauth.values import LOOPBACK
from mcpdesk.client.targets import CommandTarget, RemoteTarget, UrlTarget
from mcpdesk.features.doctor.report import UnsafeKind, UnsafeSetting
from mcpdesk.recorder.masking import MASK, SECRET_HEADERS, is_secret, mask_text
from mcpdesk.upstream.target_transport import Reach

MIN_SECRET_LENGTH = 4
"""Shorter values are not masked in texts, because they would match parts of other words."""
MAX_TEXT_LENGTH = 600
"""Maximum number of characters of a masked text."""
MAX_SEARCHED_LENGTH = 64 << 10
"""Number of characters at the beginning of a text that are searched for unknown secrets, such as tokens.

The rest of the text is never shown.
"""
_CUT_SIGN = "…"
"""Sign at the end of a text that was cut."""
_LAST_WORD = re.compile(r"\S*+\Z")
_PLAIN_SCHEMES = ("http://", "ws://")


class Secrets:
    """Secret values of one server."""

    def __init__(self, values: Iterable[str]) -> None:
        parts = set[str]()
        for value in values:
            parts |= {value, *value.split(), *_spellings(value)}
        secret_parts = {part for part in parts if len(part) >= MIN_SECRET_LENGTH}
        self._values = sorted(secret_parts - {"Bearer", "Basic", "bearer", "basic"}, key=len, reverse=True)
        """Texts to mask, longest first."""

    def masked(self, text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
        """Return a text with secrets masked. It is cut to `max_length` after the secrets are masked.

        If the text was already cut, the beginning of a secret before the cut is masked as well.
        """
        for value in self._values:
            text = text.replace(value, MASK)
        is_cut = len(text) > MAX_SEARCHED_LENGTH
        if is_cut:
            text = _without_begun_jwt(text[:MAX_SEARCHED_LENGTH])
        text = mask_text(_CUT_SIGN.join(map(self._with_masked_end, text.split(_CUT_SIGN))))
        if is_cut and len(text) < max_length:  # the last word may be a part of a token
            text = f"{_LAST_WORD.sub('', text)}{_CUT_SIGN}"
        return text if len(text) <= max_length else f"{text[: max_length - 1]}{_CUT_SIGN}"

    def _with_masked_end(self, text: str) -> str:
        """Return a text with the beginning of a secret at its end masked."""
        for value in self._values:
            start = max(0, len(text) - len(value) + 1)
            while (start := text.find(value[:MIN_SECRET_LENGTH], start)) >= 0:
                if value.startswith(text[start:]):
                    return f"{text[:start]}{MASK}"
                start += 1
        return text


def _spellings(value: str) -> Iterator[str]:
    """Yield a secret as it is written in URLs, commands, JSON and Python."""
    for plain in {value, unquote(value), unquote_plus(value)}:
        yield plain
        yield from (quote(plain, safe=""), quote(plain), quote_plus(plain))
        yield from (json.dumps(plain)[1:-1], repr(plain)[1:-1])
        if (word := shlex.quote(plain)) != plain:
            yield word[1:-1]


def _without_begun_jwt(text: str) -> str:
    """Return a text that was cut, with the beginning of a JWT in its last word masked."""
    words = text.rsplit(maxsplit=1)
    start = text.find("eyJ", text.rfind(words[-1])) if words else -1
    return text if start < 0 else f"{text[:start]}{MASK}"


def secrets_of(
    server: ConfiguredServer,
    target: RemoteTarget | None = None,
    environ: Mapping[str, str] | None = None,
    inputs: Iterable[str] = (),
) -> Secrets:
    """Return the secrets in an entry and in its target, where variables are expanded.

    `environ` has the environment variables. `inputs` are further secrets, such as values that a person typed.
    """
    values = [*inputs, *_secret_pairs(server.environment), *_secret_headers(server.headers)]
    values += _url_secrets(server.url)
    values += [each.value for each in secret_arguments(server.argv)]
    if environ is not None:
        values += [environ[name] for name in variables(server) if is_secret(name) and name in environ]
    values += [each for value in values if "://" in value for each in _url_secrets(value)]
    if isinstance(target, UrlTarget):
        values += [*_secret_headers(target.headers), *_url_secrets(target.url), *_login_secrets(target.login)]
    if isinstance(target, CommandTarget):
        values += _secret_pairs(target.environment)
        values += [each.value for each in secret_arguments(target.argv)]
    return Secrets(value for value in values if value and "${" not in value)


def reach_secrets(reach: Reach) -> list[str]:
    """Return the secrets in the options with which a connection was opened."""
    values = [reach.token or "", reach.key or "", *(value for _, value in reach.headers)]
    return [*values, *_login_secrets(reach.login)]


def _login_secrets(login: LoginOptions) -> list[str]:
    return [each.text for each in (login.client_secret, login.client_key, login.assertion, login.id_token)]


def _secret_pairs(pairs: Mapping[str, str]) -> list[str]:
    return [value for name, value in pairs.items() if is_secret(name) or mask_text(value) != value]


def _secret_headers(headers: Mapping[str, str]) -> list[str]:
    return [
        value
        for name, value in headers.items()
        if name.lower() in SECRET_HEADERS or is_secret(name) or mask_text(value) != value
    ]


class SecretArgument(NamedTuple):
    """Secret in the arguments of a program."""

    name: str
    """Option or variable, such as `--token`, or "" for a token without a name."""
    value: str


def secret_arguments(argv: Sequence[str]) -> Iterator[SecretArgument]:
    """Yield the secrets in a command: values of options and variables with secret names, and known tokens."""
    words = list(argv[1:])
    for word, next_word in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if equals and value and is_secret(name.lstrip("-")):
            yield SecretArgument(name, value)
        elif word.startswith("-") and not equals and is_secret(word.lstrip("-")):
            if next_word and not next_word.startswith("-"):
                yield SecretArgument(word, next_word)
        elif mask_text(word) != word:
            yield SecretArgument(name if equals else "", value if equals else word)


def _url_secrets(url: str) -> list[str]:
    """Return the secrets in a URL: the password or, without one, the user, and values of secret parameters.

    The values are encoded as in the URL. If the URL is invalid, all of it is a secret.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    secrets = [parts.password or parts.username]
    for parameter in parts.query.split("&"):
        name, _, value = parameter.partition("=")
        if any(mask_text(text) != text for text in (f"?{name}=value", f"?{parameter}", unquote_plus(value))):
            secrets.append(value)
    return [each for each in secrets if each]


def unsafe_settings(server: ConfiguredServer, target: RemoteTarget | None = None) -> Iterator[UnsafeSetting]:
    """Yield the unsafe settings of an entry. Messages have names of options, but no values."""
    url = target.url if isinstance(target, UrlTarget) else server.url
    if url.lower().startswith(_PLAIN_SCHEMES) and not _is_loopback(url):
        yield UnsafeSetting(
            UnsafeKind.PLAIN_HTTP,
            "its URL has no TLS, so others in the network can read and change all messages",
            "Use https:// or wss://.",
        )
    if _url_secrets(server.url):
        yield UnsafeSetting(
            UnsafeKind.TOKEN_IN_URL,
            "its URL contains a secret, which servers and proxies write to their logs",
            "Send the secret in a header, or log in with `mcpdesk login`.",
        )
    for each in dict.fromkeys(argument.name for argument in secret_arguments(server.argv)):
        subject = f"its argument {each} is" if each else "one of its arguments has"
        message = f"{subject} a secret, which other users of this machine see"
        yield UnsafeSetting(UnsafeKind.KEY_IN_ARGUMENTS, message, "Pass the secret in `env`.")


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host in LOOPBACK or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
