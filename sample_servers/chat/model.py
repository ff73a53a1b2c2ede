"""A model behind one of two APIs: OpenAI's chat completions, or Anthropic's messages."""

import json
from typing import Any, Literal

import aiohttp

Api = Literal["openai", "anthropic"]
HOMES = {"openai": "https://api.openai.com", "anthropic": "https://api.anthropic.com"}
TIMEOUT_S = 120


class ModelError(Exception):
    """The model's endpoint cannot be reached, said no, or said what cannot be understood."""


class Model:
    """One conversation partner. `url` is the endpoint without its path; empty: the maker's own."""

    def __init__(self, api: Api, url: str = "", name: str = "scripted", key: str = "") -> None:
        self.api: Api = api
        self._url = (url or HOMES[api]).rstrip("/")
        self._name = name
        self._key = key

    async def reply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """What it says next, ready to be added to the messages."""
        body: dict[str, Any] = {"model": self._name, "messages": messages, "tools": tools}
        if self.api == "openai":
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            answer = await self._post("/v1/chat/completions", body, headers)
            return _told(answer, "choices", 0, "message")
        headers = {"anthropic-version": "2023-06-01"} | ({"x-api-key": self._key} if self._key else {})
        answer = await self._post("/v1/messages", body | {"max_tokens": 1024}, headers)
        return {"role": "assistant", "content": _told(answer, "content")}

    def words(self, message: dict[str, Any]) -> str:
        """The text of one of its messages."""
        content = message.get("content")
        if isinstance(content, list):
            return "\n".join(block["text"] for block in content if block["type"] == "text")
        return content or ""

    async def _post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        url, patience = self._url + path, aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=patience) as session,
                session.post(url, json=body, headers=headers, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    raise ModelError(f"HTTP {answer.status}: {(await answer.text())[:500]}")
                return json.loads(await answer.read())
        except TimeoutError:
            raise ModelError(f"{url} did not answer within {TIMEOUT_S} s") from None
        except aiohttp.ClientError as error:
            raise ModelError(f"{url} cannot be reached: {error}") from error
        except ValueError as error:
            raise ModelError(f"{url} answered with what is no JSON: {error}") from error


def _told(answer: Any, *way: str | int) -> Any:
    for step in way:
        try:
            answer = answer[step]
        except (LookupError, TypeError):
            raise ModelError(f"the answer has no {step!r} where one belongs") from None
    return answer
