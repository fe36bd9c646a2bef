"""Qdrant keeps the contract of stores in local mode, and turns a server's errors into ours.

There is no Qdrant server here: the URL's path is tested against a stand-in that only fails.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

from edgebert.errors import InputError, StoreError
from edgebert.features.lock import lock_server
from edgebert.features.stores import open_store
from edgebert.features.stores.qdrant_client import Place
from edgebert.features.stores.qdrant_points import requests_of
from tests.features.store_contract import StoreContract
from tests.features.store_data import entries_of, entry_of, identity_of, vectors_of

pytestmark = pytest.mark.stores


class TestQdrantStore(StoreContract):
    kind = "qdrant"


@pytest.fixture
def place(tmp_path):
    return f"qdrant:{tmp_path / 'store'}"


@pytest.fixture
def server():
    """Give a server that answers every request with a status, and remembers their headers."""

    class Handler(BaseHTTPRequestHandler):
        status, body = 500, b"{}"
        seen: list[tuple[str, str | None]] = []  # noqa: RUF012

        def do_GET(self):
            self.seen.append((self.path, self.headers.get("api-key")))
            self.send_response(self.status)
            self.send_header("Content-Length", str(len(self.body)))
            self.end_headers()
            self.wfile.write(self.body)

        def log_message(self, *_):
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    Handler.url = f"qdrant:http://127.0.0.1:{served.server_port}/notes"
    yield Handler
    served.shutdown()
    served.server_close()
    thread.join()


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_failing_server_is_an_error_that_may_pass(server, status):
    server.status = status
    with pytest.raises(StoreError, match=str(status)):
        open_store(server.url)
    assert server.seen[-1][0] == "/collections/notes/exists"


def test_a_server_that_is_not_there_is_an_error_that_may_pass():
    with pytest.raises(StoreError, match="refused"):
        open_store("qdrant:http://127.0.0.1:1/notes")


@pytest.mark.parametrize("body", [b'{"no": "result"}', b"<html>", b""])
def test_a_server_that_answers_nonsense_is_an_error_that_may_pass(server, body):
    server.status, server.body = 200, body
    with pytest.raises(StoreError, match="can't be opened"):
        open_store(server.url)


def test_a_wrong_api_key_is_named_and_the_right_one_is_sent(server, monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "k-123")
    server.status = 401
    with (
        pytest.warns(UserWarning, match="insecure"),
        pytest.raises(InputError, match="QDRANT_API_KEY"),
    ):
        open_store(server.url)
    assert server.seen[-1][1] == "k-123"


def test_a_collection_that_is_not_there_can_t_be_read(server):
    server.status, server.body = 200, b'{"result": {"exists": false}, "status": "ok", "time": 0}'
    with pytest.raises(InputError, match="Extract"):
        open_store(server.url, read_only=True)
    with open_store(server.url) as store:
        assert store.identity is None


def test_a_server_s_journal_is_the_same_one_wherever_a_run_is_begun(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBERT_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    same = ("http://host/notes", "http://host:6333/notes", "http://me:secret@HOST/notes")
    (path,) = {Place.of(location).journal() for location in same}
    assert path.parent == tmp_path / "state"
    assert path.name.startswith("qdrant-notes-")
    assert "secret" not in path.name
    others = ("https://host/notes", "http://host:1/notes", "http://host/a/notes", "http://host/b")
    assert len({path, *(Place.of(location).journal() for location in others)}) == 5


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_state_folder_that_can_t_be_made_is_named(tmp_path, monkeypatch, folder):
    (tmp_path / "file").touch()
    monkeypatch.setenv("EDGEBERT_STATE", str(tmp_path / folder))
    with pytest.raises(InputError, match=r"file.* can't be made .*Set EDGEBERT_STATE"):
        Place.of("http://host/notes").journal()


def test_a_server_s_store_has_one_run_at_a_time_whatever_folder_it_is_begun_in(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("EDGEBERT_STATE", str(tmp_path / "state"))
    uri = "qdrant:http://host/notes"
    store = SimpleNamespace(journal_path=Place.of("http://host/notes").journal)
    with lock_server(store, uri, name="entries"):
        monkeypatch.chdir(tmp_path)
        again = lock_server(store, "qdrant:http://host:6333/notes", name="entries")
        with pytest.raises(InputError, match="writing to qdrant:http://host:6333/notes"), again:
            pass


@pytest.mark.parametrize("location", ["http://host:6333", "http://host:6333/", "ftp://host/x"])
def test_a_url_without_a_collection_is_refused(location):
    with pytest.raises(InputError, match="collection"):
        open_store(f"qdrant:{location}")


def test_a_folder_that_is_open_elsewhere_says_so(place):
    with open_store(place) as store:
        store.bind(identity_of())
        with pytest.raises(StoreError, match="open elsewhere"):
            open_store(place, read_only=True)
    with open_store(place, read_only=True) as store:
        assert store.identity == identity_of()


def test_requests_hold_256_entries_and_two_million_characters_at_most():
    few = [entry_of(str(row), text="a" * 10) for row in range(600)]
    assert [(one.start, one.stop) for one in requests_of(few)] == [(0, 256), (256, 512), (512, 600)]
    long = [entry_of(str(row), text="a" * size) for row, size in enumerate([9, 3 << 20, 9, 9])]
    assert [(one.start, one.stop) for one in requests_of(long)] == [(0, 1), (1, 2), (2, 4)]
    assert list(requests_of([])) == []


def test_entries_of_several_requests_are_all_there(place):
    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries_of(300), vectors_of(300))
        assert len(store) == 300


def test_other_programs_read_text_metadata_and_a_vector_to_search(place, tmp_path):
    from qdrant_client import QdrantClient

    entries, vectors = entries_of(2), vectors_of(2, "int8")
    with open_store(place) as store:
        store.bind(identity_of("int8"))
        store.write(entries, vectors)
    client = QdrantClient(path=str(tmp_path / "store"))
    points, _ = client.scroll("entries", with_vectors=True)
    client.close()
    assert {point.payload["text"] for point in points} == {entry.text for entry in entries}
    assert {point.payload["metadata"]["lang"] for point in points} == {"de", "en"}
    full = vectors[0] * np.asarray(identity_of("int8").int8_scale)
    found = {point.id.replace("-", ""): point.vector for point in points}[entries[0].id]
    length = np.linalg.norm(found) / np.linalg.norm(full)  # a server would have normalized it
    np.testing.assert_allclose(found, full * length, rtol=1e-5)


def test_a_folder_of_another_program_is_refused(place, tmp_path):
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(tmp_path / "store"))
    size = models.VectorParams(size=4, distance=models.Distance.DOT)
    client.create_collection("theirs", vectors_config=size)
    client.close()
    with pytest.raises(InputError, match="other collections"):
        open_store(place)


def test_a_collection_of_another_program_is_refused(place, tmp_path):
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(tmp_path / "store"))
    size = models.VectorParams(size=4, distance=models.Distance.DOT)
    client.create_collection("entries", vectors_config=size)
    client.close()
    with pytest.raises(InputError, match="didn't make"):
        open_store(place)


def test_what_one_that_was_killed_at_its_first_step_left_is_removed(place, tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / "store" / f".meta.json.{gone.pid}.part"
    left.parent.mkdir()
    left.touch()
    with open_store(place) as store:
        store.bind(identity_of())
    assert not left.exists()


def test_someone_else_s_meta_json_is_refused(place, tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "meta.json").write_text('{"mine": 1}')
    with pytest.raises(InputError, match=r"meta\.json"):
        open_store(place)
