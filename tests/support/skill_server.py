"""A server over stdio that publishes skills, of the standard library: started by tests as a program.

`python skill_server.py HABIT`: without a habit it keeps what it promises. Each habit breaks one promise.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

PROGRAM = __file__
EXTENSION = "io.modelcontextprotocol/skills"
MAIN = "skill://acme/refunds/SKILL.md"
FORM = "skill://acme/refunds/forms/mail.md"
TEXT = "---\nname: refunds\ndescription: Pay back.\nmetadata: {reviewed: 2026-01-31}\n---\nUse a form.\n"
FILES = {MAIN: TEXT, FORM: "Dear customer"}
FIELDS = {"name": "refunds", "description": "Pay back.", "metadata": {"reviewed": "2026-01-31"}}


def entry(files: dict[str, str]) -> dict[str, Any]:
    """The entry of the skill with these files."""
    listed = [
        {"uri": uri, "size": len(text), "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}
        for uri, text in files.items()
    ]
    return {"uri": MAIN, "frontmatter": FIELDS, "resources": listed}


def listed(habit: str) -> list[dict[str, Any]]:
    """Entries of `skills/list`."""
    promised = entry(FILES)
    first, last = promised["resources"]
    match habit:
        case "partial" | "other":
            return []
        case "stale":
            return [entry(FILES | {MAIN: TEXT + "As it was."})]
        case "frontmatter":
            return [promised | {"frontmatter": FIELDS | {"description": "Keep the money."}}]
        case "dynamic":
            return [promised | {"resources": "dynamic"}]
        case "outside":
            return [promised | {"resources": [first, last | {"uri": "skill://acme/refunds/%2e%2e/secret"}]}]
        case "elsewhere":
            return [promised | {"resources": [first, last | {"uri": "skill://acme/other/mail.md"}]}]
        case "twice":
            return [promised | {"resources": [first, last, last]}]
        case "headless":
            return [promised | {"resources": [last]}]
        case "nameless":
            return [promised | {"frontmatter": {"description": "Pay back."}}]
        case "misnamed":
            return [promised | {"frontmatter": FIELDS | {"name": "rebates"}}]
        case "huge":
            return [promised | {"resources": [first, last | {"size": 17 << 20}]}]
        case "many":
            more = [last | {"uri": f"skill://acme/refunds/{number}"} for number in range(512)]
            return [promised | {"resources": [first, *more]}]
        case "uppercase":
            return [promised | {"resources": [first, last | {"digest": last["digest"].upper()}]}]
        case "sizeless":
            return [promised | {"resources": [first, {key: last[key] for key in ("uri", "digest")}]}]
        case "bare":
            return [{key: promised[key] for key in ("uri", "frontmatter")}]
    return [promised]


def content(uri: str, habit: str) -> str:
    """Text of `resources/read`."""
    text = FILES.get(uri, "Not on the list.")
    if habit == "digest":
        return text.replace("D", "B").replace("Use", "Eat")
    return text + "And more." if habit == "size" else text


def answer(method: str, params: dict[str, Any], habit: str) -> dict[str, Any]:
    """The result or the error of a request."""
    match method:
        case "initialize":
            capabilities: dict[str, Any] = {"resources": {}}
            if habit != "silent":
                capabilities["extensions"] = {EXTENSION: {}}
            about = {"name": "acme", "version": "1"}
            return {
                "result": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": capabilities,
                    "serverInfo": about,
                }
            }
        case "resources/list":
            return {"result": {"resources": []}}
        case "skills/list":
            return {"result": {"skills": listed(habit)}}
        case "skills/get" if params["uri"] == MAIN:
            now = {"stale": "", "partial": "", "other": ""}.get(habit, habit)
            skill = listed(now)[0]
            if habit == "other":
                skill = json.loads(json.dumps(skill).replace("acme/refunds", "acorn/refunds"))
            return {"result": {"skill": skill}}
        case "resources/read":
            read = {"uri": params["uri"], "mimeType": "text/markdown", "text": content(params["uri"], habit)}
            return {"result": {"contents": [read]}}
    return {"error": {"code": -32601, "message": f"no {method}"}}


def main(habit: str) -> None:
    """Serve until stdin ends. Print the method of every request on stderr."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            print(message["method"], file=sys.stderr, flush=True)
            reply = answer(message["method"], message.get("params", {}), habit)
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
