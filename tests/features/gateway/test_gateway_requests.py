"""The printed requests and jobs of the gateway through a balancer over three replicas: the tests of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.features.gateway import test_gateway as gateway
from tests.features.gateway.test_gateway import (
    KEY,
    Zyra,
    client,
    test_a_job_of_the_sample_is_watched_and_its_files_are_fetched,
    test_a_job_that_failed_says_why,
    test_a_job_that_made_a_file_says_where_it_is,
    test_a_key_is_needed_everywhere,
    test_cancelling_ends_the_program_and_what_it_started,
    test_discovery_has_the_printed_shape,
    test_execution_failures_are_mapped_as_printed,
    test_observation_ends_after_max_ms,
    test_printed_call_makes_the_printed_file,
    test_printed_conversation_over_a_websocket,
    test_printed_handshake,
    test_printed_list,
    test_printed_observation_ends_with_the_job,
    test_printed_status_report,
    test_the_sample_draws_what_the_pages_ask_for,
    test_the_sample_offers_what_the_pages_call,
    test_validation_errors_are_mapped_as_printed,
)
from tests.support.engine import EngineServer, needs_engine, shared_engine
from tests.support.features import needs_feature
from tests.support.replicas import cluster_on_a_thread

__all__ = [
    "client",
    "shared_engine",
    "test_a_job_of_the_sample_is_watched_and_its_files_are_fetched",
    "test_a_job_that_failed_says_why",
    "test_a_job_that_made_a_file_says_where_it_is",
    "test_a_key_is_needed_everywhere",
    "test_cancelling_ends_the_program_and_what_it_started",
    "test_discovery_has_the_printed_shape",
    "test_execution_failures_are_mapped_as_printed",
    "test_observation_ends_after_max_ms",
    "test_printed_call_makes_the_printed_file",
    "test_printed_conversation_over_a_websocket",
    "test_printed_handshake",
    "test_printed_list",
    "test_printed_observation_ends_with_the_job",
    "test_printed_status_report",
    "test_the_sample_draws_what_the_pages_ask_for",
    "test_the_sample_offers_what_the_pages_call",
    "test_validation_errors_are_mapped_as_printed",
]

pytestmark = [needs_engine, needs_feature("program_tools"), needs_feature("replicas"), pytest.mark.slow]


def replicas_of(folder: Path, home: Path, engine: EngineServer, **environment: str) -> Iterator[Zyra]:
    settings = {"MCPDESK_CONFIG_DIR": str(home / "config"), "MCPDESK_OUTPUT_DIRS": str(home.parent)}
    with cluster_on_a_thread(3, [folder], engine, home, **settings, **environment) as cluster:
        yield Zyra(cluster.url, home)


@pytest.fixture(scope="module")
def zyra(tmp_path_factory: pytest.TempPathFactory, shared_engine: EngineServer) -> Iterator[Zyra]:
    """With a key, under the name its users know."""
    home = tmp_path_factory.mktemp("keyed")
    yield from replicas_of(gateway.make_folder(home), home, shared_engine, ZYRA_API_KEY=KEY)


@pytest.fixture(scope="module")
def unkeyed(tmp_path_factory: pytest.TempPathFactory, shared_engine: EngineServer) -> Iterator[Zyra]:
    """Without a key."""
    home = tmp_path_factory.mktemp("open")
    yield from replicas_of(gateway.make_folder(home), home, shared_engine, MCPDESK_NO_AUTH="true")


@pytest.fixture(scope="module")
def dataviz(tmp_path_factory: pytest.TempPathFactory, shared_engine: EngineServer) -> Iterator[Zyra]:
    """The sample that shows it, with a key."""
    folder = Path(__file__).parents[3] / "sample_servers" / "dataviz"
    yield from replicas_of(folder, tmp_path_factory.mktemp("sample"), shared_engine, ZYRA_API_KEY=KEY)
