"""One small document from an address that the manifest names: the keys of whoever gives tokens."""

from __future__ import annotations

import aiohttp

PATIENCE_S = 5.0


async def fetch_document(url: str, most: int) -> bytes:
    """The body of a 200 answer. Redirects are not followed: the address is the one that was written down.

    Raises: OSError when it cannot be had, ValueError when it is another answer or larger than `most` bytes.
    """
    patience = aiohttp.ClientTimeout(total=PATIENCE_S)
    headers = {"Accept": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(timeout=patience, headers=headers, trust_env=True) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise ValueError(f"it answers with status {answer.status}")
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > most:
                    raise ValueError(f"it is larger than {most} bytes")
    except TimeoutError:
        raise OSError(f"it did not answer within {PATIENCE_S:g} s") from None
    except aiohttp.ClientError as error:
        raise OSError(f"it cannot be reached ({type(error).__name__})") from None
    return bytes(body)
