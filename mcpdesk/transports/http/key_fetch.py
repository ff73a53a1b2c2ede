"""Download of one small document: the keys of a token issuer, from a URL in the manifest."""

from __future__ import annotations

import aiohttp

TIMEOUT_S = 5.0


async def fetch_document(url: str, max_bytes: int) -> bytes:
    """Return the body of a 200 response. Redirects are not followed, so only the configured URL is trusted.

    Raises: OSError if the request fails; ValueError for another status or a body over `max_bytes` bytes.
    """
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    headers = {"Accept": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=True) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise ValueError(f"it answers with status {answer.status}")
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > max_bytes:
                    raise ValueError(f"it is larger than {max_bytes} bytes")
    except TimeoutError:
        raise OSError(f"it did not answer within {TIMEOUT_S:g} s") from None
    except aiohttp.ClientError as error:
        raise OSError(f"it cannot be reached ({type(error).__name__})") from None
    return bytes(body)
