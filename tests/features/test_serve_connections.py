"""`edgebert serve`: connections that are held without a request, and those that only look so."""

from __future__ import annotations

import http.client
import json
import socket
import time
from contextlib import contextmanager

import pytest

from edgebert.serving import protocol
from tests.edgebert.bundles import write_bundle
from tests.features.served import WAIT_SECONDS, running

PATH = "/v1/embeddings"
SECONDS = 0.4
HEAD = b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "embedder"
    write_bundle(folder, task="feature-extraction")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "HEADER_SECONDS", SECONDS)
        with running(folder) as served:
            yield served.port


@contextmanager
def connected(port):
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as connection:
        yield connection


def all_of(connection):
    """Read until the other end closes."""
    found = b""
    while some := connection.recv(1 << 16):
        found += some
    return found


def drip(connection, piece):
    """Send a byte every now and then, until the other end is gone."""
    end = time.monotonic() + WAIT_SECONDS
    try:
        while time.monotonic() < end:
            connection.sendall(piece)
            time.sleep(SECONDS / 10)
    except OSError:
        return
    raise AssertionError("the connection was held")


def test_a_header_that_comes_byte_by_byte_is_408_and_the_end(port):
    with connected(port) as connection:
        connection.sendall(HEAD + b"X-Slow: ")
        connection.settimeout(SECONDS / 10)
        found, end = b"", time.monotonic() + WAIT_SECONDS
        while not found and time.monotonic() < end:
            connection.sendall(b"a")
            try:
                found = connection.recv(1 << 16)
            except TimeoutError:
                continue
        assert found.startswith(b"HTTP/1.1 408")
        assert b'"code": "headers_too_slow"' in found + all_of(connection)


def test_a_connection_without_a_request_is_closed_without_a_word(port):
    with connected(port) as connection:
        assert all_of(connection) == b""


def test_a_second_request_has_no_more_time_than_the_first(port):
    with connected(port) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        drip(connection, b"\r\n")  # blank lines before a request, which HTTP allows


def test_the_rest_of_a_body_that_was_refused_is_not_waited_for(port):
    with connected(port) as connection:
        connection.sendall(b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 404")
        drip(connection, b"a")


def test_headers_of_a_megabyte_are_431(port):
    with connected(port) as connection:
        try:
            for number in range(1024):
                connection.sendall((HEAD if not number else b"") + b"X: " + b"a" * 1019 + b"\r\n")
        except OSError:  # it's closed already
            pass
        found = connection.recv(1 << 16)
    assert found.startswith(b"HTTP/1.1 431")
    error = json.loads(found.partition(b"\r\n\r\n")[2])["error"]
    assert error["code"] == "headers_too_large"


def test_what_is_no_http_is_400_in_the_shape_of_all_errors(port):
    with connected(port) as connection:
        connection.sendall(b"hello\r\n\r\n")
        head, _, body = all_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_a_body_may_take_longer_than_a_header(port):
    body = json.dumps({"model": "embedder", "input": "good"}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    connection.putrequest("POST", PATH)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[:5])
    time.sleep(2 * SECONDS)
    connection.send(body[5:])
    assert connection.getresponse().status == 200
    connection.close()


def test_a_pause_between_two_requests_may_be_longer_than_a_header(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    for pause in (2 * SECONDS, 0):
        connection.request("GET", "/health")
        opened = connection.sock
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (200, b'{"status": "ok"}')
        assert connection.sock is opened  # kept alive, not opened anew
        time.sleep(pause)
    connection.close()
