"""Available memory: of the machine, and of the control groups in which containers and batch jobs run."""

import pytest

from lineal.system.memory import available_memory

GB = 10**9


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


@pytest.fixture
def root(tmp_path):
    write(tmp_path, {"proc/meminfo": "MemTotal: 99999999 kB\nMemAvailable: 8000000 kB"})
    return tmp_path


def test_the_machine(root):
    assert available_memory(root) == 8_000_000 * 1024


def test_this_machine():
    assert available_memory() > 0


def test_nothing_known_but_the_machine(tmp_path):
    assert available_memory(tmp_path) > 0


@pytest.mark.parametrize("path", ["/", "/jobs/7", "/../elsewhere", ""])
def test_groups_of_version_2(root, path):
    group = "sys/fs/cgroup/"
    write(root, {"proc/self/cgroup": f"0::{path}", group + "memory.max": 3 * GB, group + "memory.current": GB})
    assert available_memory(root) == 2 * GB


def test_the_tightest_group_counts(root):
    write(root, {"proc/self/cgroup": "0::/jobs/7/step"})
    for group, limit in (("", "max"), ("jobs/", 2 * GB), ("jobs/7/", 5 * GB), ("jobs/7/step/", "max")):
        files = {"memory.max": limit, "memory.current": GB // 2}
        write(root, {f"sys/fs/cgroup/{group}{name}": text for name, text in files.items()})
    assert available_memory(root) == 2 * GB - GB // 2


def test_file_pages_can_be_had(root):
    group = "sys/fs/cgroup/"
    write(root, {"proc/self/cgroup": "0::/", group + "memory.max": 3 * GB, group + "memory.current": 3 * GB})
    assert available_memory(root) == 0
    write(root, {group + "memory.stat": f"anon {GB}\ninactive_file {GB}\nactive_file 5"})
    assert available_memory(root) == GB + 5


def test_groups_of_version_1(root):
    write(root, {"proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/box/a\n0::/"})
    group = "sys/fs/cgroup/memory/box/a/"
    write(root, {group + "memory.limit_in_bytes": 4 * GB, group + "memory.usage_in_bytes": GB})
    assert available_memory(root) == 3 * GB
    write(root, {group + "memory.stat": "inactive_file 1\ntotal_inactive_file 7\ntotal_active_file 1"})
    assert available_memory(root) == 3 * GB + 8
    top = "sys/fs/cgroup/memory/"
    write(root, {top + "memory.limit_in_bytes": 9223372036854771712, top + "memory.usage_in_bytes": GB})
    assert available_memory(root) == 3 * GB + 8


def test_no_limit_and_a_limit_above_the_machine(root):
    group = "sys/fs/cgroup/"
    write(root, {"proc/self/cgroup": "0::/", group + "memory.max": "max", group + "memory.current": GB})
    assert available_memory(root) == 8_000_000 * 1024
    write(root, {group + "memory.max": 10**15})
    assert available_memory(root) == 8_000_000 * 1024


def test_files_that_say_nothing(root):
    group = "sys/fs/cgroup/"
    write(root, {"proc/self/cgroup": "what", group + "memory.max": "much"})
    assert available_memory(root) == 8_000_000 * 1024
