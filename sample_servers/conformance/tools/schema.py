"""A schema of one's own, with everything JSON Schema 2020-12 has. Clients get it as it stands here."""

from typing import Any

NAME = "json_schema_2020_12_tool"
DESCRIPTION = "Take a person with a telephone number or an e-mail address."
INPUT_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string", "description": "Who it is."},
        "address": {"$ref": "#/$defs/address", "description": "Where to write to."},
        "contactMethod": {"type": "string", "enum": ["phone", "email"], "description": "What is preferred."},
        "phone": {"type": "string", "description": "A telephone number."},
        "email": {"type": "string", "description": "An e-mail address."},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


async def handler(args: dict[str, Any], context: Any) -> str:
    """Say what arrived."""
    return f"{args.get('name', 'Somebody')} can be reached."
