"""A tool with its own schema, which has many keywords of JSON Schema 2020-12. Clients get it unchanged."""

from typing import Any

NAME = "json_schema_2020_12_tool"
DESCRIPTION = "Accept a person with a telephone number or an e-mail address."
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
        "name": {"type": "string", "description": "Name of the person."},
        "address": {"$ref": "#/$defs/address", "description": "Postal address."},
        "contactMethod": {
            "type": "string",
            "enum": ["phone", "email"],
            "description": "Preferred way of contact.",
        },
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
    """Return the name of the person."""
    return f"{args.get('name', 'Somebody')} can be reached."
