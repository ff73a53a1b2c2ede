"""Makes a token for this sample. With real servers, an authorization server makes the tokens.

python sample_servers/wallet/issue_token.py ada wallet:read wallet:send
"""

import os
import sys
import time
import uuid

import jwt


def issue(secret: str, subject: str, *scopes: str, lasts_s: int = 3600) -> str:
    """Return a token of a subject that only this server accepts."""
    now = int(time.time())
    claims = {"sub": subject, "iss": "wallet-sample", "aud": "wallet", "iat": now, "exp": now + lasts_s}
    return jwt.encode(
        {**claims, "jti": uuid.uuid4().hex, "scope": " ".join(scopes)}, secret, algorithm="HS256"
    )


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or not os.environ.get("WALLET_SECRET"):
        sys.exit("usage: WALLET_SECRET=... python issue_token.py SUBJECT [SCOPE ...]")
    print(issue(os.environ["WALLET_SECRET"], *sys.argv[1:]))
