"""``edgebert serve`` as a process: its first line, its signals, its exit codes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from edgebert.cli import main
from tests.edgebert.bundles import write_bundle
from tests.features.served import WAIT_SECONDS, ask

PATH = "/v1/embeddings"
BODY = json.dumps({"model": "embedder", "input": "good film"}).encode()
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "embedder"
    write_bundle(folder, task="feature-extraction")
    return folder


@contextmanager
def started(folder, *flags, **environment):
    """Run the command; give its process and the port of its first line."""
    command = [sys.executable, "-m", "edgebert", "serve", str(folder), "--threads", "1"]
    child = subprocess.Popen(
        [*command, "--port", "0", "--json", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "EDGEBERT_CACHE": "off", **environment},
    )
    try:
        assert child.stdout is not None
        facts = json.loads(child.stdout.readline())
        yield child, int(facts["url"].rpartition(":")[2])
    finally:
        child.kill()
        child.communicate()


def half_sent(port):
    """Begin a request whose body isn't all there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    connection.putrequest("POST", PATH)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(BODY)))
    connection.endheaders(BODY[:10])
    while b"edgebert_queue_requests 1" not in ask(port, "GET", "/metrics").body:
        pass
    return connection


def drained(port):
    """Wait until the server takes no more; give what it says then."""
    while (reply := ask(port, "POST", PATH, BODY, JSON)).status == 200:
        pass
    return reply


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_finishes_what_is_under_way_and_refuses_the_rest(folder, sent, code):
    with started(folder) as (child, port):
        connection = half_sent(port)
        child.send_signal(sent)
        assert drained(port).status == 503
        connection.send(BODY[10:])
        reply = connection.getresponse()
        assert reply.status == 200
        assert len(json.loads(reply.read())["data"][0]["embedding"]) == 8
        connection.close()
        assert child.wait(WAIT_SECONDS) == code
        assert "Traceback" not in child.stderr.read()


def test_a_stop_has_an_end_when_a_client_never_comes_to_its_own(folder):
    with started(folder, "--timeout-ms", "500") as (child, port):
        connection = half_sent(port)
        child.send_signal(signal.SIGTERM)
        assert child.wait(WAIT_SECONDS) == 0
        assert connection.getresponse().status == 408
        connection.close()


def test_a_second_signal_waits_no_longer(folder):
    with started(folder) as (child, port):
        connection = half_sent(port)
        child.send_signal(signal.SIGINT)
        drained(port)
        child.send_signal(signal.SIGINT)
        assert child.wait(WAIT_SECONDS) == 130
        connection.close()


def test_keys_come_from_a_file_or_from_the_environment(folder, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("\n one \ntwo\n", encoding="utf-8")
    with started(folder, "--api-key-file", str(keys), EDGEBERT_API_KEY="three") as (_, port):
        assert [models(port, key) for key in ("one", "two", "three")] == [200, 200, 401]
    with started(folder, EDGEBERT_API_KEY="three") as (_, port):
        assert [models(port, key) for key in ("one", "three")] == [401, 200]


def models(port, key):
    return ask(port, "GET", "/v1/models", headers={"Authorization": f"Bearer {key}"}).status


@pytest.mark.parametrize("flags", [["--api-key-file", "empty"], []])
def test_no_key_where_one_was_meant_opens_nothing(folder, flags, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("\n")
    monkeypatch.setenv("EDGEBERT_API_KEY", "")
    assert main(["serve", str(folder), "--port", "0", *flags]) == 1
    assert "holds no key" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "none"])  # a folder, and nothing
def test_keys_that_can_not_be_read_are_an_error_that_names_the_flag(folder, tmp_path, name, capsys):
    assert main(["serve", str(folder), "--port", "0", "--api-key-file", str(tmp_path / name)]) == 1
    assert f"--api-key-file {tmp_path / name} can't be read" in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_clear_error(folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(folder), "--port", str(port)]) == 1
    assert f"port {port}" in capsys.readouterr().err


def test_a_task_without_an_endpoint_is_one_clear_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDGEBERT_CACHE", "off")
    write_bundle(tmp_path / "masks", task="fill-mask")
    assert main(["serve", str(tmp_path / "masks"), "--port", "0"]) == 1
    assert "fill-mask bundle can't be served" in capsys.readouterr().err


def test_without_the_server_s_packages_the_error_says_what_to_install(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", str(folder), "--port", "0"]) == 1
    assert "pip install 'edgebert[serve]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags", [["--port", "70000"], ["--max-queue", "0"], ["--timeout-ms", "x"]]
)
def test_a_wrong_flag_is_a_wrong_usage(folder, flags):
    with pytest.raises(SystemExit) as end:
        main(["serve", str(folder), *flags])
    assert end.value.code == 2


def test_a_limit_beyond_what_it_may_be_is_an_error(folder, capsys):
    assert main(["serve", str(folder), "--port", "0", "--max-queue", "100000"]) == 1
    assert "max_queue is 100000; it must be a whole number, from 1 to 1024" in (
        capsys.readouterr().err
    )
