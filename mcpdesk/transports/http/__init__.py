"""HTTP and what is spoken over it."""

from mcpdesk.transports.late_trust import import_aiohttp

import_aiohttp()
