"""For tokens with a scope, in the other form: a module with its own schemas gets the claims as an argument.

A client that sends `__jwt` itself is not believed: it is dropped before the arguments are checked.
"""

from typing import Any

from ledger import Payment, account_of, balances, payments

from mcpdesk import fail

DESCRIPTION = "Send money from the caller's account to another one."
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
        "to": {"type": "string", "minLength": 1, "maxLength": 80, "description": "The account that gets it."},
        "cents": {"type": "integer", "minimum": 1, "description": "Whole euro cents."},
    },
    "required": ["to", "cents"],
    "additionalProperties": False,
}


async def handler(args: dict[str, Any]) -> str:
    """`args["__jwt"]` holds the verified claims."""
    claims = args["__jwt"]
    sender, receiver, cents = account_of(claims), args["to"], args["cents"]
    if balances[sender] < cents:
        fail(f"{sender} has only {balances[sender] / 100:.2f} EUR.", balance=balances[sender], asked=cents)
    balances[sender] -= cents
    balances[receiver] += cents
    payments.append(Payment(sender, receiver, cents, claims["tokenId"]))
    return f"{sender} sent {cents / 100:.2f} EUR to {receiver}."
