"""A tool that needs a scope. A module with its own schemas receives the claims as the argument `__jwt`.

If a client sends `__jwt`, it is removed before the arguments are checked.
"""

from typing import Any

from ledger import Payment, account_of, balances, payments

from mcpdesk import fail

DESCRIPTION = "Send money from the caller's account to another account."
SCOPES = "wallet:send"
ANNOTATIONS = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": False,
}
INPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "to": {
            "type": "string",
            "minLength": 1,
            "maxLength": 80,
            "description": "Account that receives the money.",
        },
        "cents": {"type": "integer", "minimum": 1, "description": "Amount in whole euro cents."},
    },
    "required": ["to", "cents"],
    "additionalProperties": False,
}


async def handler(args: dict[str, Any]) -> str:
    """Move the money. `args["__jwt"]` contains the verified claims."""
    claims = args["__jwt"]
    sender, receiver, cents = account_of(claims), args["to"], args["cents"]
    if balances[sender] < cents:
        fail(f"{sender} has only {balances[sender] / 100:.2f} EUR.", balance=balances[sender], asked=cents)
    balances[sender] -= cents
    balances[receiver] += cents
    payments.append(Payment(sender, receiver, cents, claims["tokenId"]))
    return f"{sender} sent {cents / 100:.2f} EUR to {receiver}."
