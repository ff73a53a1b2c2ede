"""Secrets that all replicas share: the API key of callers, and the secrets that sign `requestState`."""

from __future__ import annotations

import asyncio
import secrets

from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable

KEY_BYTES = 24
SECRET_BYTES = 32
ROTATION_PERIOD_S = 24 * 3600.0
"""Seconds for which a secret is used to sign, before a new secret replaces it."""
SECRET_TTL_S = 2 * ROTATION_PERIOD_S
"""Seconds after its creation for which a secret is accepted."""
SIGNING_DELAY_S = 10.0
"""Seconds before a new secret is used to sign. In this time every replica reads it."""
READ_PERIOD_S = 2.0

ROTATE = """
local now = redis.call('TIME')
now = tonumber(now[1])
local newest = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if #newest == 0 then redis.call('ZADD', KEYS[1], now - ARGV[4], ARGV[1])
elseif newest[2] + ARGV[2] < now then redis.call('ZADD', KEYS[1], now, ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])
local all = redis.call('ZREVRANGE', KEYS[1], 0, -1, 'WITHSCORES')
table.insert(all, 1, tostring(now))
return all
"""
"""Script that adds a secret if there is none or the newest secret is old, and deletes expired secrets.

The very first secret is dated back by `SIGNING_DELAY_S`, so that it can sign at once. The script returns the
current time, and each secret with its creation time.
"""


class SharedSecrets:
    """Secrets in the engine. `signing_keys` may be read on any thread."""

    def __init__(self, engine: Engine) -> None:
        self.api_key = ""
        """API key of callers, or "" until it has been read."""
        self.signing_keys: tuple[bytes, ...] = ()
        """Secrets for `requestState`. Empty until they have been read.

        The first secret is used to sign. A signature with any of the secrets is accepted.
        """
        self._engine = engine
        self._read_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the secrets now, and then regularly."""
        await self._read()
        self._read_task = asyncio.create_task(self._keep_reading())

    async def close(self) -> None:
        """Stop reading the secrets."""
        if self._read_task is not None:
            self._read_task.cancel()
            await asyncio.gather(self._read_task, return_exceptions=True)

    async def _keep_reading(self) -> None:
        while True:
            await asyncio.sleep(READ_PERIOD_S)
            await self._read()

    async def _read(self) -> None:
        try:
            if not self.api_key:
                self.api_key = await self._get_or_create_secret("api-key")
            new_secret = secrets.token_urlsafe(SECRET_BYTES)
            now, *stored = await self._engine.script(
                ROTATE,
                [self._engine.key("round-secrets")],
                [new_secret, ROTATION_PERIOD_S, SECRET_TTL_S, SIGNING_DELAY_S],
            )
        except EngineUnavailable:
            return
        dated_secrets = [
            (float(created_at), secret) for secret, created_at in zip(stored[::2], stored[1::2], strict=True)
        ]
        # Other replicas may not have read a new secret yet, so it is accepted but not used to sign.
        newest_signing_time = float(now) - SIGNING_DELAY_S
        signing = [secret for created_at, secret in dated_secrets if created_at <= newest_signing_time]
        too_new = [secret for created_at, secret in dated_secrets if created_at > newest_signing_time]
        self.signing_keys = (*signing, *too_new)

    async def _get_or_create_secret(self, name: str) -> str:
        """Return the stored secret of this name. If none is stored, create and store one."""
        key = self._engine.key(name)
        new_key = secrets.token_urlsafe(KEY_BYTES)
        await self._engine.run(lambda client: client.set(key, new_key, nx=True))
        secret = await self._engine.run(lambda client: client.get(key))
        return (secret or b"").decode()
