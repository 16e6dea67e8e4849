"""An inventory's hosts as a bed: NICs by role, the lab's names by place, one build everywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.experiment.aliases import environment, resolved
from chaos.experiment.file import load
from chaos.faults.registry import spec_of
from chaos.faults.spec import FaultSpec
from chaos.testbed.beds import bed_hardware, gpus_of
from harness.errors import InputErrors, UsageError
from harness.hosts.ssh.target import Target
from harness.hosts.survey import Survey
from harness.sites.cluster import ClusterSite
from harness.sites.inventory import parse
from harness.sites.inventory_file import ClusterHost
from harness.sites.lab import LabSite
from harness.sites.surveyed import Surveyed

ROOT = Path(__file__).parents[2]
NAMES = {"node1": ["mlx0", "mlx1"], "node2": ["eth7", "eth0"]}
SURVEY = Survey(
    prefix="/p",
    address="192.0.2.1",
    settings=(),
    nics={"mlx0": "10.1.0.1", "mlx1": "10.2.0.1", "eno1": "192.0.2.1"},
    devices={"mlx0": "mlx5_0"},
    cpu="c",
    cores=8,
    memory_bytes=1 << 30,
    kernel="6",
    build={"build_id": "a"},
)


def _host(name: str, data: tuple[str, ...] = ("mlx0", "mlx1"), management: tuple[str, ...] = ("eno1",)) -> ClusterHost:
    return ClusterHost(Target(name, name, "u"), {"data": data, "management": management}, 8, {})


def _cluster(*surveys: Survey) -> Surveyed:
    hosts = tuple(_host(f"node{index}") for index in range(1, len(surveys) + 1))
    return Surveyed("c.yaml", hosts, {host.name: survey for host, survey in zip(hosts, surveys, strict=True)})


def _spec(**words: object) -> FaultSpec:
    return spec_of({"id": "f", "kind": "link_down", "at": {"iteration": 1}, "duration_s": 1.0, **words})


@pytest.mark.parametrize(
    ("host", "nic", "meant"),
    [
        ("h0", "eth1", ("node1", "mlx1")),
        ("h1", "eth0", ("node2", "eth0")),  # it has that name itself, though it is the second
        ("h1", "eth1", ("node2", "eth0")),
        ("node1", "mlx0", ("node1", "mlx0")),
        ("h2", "eth0", ("h2", "eth0")),  # there is none: reported later, as the user wrote it
        ("node1", "eth9", ("node1", "eth9")),
    ],
)
def test_the_labs_names_mean_places(host: str, nic: str, meant: tuple[str, str]) -> None:
    found = resolved(_spec(host=host, nic=nic), NAMES)
    assert (found.host, found.nic) == meant


def test_several_nics_and_those_assumed_down() -> None:
    assert resolved(_spec(nics=["*:eth1"]), NAMES).nics == ("node1:mlx1", "node2:eth0")
    assert resolved(_spec(nics=["h0:*", "h1:eth1"]), NAMES).nics == ("node1:*", "node2:eth0")
    assert environment({"R2CC_ASSUME_DOWN": "h0:eth0,h1:eth1", "A": "b"}, NAMES) == {
        "R2CC_ASSUME_DOWN": "node1:mlx0,node2:eth0",
        "A": "b",
    }


def test_in_the_lab_names_are_what_they_are() -> None:
    lab = {f"h{host}": [f"eth{nic}" for nic in range(3)] for host in range(2)}
    for words in ({"host": "h1", "nic": "eth2"}, {"nics": ["*:eth1", "h1:*"]}):
        spec = _spec(**words)
        assert set(resolved(spec, lab).targets(lab)) == set(spec.targets(lab))


def test_nics_by_role_and_where_ranks_meet() -> None:
    cluster = _cluster(SURVEY, SURVEY)
    assert [(nic.host, nic.name, nic.address) for nic in cluster.nics()][:2] == [
        ("node1", "mlx0", "10.1.0.1"),
        ("node1", "mlx1", "10.2.0.1"),
    ]
    assert cluster.root() == "192.0.2.1"
    assert cluster.env("socket")["node2"] == {"NCCL_SOCKET_IFNAME": "=mlx0,mlx1", "R2CC_SIDE_IFNAME": "eno1"}
    assert cluster.program("node1", "bin/x") == Path("/p/current/bin/x")


def test_how_many_gpus_hosts_have(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("hosts:\n- {name: 'a[1-2]', gpus: 8}\n- {name: b, gpus: 4}\n- {name: c}\n")
    assert [ClusterSite("c", file, words).gpus() for words in ("a[1-2]", "c")] == [8, None]
    with pytest.raises(UsageError, match="hosts have 4, 8, None GPUs"):
        ClusterSite("c", file).gpus()


def test_figures_are_of_all_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    site = ClusterSite("c.yaml", Path())
    monkeypatch.setattr(site, "_surveyed", _cluster(SURVEY, SURVEY))
    found = bed_hardware(site)
    assert found is not None and found.machines == 2
    assert bed_hardware(LabSite()) is None


def test_rdma_devices_of_all_data_nics() -> None:
    both = replace(SURVEY, devices={"mlx0": "mlx5_0", "mlx1": "mlx5_3", "eno1": "mlx5_9"})
    cluster = _cluster(both, both)
    wanted = {"mlx0": "mlx5_0", "mlx1": "mlx5_3"}
    assert cluster.devices() == {(host, nic): wanted[nic] for host in ("node1", "node2") for nic in wanted}
    assert cluster.env("ib")["node1"]["NCCL_IB_HCA"] == "=mlx5_0,mlx5_3"
    with pytest.raises(InputErrors, match="node2: data NIC 'mlx1' has no RDMA device"):
        _cluster(both, SURVEY).devices()


def test_every_nic_that_is_not_there_is_named() -> None:
    hosts = (_host("node1", data=("mlx0", "mlx8", "mlx9")), _host("node2", data=()))
    with pytest.raises(InputErrors) as caught:
        Surveyed("c.yaml", hosts, {"node1": SURVEY, "node2": SURVEY}).nics()
    assert [error.split(":")[0] for error in caught.value.errors] == ["node1", "node2"]
    assert "no NIC 'mlx8', 'mlx9' with an IPv4 address" in caught.value.errors[0]
    assert "which NICs carry data" in caught.value.errors[1]


def test_all_hosts_must_have_the_same_build() -> None:
    assert _cluster(SURVEY, SURVEY).build() == {"build_id": "a"}
    with pytest.raises(UsageError, match="nothing is deployed on node2") as caught:
        _cluster(SURVEY, replace(SURVEY, build=None)).build()
    assert caught.value.hint == "r2cc deploy --inventory c.yaml"
    with pytest.raises(UsageError, match="different builds: a on node1; b on node2, node3"):
        _cluster(SURVEY, *[replace(SURVEY, build={"build_id": "b"})] * 2).build()


def test_builds_of_the_same_sources_for_two_kinds_of_cpu_go_together() -> None:
    def built(build_id: str, compiler: str, sources: str = "s") -> Survey:
        return replace(SURVEY, build={"build_id": build_id, "inputs": {"compiler": compiler, "sources": sources}})

    assert _cluster(built("a", "g++"), built("b", "aarch64-g++")).build()["build_id"] == "a"
    with pytest.raises(UsageError, match="different builds: a on node1; b on node2"):
        _cluster(built("a", "g++"), built("b", "aarch64-g++", "older")).build()
    with pytest.raises(UsageError, match=r"deployed in /p on node2 is for another CPU \(x86_64\)") as caught:
        _cluster(SURVEY, replace(SURVEY, alien="x86_64")).build()
    assert "a `prefix:` of their own" in caught.value.hint


def test_gpus_that_slurm_does_not_name_have_a_remedy_of_slurms(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_GPUS": "8"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="not known how many GPUs") as caught:
        gpus_of(parse("slurm"), load(ROOT / "experiments" / "gpu" / "collectives.yaml"))
    assert "ask Slurm by --gpus-per-node=N" in str(caught.value)
