"""Files of the page on many machines: each part is run as far as one machine can."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from mcpdesk.auth.http_origin import check_host
from mcpdesk.cli.serve import GRACE_S
from mcpdesk.settings import BY_VARIABLE, SETTINGS
from tests.support.dockerfile import IMAGE
from tests.support.engine import EngineServer, needs_engine, shared_engine
from tests.support.haproxy import PAGE, block, haproxy, needs_haproxy
from tests.support.patience import WITHIN_S
from tests.support.replicas import replica_cluster
from tests.support.session_client import SessionClient, calculator

__all__ = ["shared_engine"]

DEPLOY = PAGE.parent / "deploy"
ANALYZE = shutil.which("systemd-analyze") or ""


@needs_engine
@pytest.mark.slow
@needs_haproxy
async def test_a_session_behind_haproxy_goes_on_when_a_replica_is_replaced(
    tmp_path: Path, shared_engine: EngineServer
) -> None:
    async with (
        replica_cluster(3, [calculator(tmp_path)], shared_engine, tmp_path) as cluster,
        haproxy(cluster, tmp_path) as url,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(WITHIN_S)) as http,
    ):
        cluster.url = url
        client = SessionClient(url, http)
        await client.open()
        ending = asyncio.create_task(asyncio.to_thread(cluster.replicas[0].end))
        for number in range(40):
            result = await client.call("add", a=number, b=1)
            assert result["structuredContent"] == {"result": number + 1}
        assert await ending == 0


def test_the_compose_file_starts_what_there_is_with_settings_there_are() -> None:
    compose: dict[str, Any] = yaml.safe_load(block("compose.yaml"))
    service = compose["services"]["mcpdesk"]
    assert set(service["environment"]) <= set(BY_VARIABLE)
    assert service["build"] == "."  # the image of the Dockerfile
    assert service["read_only"] and service["tmpfs"] == ["/tmp"] and service["cap_drop"] == ["ALL"]
    assert service["volumes"] == [volume for each in IMAGE.values("VOLUME") for volume in json.loads(each)]
    assert "--appendonly yes" in compose["services"]["engine"]["command"]


def pods() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The pods of the manifest, and the other objects."""
    deployment, *others = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return deployment, others


def test_the_pods_have_settings_there_are_and_probes_of_endpoints_there_are() -> None:
    deployment, (service, budget) = pods()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    names = {each["name"] for each in container["env"]}
    assert names - {"POD_IP", "NAMESPACE", "HOME"} <= set(BY_VARIABLE)
    probes = {container[each]["httpGet"]["path"] for each in ("livenessProbe", "readinessProbe")}
    assert probes == {"/health", "/ready"}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels == deployment["spec"]["selector"]["matchLabels"]
    assert budget["kind"] == "PodDisruptionBudget" and budget["spec"]["selector"]["matchLabels"] == labels
    assert 0 < budget["spec"]["minAvailable"] < deployment["spec"]["replicas"]
    assert container["resources"]["requests"].keys() >= {"cpu", "memory"}


def test_the_pods_run_the_image_as_it_is_made() -> None:
    deployment, _ = pods()
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert IMAGE.last("USER") == "{0}:{0}".format(pod["securityContext"]["runAsUser"])
    assert container["args"] == json.loads(IMAGE.last("CMD"))
    assert [str(each["containerPort"]) for each in container["ports"]] == IMAGE.values("EXPOSE")
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert {name: values[name] for name in IMAGE.environment if name in values} == {
        name: value for name, value in IMAGE.environment.items() if name in values
    }
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_the_pods_write_to_volumes_and_end_in_the_time_that_their_settings_take() -> None:
    deployment, _ = pods()
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environment = {each["name"]: each.get("value", "") for each in container["env"]}
    mounted = [each["mountPath"] for each in container["volumeMounts"]]
    assert any(environment["MCPDESK_STATE_DIR"].startswith(f"{place}/") for place in mounted)
    assert environment["MCPDESK_CAPTURE"] == "false"
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    defaults = {each.name: each.default for each in SETTINGS}
    needed_s = defaults["lame_duck_s"] + defaults["drain_timeout_s"] + GRACE_S
    assert pod["terminationGracePeriodSeconds"] >= needed_s
    probe = container["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] < defaults["lame_duck_s"]


def test_the_service_is_called_by_names_that_the_pods_allow() -> None:
    deployment, (service, _) = pods()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (allowed,) = (each["value"] for each in container["env"] if each["name"] == "MCPDESK_ALLOWED_HOSTS")
    hosts = allowed.replace("$(NAMESPACE)", "tools").split(",")
    name = service["metadata"]["name"]
    for host in (name, f"{name}.tools", f"{name}.tools.svc", f"{name}.tools.svc.cluster.local"):
        assert check_host(host, hosts, "0.0.0.0")


METRIC = re.compile(r"\b(?:mcpdesk|process)_\w+")


@needs_engine
@pytest.mark.slow
async def test_the_dashboard_and_the_alerts_use_metrics_that_replicas_have(
    tmp_path: Path, shared_engine: EngineServer
) -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    board = json.loads((DEPLOY / "grafana.json").read_text())
    asked = [rule["expr"] for rule in rules]
    asked += [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    asked += [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    used = {name for text in (*asked, block("prometheus.yaml")) for name in METRIC.findall(text)}
    assert len(used) > 20
    async with (
        replica_cluster(1, [calculator(tmp_path)], shared_engine, tmp_path) as cluster,
        aiohttp.ClientSession() as http,
    ):
        url = cluster.replicas[0].url
        await SessionClient(url, http).call("add", a=1, b=2)  # tools that were never called have no figures
        async with http.get(f"{url}/metrics") as answer:
            lines = (await answer.text()).splitlines()
    assert used <= {re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")}


@pytest.mark.process
@pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not installed: the unit was not verified")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = tmp_path / "mcpdesk@.service"
    unit.write_text(block("mcpdesk@.service").replace("/opt/mcpdesk/bin/mcpdesk", sys.executable))
    done = subprocess.run([ANALYZE, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "mcpdesk@" not in done.stderr, done.stderr
