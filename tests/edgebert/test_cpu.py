import json

import pytest

from edgebert import cpu
from edgebert.cache import read_record, write_record
from edgebert.errors import InputError


@pytest.fixture(autouse=True)
def no_overrides(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("EDGEBERT_NUM_THREADS", raising=False)


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_quota_of_cgroup_v2_is_read(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/app\n")
    write(tmp_path, "sys/fs/cgroup/app/cpu.max", "250000 100000\n")
    assert cpu.cgroup_quota(tmp_path) == 2.5


def test_the_tightest_quota_above_a_group_counts(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/outer/inner\n")
    write(tmp_path, "sys/fs/cgroup/outer/cpu.max", "100000 100000\n")
    write(tmp_path, "sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n")
    assert cpu.cgroup_quota(tmp_path) == 1.0


def test_a_quota_of_cgroup_v1_is_read(tmp_path):
    write(tmp_path, "proc/self/cgroup", "4:cpu,cpuacct:/\n3:memory:/\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert cpu.cgroup_quota(tmp_path) == 2.0


def test_no_quota_of_cgroup_v1_is_minus_one(tmp_path):
    write(tmp_path, "proc/self/cgroup", "4:cpu:/\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert cpu.cgroup_quota(tmp_path) is None


@pytest.mark.parametrize(
    ("group", "path"),
    [
        ("0::/app/web", "sys/fs/cgroup/app/memory.max"),
        ("7:memory:/app", "sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ],
)
def test_the_tightest_limit_of_memory_counts(tmp_path, monkeypatch, group, path):
    monkeypatch.setattr(cpu, "_memory_bytes", lambda: 8 << 30)
    write(tmp_path, "proc/self/cgroup", f"{group}\n")
    assert cpu.memory_limit(tmp_path) == 8 << 30
    write(tmp_path, path, "max\n")
    assert cpu.memory_limit(tmp_path) == 8 << 30
    write(tmp_path, path, f"{1 << 30}\n")
    assert cpu.memory_limit(tmp_path) == 1 << 30


@pytest.mark.parametrize("line", ["", "nonsense", "0:", "4:cpu", ":::", "\ufffd\x00"])
def test_a_line_that_is_no_group_is_passed_over(tmp_path, line):
    write(tmp_path, "proc/self/cgroup", f"{line}\n0::/app\n")
    write(tmp_path, "sys/fs/cgroup/app/cpu.max", "250000 100000\n")
    assert cpu.cgroup_quota(tmp_path) == 2.5


def test_a_system_without_cgroups_has_no_quota(tmp_path):
    assert cpu.cgroup_quota(tmp_path) is None


@pytest.mark.parametrize(("quota", "threads"), [(None, 8), (2.0, 2), (2.9, 2), (0.5, 1), (99.0, 8)])
def test_threads_are_the_smaller_of_affinity_and_quota(monkeypatch, quota, threads):
    monkeypatch.setattr(cpu, "_affinity", lambda: 8)
    monkeypatch.setattr(cpu, "cgroup_quota", lambda: quota)
    assert cpu.default_threads() == threads


def test_our_variable_overrides_openmps_which_overrides_the_machine(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert cpu.default_threads() == 3
    monkeypatch.setenv("EDGEBERT_NUM_THREADS", "5")
    assert cpu.default_threads() == 5


@pytest.mark.parametrize("value", ["0", "-2", "many"])
def test_a_wrong_variable_is_refused(monkeypatch, value):
    monkeypatch.setenv("EDGEBERT_NUM_THREADS", value)
    with pytest.raises(InputError, match="must be 1 or more"):
        cpu.default_threads()


def test_the_machine_is_ready_for_json():
    facts = json.loads(json.dumps(cpu.machine()))
    assert set(facts) == {"cpu", "features", "cores", "threads", "memory_gb", "os", "python"}
    assert facts["cpu"]


def test_a_record_comes_back_and_the_oldest_are_dropped(cache, monkeypatch):
    monkeypatch.setattr("edgebert.cache.MAX_RECORDS", 4)
    for number in range(7):
        write_record(f"r{number}", {"n": number})
    assert read_record("r6") == {"n": 6}
    assert len(list(cache.iterdir())) == 4
    assert read_record("never written") is None
