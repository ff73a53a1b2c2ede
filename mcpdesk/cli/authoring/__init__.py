"""Commands for authors of server folders: `new`, `schemas` and `config`."""
