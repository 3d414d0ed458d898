"""Training on a cluster with real certificates: encrypted both ways, and closed to those who have none."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time

import pytest
from cli_files import done, failed
from conftest import random_problem
from file_rows import write_files

import lineal

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl, which is missing"),
]

#: Seconds that processes may take to start.
PATIENCE = 60.0


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def authority(folder, name):
    """A certificate authority: its certificate, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", key,
        "-out", certificate,
    )  # fmt: skip
    return certificate, key


def signed(folder, name, issuer):
    """A certificate for 127.0.0.1 that an authority has signed, and its key."""
    certificate, key, request, extras = (folder / f"{name}{end}" for end in (".pem", "-key.pem", ".csr", ".ext"))
    extras.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    openssl(
        "x509", "-req", "-in", request, "-CA", issuer[0], "-CAkey", issuer[1], "-CAcreateserial", "-days", "2",
        "-extfile", extras, "-out", certificate,
    )  # fmt: skip
    return certificate, key


def flags(ca, pair):
    return ["--tls-ca-file", ca[0], "--tls-cert", pair[0], "--tls-key", pair[1]]


class Process:
    """A process of Dask whose messages go to a file."""

    def __init__(self, log, *words):
        self.log = log
        with log.open("wb") as output:
            command = [sys.executable, "-m", "distributed.cli." + words[0], *map(str, words[1:])]
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def wait_for(self, pattern):
        """The first match in the messages."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.log.read_text())) is None:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        return found

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(10.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Address of a scheduler with two workers, and the folder of the certificates."""
    folder = tmp_path_factory.mktemp("tls")
    ca = authority(folder, "ca")
    pairs = {name: signed(folder, name, ca) for name in ("scheduler", "worker", "client")}
    other = authority(folder, "other")
    pairs["stranger"] = signed(folder, "stranger", other)
    running = []
    try:
        scheduler = Process(
            folder / "scheduler.log", "dask_scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", "0",
            "--no-dashboard", "--dashboard-address", "127.0.0.1:0", *flags(ca, pairs["scheduler"]),
        )  # fmt: skip
        running.append(scheduler)
        address = scheduler.wait_for(r"Scheduler at:\s*(tls://127\.0\.0\.1:\d+)").group(1)
        for number in range(2):
            worker = Process(
                folder / f"worker-{number}.log", "dask_worker", address, "--host", "127.0.0.1", "--nthreads", "1",
                "--no-dashboard", "--no-nanny", "--local-directory", folder, *flags(ca, pairs["worker"]),
            )  # fmt: skip
            running.append(worker)
        for worker in running[1:]:
            worker.wait_for(r"Registered to:\s*tls://")
        yield address, ca, pairs
    finally:
        for process in reversed(running):
            process.end()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    X, y = random_problem(3, n=300, d=9, k=3, density=0.5)
    folder = tmp_path_factory.mktemp("rows")
    write_files(folder, X, y, parts=2)
    return folder


TRAIN = ("--loss", "logistic", "--solver", "newton", "--tol", "1e-9", "--alpha", "1e-2")


def test_training_with_certificates(cluster, folder, tmp_path):
    address, ca, pairs = cluster
    done("train", folder / "*.arrow", "-m", tmp_path / "local", *TRAIN)
    done("train", folder / "*.arrow", "-m", tmp_path / "m", *TRAIN, "--scheduler", address, *flags(ca, pairs["client"]))
    wanted, found = (lineal.load(tmp_path / name) for name in ("local", "m"))
    assert abs(found.weights - wanted.weights).max() < 1e-5


def test_others_are_refused(cluster, folder, tmp_path):
    address, ca, pairs = cluster
    model = tmp_path / "m"
    train = ("train", folder / "*.arrow", "-m", model, *TRAIN, "--scheduler")
    assert "a tls:// scheduler needs tls_ca_file, tls_cert and tls_key" in failed(*train, address)
    for issuer in (ca, (ca[0].parent / "other.pem",)):
        message = failed(*train, address, *flags(issuer, pairs["stranger"]))
        assert re.search(r"no encrypted connection|cannot reach a Dask scheduler", message), message
    plain = failed(*train, address.replace("tls://", "tcp://"))
    assert "cannot reach a Dask scheduler" in plain
    assert not model.exists()
