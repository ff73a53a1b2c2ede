"""No spelling of a path leads out of a folder's resources, in a message or in a URL."""

from __future__ import annotations

import asyncio
import http.client
import json
import posixpath
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

from mcpdesk.protocol.methods import MAX_URI_LENGTH
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import write
from tests.support.patience import WITHIN_S

SECRET = "hush-hush"
FILES = {
    "mcp.json": '{"name": "small", "description": "hush-hush"}',
    "mcpdesk-env.txt": f"MODEL={SECRET}\n",
    "tools/tools.py": f'async def greet() -> str:\n    """Greet."""\n    return "hello"  # {SECRET}\n',
    "prompts/ask.md": "Ask.",
    "prompts/notes.txt": SECRET,
    "resources/open.txt": "open",
    "resources/deep/inner.txt": "inner",
    "resources/.hidden.txt": SECRET,
    "other.txt": SECRET,
}
TARGETS = (
    "../mcp.json", "../mcpdesk-env.txt", "../tools/tools.py", "../prompts/notes.txt", "../other.txt",
    "../../secret.txt", "../../../../../../../../etc/passwd", ".hidden.txt", "leak.txt", "up/other.txt",
    "away/secret.txt", "deep/../../other.txt", "open.txt/../../other.txt", "open.txt/", "OPEN.TXT",
    "Open.txt", "../resources/open.txt", "//etc/passwd", "/etc/passwd", "/proc/self/environ",
    "~/.ssh/id_rsa", "*", "", ".", "..",
)  # fmt: skip
"""Paths relative to `resources/`. None of them is a resource."""
PREFIXES = (
    "", "./", "/", "resources/", "./resources/", "resources//", "/resources/", "RESOURCES/",
    "resources/deep/../", "resource://", "resource:///", "resource://./", "resource://deep/",
    "resource://resources/", "RESOURCE://", "resource:", "file://", "file:///", "file://localhost/",
    "\\\\127.0.0.1\\share\\", "//127.0.0.1/share/", "C:\\", "C:/",
)  # fmt: skip
WHOLE = ("resources/", "resource://")
"""Prefixes that are spelled in the same way as the rest, too."""

Spelling = Callable[[str], str]
SPELLINGS: dict[str, Spelling] = {
    "plain": lambda path: path,
    "encoded": lambda path: quote(path, safe=""),
    "encoded dots": lambda path: path.replace(".", "%2e"),
    "encoded slashes": lambda path: path.replace("/", "%2F"),
    "encoded twice": lambda path: quote(quote(path, safe=""), safe=""),
    "dots encoded twice": lambda path: path.replace(".", "%252e"),
    "encoded thrice": lambda path: path.replace(".", "%25252e").replace("/", "%25252f"),
    "every byte encoded": lambda path: "".join(f"%{byte:02x}" for byte in path.encode()),
    "overlong": lambda path: path.replace(".", "%c0%ae").replace("/", "%c0%af"),
    "wide percent": lambda path: path.replace(".", "%u002e").replace("/", "%u2215"),
    "backslashes": lambda path: path.replace("/", "\\"),
    "encoded backslashes": lambda path: path.replace("/", "%5c"),
    "doubled": lambda path: path.replace("../", "....//"),
    "doubled slashes": lambda path: path.replace("/", "//"),
    "with dots between": lambda path: path.replace("/", "/./"),
    "upper case": str.upper,
    "swapped case": str.swapcase,
    "full width": lambda path: path.replace(".", "．").replace("/", "／"),
    "one dot leader": lambda path: path.replace(".", "․"),
    "two dot leader": lambda path: path.replace("..", "‥"),
    "division slash": lambda path: path.replace("/", "∕"),
    "compatibility": lambda path: unicodedata.normalize("NFKD", path.replace("e", "é")),
    "behind a NUL": lambda path: "open.txt\0" + path,
    "before a NUL": lambda path: path + "\0.txt",
    "before an encoded NUL": lambda path: path + "%00.txt",
    "with a line break": lambda path: path + "\n",
    "with a space": lambda path: path + " ",
    "with a dot": lambda path: path + ".",
    "with a stream": lambda path: path + "::$DATA",
    "in a query": lambda path: "open.txt?" + path,
    "in a fragment": lambda path: "open.txt#" + path,
    "turned round": lambda path: "\N{RIGHT-TO-LEFT OVERRIDE}" + path[::-1],
    "the long way": lambda path: "deep/../" * 900 + path,
    "very long": lambda path: path + "/" + "a" * 8_000,
    "too long a way": lambda path: "deep/../" * 2_000 + path,
    "too long": lambda path: path + "/" + "a" * 20_000,
}  # fmt: skip


