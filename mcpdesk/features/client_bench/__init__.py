"""Test benches for clients: servers that observe a client, and report which rules it follows."""

from __future__ import annotations

from mcpdesk.feature import Feature, FeatureCommand


class ClientBench(Feature):
    """The commands `oauth-bench` and `era-bench`."""

    commands = {
        "oauth-bench": FeatureCommand(
            "mcpdesk.features.client_bench.oauth_bench_command", "Build and test a server", before="schemas"
        ),
        "era-bench": FeatureCommand(
            "mcpdesk.features.client_bench.era_bench_command", "Build and test a server", before="schemas"
        ),
    }


FEATURE = ClientBench()
