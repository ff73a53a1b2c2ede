"""A model behind one of two APIs: OpenAI's chat completions, or Anthropic's messages."""

from typing import Any, Literal

import aiohttp

Api = Literal["openai", "anthropic"]
HOMES = {"openai": "https://api.openai.com", "anthropic": "https://api.anthropic.com"}
PATIENCE_S = 120


class ModelError(Exception):
    """The model's endpoint said no."""


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
            message: dict[str, Any] = answer["choices"][0]["message"]
            return message
        headers = {"anthropic-version": "2023-06-01"} | ({"x-api-key": self._key} if self._key else {})
        answer = await self._post("/v1/messages", body | {"max_tokens": 1024}, headers)
        return {"role": "assistant", "content": answer["content"]}

    def words(self, message: dict[str, Any]) -> str:
        """The text of one of its messages."""
        content = message.get("content")
        if isinstance(content, list):
            return "\n".join(block["text"] for block in content if block["type"] == "text")
        return content or ""

    async def _post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        patience = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with (
            aiohttp.ClientSession(timeout=patience) as session,
            session.post(self._url + path, json=body, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise ModelError(f"HTTP {answer.status}: {(await answer.text())[:500]}")
            return await answer.json()