def escapes(prefixes: tuple[str, ...] = PREFIXES) -> Iterator[str]:
    """Every target, in every spelling, behind every prefix; without duplicates."""
    seen = {"resource://open", "resource://deep/inner", "resources/open.txt", "resources/deep/inner.txt"}
    for target in TARGETS:
        for spell in SPELLINGS.values():
            for prefix in prefixes:
                spelled = spell(prefix + target) if prefix in WHOLE else ""
                for made in (prefix + spell(target), spelled):
                    if made not in seen:
                        seen.add(made)
                        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with secrets in it and around it, and links that lead there."""
    (tmp_path / "secret.txt").write_text(SECRET)
    place = write(tmp_path / "small", FILES)
    (place / "resources" / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (place / "resources" / "up").symlink_to(place)
    (place / "resources" / "away").symlink_to(tmp_path)
    return place


class Line:
    """One kept connection to a desk."""

    def __init__(self, desk: RunningDesk) -> None:
        url = desk.view().servers[0].url
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=WITHIN_S)
        self.asked = 0

    def message(self, method: str, params: dict[str, object]) -> tuple[int, str]:
        """POST a message; status and body."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.request("POST", "/mcp/small", body)

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        """Request a path exactly as written; return status and body."""
        self.asked += 1
        self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")

    def close(self) -> None:
        self._connection.close()


INSIDE = ("resources/open.txt", "resources/deep/inner.txt")
"""Paths of files that are resources."""


def read_everything(line: Line) -> None:
    for uri, text in (("resource://open", "open"), ("resources/deep/inner.txt", "inner")):
        assert f'"text":"{text}"' in line.message("resources/read", {"uri": uri})[1]
    for uri in escapes():
        status, body = line.message("resources/read", {"uri": uri})
        refused = -32602 if len(uri) > MAX_URI_LENGTH else -32002
        answer = json.loads(body)
        # A path may be spelled in several ways, but only within the folder.
        paths = [path for path in (uri, unquote(uri)) if not path.endswith(("/", "/."))]
        scheme, colon, _ = uri.partition(":")
        is_path = len(uri) <= MAX_URI_LENGTH and (not colon or "/" in scheme)
        is_inside = is_path and any(posixpath.normpath(path) in INSIDE for path in paths)
        assert status == 200
        assert answer.get("error", {}).get("code") == (None if is_inside else refused), uri[-200:]
        assert not is_inside or answer["result"]["contents"][0]["text"] in ("open", "inner"), uri
        assert SECRET not in body.replace(uri, "") and "root:" not in body, uri[:200]


def ask_for_everything(line: Line) -> None:
    for name in escapes(("", "prompts/", "../prompts/")):
        for method in ("prompts/get", "tools/call"):
            status, body = line.message(method, {"name": name})
            assert (status, json.loads(body)["error"]["code"]) == (200, -32602), name[:200]


def walk_everywhere(line: Line) -> None:
    for place in ("/", "/mcp/", "/mcp/small/", "/jobs/", "/v1/mcp/progress/", "/static/", "/assets/"):
        for target in TARGETS:
            for spell in SPELLINGS.values():
                path = place + quote(spell(target)[:3000], safe="/%.~:?*$\\")
                if path.rstrip("/.?#") in ("/mcp/small", "/mcp", ""):
                    continue
                status, body = line.request("GET", path)
                assert SECRET not in body and "root:" not in body, path
                assert 400 <= status < 500, (status, path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("search", "least"), [(read_everything, 10_000), (ask_for_everything, 4_000), (walk_everywhere, 4_000)]
)
async def test_no_spelling_of_a_path_leads_out(
    folder: Path, search: Callable[[Line], None], least: int
) -> None:
    async with running_desk(folder, http=True) as desk:
        line = Line(desk)
        try:
            await asyncio.to_thread(search, line)
        finally:
            line.close()
    assert line.asked >= least
