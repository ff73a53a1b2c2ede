"""A model behind one of two APIs: OpenAI's chat completions, or Anthropic's messages."""

import json
from typing import Any, Literal

import aiohttp

Api = Literal["openai", "anthropic"]
DEFAULT_URLS = {"openai": "https://api.openai.com", "anthropic": "https://api.anthropic.com"}
TIMEOUT_S = 120


class ModelError(Exception):
    """The model's endpoint cannot be reached, refused the request, or sent an invalid answer."""


class Model:
    """Model at an endpoint. `url` is the endpoint without its path, or empty for the endpoint of the API's
    provider.
    """

    def __init__(self, api: Api, url: str = "", name: str = "scripted", key: str = "") -> None:
        self.api: Api = api
        self._url = (url or DEFAULT_URLS[api]).rstrip("/")
        self._name = name
        self._key = key

    async def reply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the model's next message, in the form in which it is added to the messages."""
        body: dict[str, Any] = {"model": self._name, "messages": messages, "tools": tools}
        if self.api == "openai":
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            answer = await self._post("/v1/chat/completions", body, headers)
            return _member(answer, "choices", 0, "message")
        headers = {"anthropic-version": "2023-06-01"} | ({"x-api-key": self._key} if self._key else {})
        answer = await self._post("/v1/messages", body | {"max_tokens": 1024}, headers)
        return {"role": "assistant", "content": _member(answer, "content")}

    def text(self, message: dict[str, Any]) -> str:
        """Return the text of one of the model's messages."""
        content = message.get("content")
        if isinstance(content, list):
            return "\n".join(block["text"] for block in content if block["type"] == "text")
        return content or ""

    async def _post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        url, timeout = self._url + path, aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
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
            raise ModelError(f"{url} sent an answer that is not JSON: {error}") from error


def _member(answer: Any, *path: str | int) -> Any:
    for step in path:
        try:
            answer = answer[step]
        except (LookupError, TypeError):
            raise ModelError(f"the answer has no value {'.'.join(map(str, path))}") from None
    return answer
