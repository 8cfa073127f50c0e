"""deploy/: what linters say about it, and what must hold whatever they say."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from monoize import __version__
from monoize.pipeline.rulebook import check_rules
from monoize.settings import TimeoutSettings, is_loopback, parse

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text("utf-8")
MANIFESTS = sorted(
    file for file in (DEPLOY / "kubernetes").glob("*.yaml") if file.name != "kustomization.yaml"
)
IMAGE = re.compile(r"^[\w./-]+:[\w][\w.-]*$")


def _yaml(path: str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text("utf-8"))


COMPOSE: dict[str, Any] = _yaml("compose.yaml")
SERVICES: dict[str, Any] = COMPOSE["services"]
POD: dict[str, Any] = _yaml("kubernetes/deployment.yaml")["spec"]["template"]["spec"]
GATEWAY: dict[str, Any] = POD["containers"][0]


# --- linters, where they are installed ---


def _linted(program: str, *words: str) -> None:
    tool = Path(sys.executable).parent / program
    if not tool.exists():
        pytest.skip(f"{program} is not installed")
    done = subprocess.run(
        [tool, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_hadolint_finds_nothing_in_the_container_file() -> None:
    _linted("hadolint", "--failure-threshold", "style", "deploy/Containerfile")


def test_the_compose_file_keeps_to_its_schema() -> None:
    _linted("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose.yaml")


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_the_manifests_keep_to_the_schemas_of_kubernetes(version: str) -> None:
    files = [str(file.relative_to(ROOT)) for file in MANIFESTS]
    _linted("kubernetes-validate", "--strict", "--kubernetes-version", version, *files)


def test_yamllint_finds_nothing() -> None:
    rules = (
        "{extends: default, rules: {line-length: {max: 140}, document-start: disable, "
        "comments: {min-spaces-from-content: 1}, braces: {max-spaces-inside: 1}}}"
    )
    _linted("yamllint", "--strict", "-d", rules, "deploy")


# --- the image ---


def _instructions(name: str) -> list[str]:
    joined = CONTAINERFILE.replace("\\\n", " ")
    return [
        line[len(name) :].strip() for line in joined.splitlines() if line.startswith(f"{name} ")
    ]


def test_the_image_runs_as_nobody_in_particular() -> None:
    user, _, group = _instructions("USER")[-1].partition(":")
    assert user.isdigit()
    assert int(user) > 0
    assert group == "0"  # OpenShift: any UID, but group 0
    assert "-m 0775 -o 10001 -g 0 /var/lib/monoize" in CONTAINERFILE


def test_base_images_have_a_version() -> None:
    bases = [base.split()[0] for base in _instructions("FROM")]
    assert len(bases) == 2
    assert all(IMAGE.match(base) and "latest" not in base for base in bases)


def test_everything_is_installed_by_its_hash() -> None:
    installs = re.findall(r"pip install[^&;]*", " ".join(_instructions("RUN")))
    assert len(installs) == 4
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    lock = (DEPLOY / "build.lock").read_text("utf-8")
    wanted = re.search(r'requires = \["(.+?)"\]', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert wanted
    assert wanted[1] in lock  # what builds the wheel is what pyproject.toml asks for


def test_the_health_check_asks_the_program_itself() -> None:
    (check,) = _instructions("HEALTHCHECK")
    assert "/healthz" in check
    assert "ProxyHandler({})" in check
    assert _instructions("EXPOSE") == ["8080"]
    assert _instructions("ENTRYPOINT") == ['["monoize"]']


def test_no_secret_is_built_in() -> None:
    for word in ("API_KEY", "PASSWORD", "SECRET", "TOKEN", "sk-"):
        assert word not in CONTAINERFILE


def test_only_what_is_named_gets_into_the_build() -> None:
    first, *lines = [
        line
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert first == "*"
    let_in = [line[1:] for line in lines if line.startswith("!")]
    for name in (".env", "deploy/.env", "data/first-key", ".git/config", "monoize.yaml"):
        assert not any(fnmatch(name, pattern) for pattern in let_in)
    copied = {
        source
        for line in _instructions("COPY")
        if not line.startswith("--from")
        for source in line.split()[:-1]
    }
    assert copied == set(let_in)
    for name in copied:
        assert (ROOT / name).exists()


# --- the config ---

ENVIRONMENT = {
    "DATABASE_URL": "postgresql://monoize:password@postgres:5432/monoize",
    "REDIS_URL": "redis://valkey:6379/0",
    "MONOIZE_ADMIN_KEY": "sk-admin-0123456789",
}


def test_the_config_is_good_and_reachable_from_outside() -> None:
    text = (DEPLOY / "monoize.yaml").read_text("utf-8")
    settings = check_rules(parse(text, ENVIRONMENT), "deploy/monoize.yaml")
    assert not is_loopback(settings.server.host)
    assert settings.server.port == 8080
    assert settings.database == ENVIRONMENT["DATABASE_URL"]
    assert settings.redis == ENVIRONMENT["REDIS_URL"]
    assert settings.keys[0].role == "admin"


def test_the_config_map_holds_the_same_config() -> None:
    embedded = _yaml("kubernetes/configmap.yaml")["data"]["monoize.yaml"]
    assert embedded == (DEPLOY / "monoize.yaml").read_text("utf-8")


@pytest.mark.parametrize(
    "given",
    [
        set(SERVICES["gateway"]["environment"]),
        {row["name"] for row in GATEWAY["env"]},
    ],
    ids=["compose", "kubernetes"],
)
def test_every_variable_of_the_config_is_given(given: set[str]) -> None:
    text = (DEPLOY / "monoize.yaml").read_text("utf-8")
    assert set(re.findall(r"\$\{(\w+)", text)) <= given
    assert "MONOIZE_SECRET_KEY" in given


def _drain() -> float:
    settings = parse((DEPLOY / "monoize.yaml").read_text("utf-8"), ENVIRONMENT)
    assert isinstance(settings.server.timeouts, TimeoutSettings)
    return settings.server.timeouts.drain


# --- compose ---


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_locked_in_and_watched(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert IMAGE.match(service["image"])
    assert "latest" not in service["image"]
    assert not str(service.get("user", "10001")).startswith("0")
    assert "privileged" not in service


def test_only_the_gateway_is_published_and_only_here() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["gateway"]
    assert SERVICES["gateway"]["ports"] == ["${MONOIZE_BIND:-127.0.0.1}:8080:8080"]
    assert COMPOSE["networks"]["back"]["internal"] is True
    assert {name for name, s in SERVICES.items() if "front" in s["networks"]} == {"gateway"}


def test_what_must_last_is_on_a_volume_and_secrets_are_asked_for() -> None:
    assert any(v.startswith("postgres-data:") for v in SERVICES["postgres"]["volumes"])
    assert set(COMPOSE["volumes"]) == {"gateway-data", "postgres-data"}
    example = dict(
        line.split("=", 1)
        for line in (DEPLOY / "env.example").read_text("utf-8").splitlines()
        if "=" in line and not line.startswith("#")
    )
    asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text("utf-8")))
    assert asked == set(example)
    assert not any(value for name, value in example.items() if name != "MONOIZE_BIND")


def test_compose_waits_for_streams_to_end() -> None:
    assert int(SERVICES["gateway"]["stop_grace_period"].removesuffix("s")) > _drain()
    waits = SERVICES["gateway"]["depends_on"]
    assert {row["condition"] for row in waits.values()} == {"service_healthy"}


# --- kubernetes ---


def test_the_pod_has_no_rights() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert POD["automountServiceAccountToken"] is False
    assert "runAsUser" not in POD["securityContext"]  # OpenShift chooses it
    assert GATEWAY["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any(POD.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
    writable = {m["mountPath"] for m in GATEWAY["volumeMounts"] if not m.get("readOnly")}
    assert writable == {"/var/lib/monoize", "/tmp"}


def test_the_pod_is_asked_how_it_is() -> None:
    probes = {
        name: GATEWAY[name]["httpGet"]["path"]
        for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert probes == {
        "startupProbe": "/healthz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/healthz",
    }
    for name in probes:  # else server.hosts would make the pod unready
        assert GATEWAY[name]["httpGet"]["httpHeaders"] == [{"name": "Host", "value": "localhost"}]


def test_the_pod_ends_its_streams_before_it_is_killed() -> None:
    (_, seconds) = GATEWAY["lifecycle"]["preStop"]["exec"]["command"]
    assert POD["terminationGracePeriodSeconds"] >= int(seconds) + _drain()


def test_secrets_are_only_referred_to() -> None:
    assert {row["valueFrom"]["secretKeyRef"]["name"] for row in GATEWAY["env"]} == {"monoize"}
    kinds = [yaml.safe_load(file.read_text("utf-8"))["kind"] for file in MANIFESTS]
    assert "Secret" not in kinds
    page = (DEPLOY / "README.md").read_text("utf-8")
    for row in GATEWAY["env"]:
        assert f"--from-literal={row['valueFrom']['secretKeyRef']['key']}=" in page


def test_everything_belongs_together() -> None:
    kinds = {}
    for file in MANIFESTS:
        manifest = yaml.safe_load(file.read_text("utf-8"))
        kinds[manifest["kind"]] = manifest
        if manifest["kind"] != "Namespace":
            assert manifest["metadata"]["namespace"] == "monoize"
    assert set(kinds) >= {
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
    }
    labels = kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert kinds["Service"]["spec"]["selector"] == labels
    assert kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert kinds["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert kinds["Service"]["spec"]["ports"][0]["targetPort"] == GATEWAY["ports"][0]["name"]
    listed = _yaml("kubernetes/kustomization.yaml")["resources"]
    assert sorted(listed) == [file.name for file in MANIFESTS]


def test_several_replicas_share_their_store() -> None:
    assert _yaml("kubernetes/deployment.yaml")["spec"]["replicas"] > 1
    assert {"DATABASE_URL", "REDIS_URL"} <= {row["name"] for row in GATEWAY["env"]}


def test_the_cloud_s_metadata_cannot_be_reached() -> None:
    rules = _yaml("kubernetes/networkpolicy.yaml")["spec"]["egress"]
    blocks = [to["ipBlock"] for rule in rules for to in rule["to"] if "ipBlock" in to]
    assert "169.254.0.0/16" in blocks[0]["except"]


def test_images_are_of_this_version() -> None:
    for image in (SERVICES["gateway"]["image"], GATEWAY["image"]):
        assert image.endswith(f"monoize:{__version__}")
    assert f"monoize:{__version__}" in CONTAINERFILE
