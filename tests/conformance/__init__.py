"""The official conformance suite against `sample_servers/conformance`."""
