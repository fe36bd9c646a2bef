"""`edgebert serve`: what it counts, and whether it is there."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgebert.serving.metrics import Counter, Histogram
from tests.edgebert.bundles import write_bundle
from tests.features.served import WAIT_SECONDS, held_engine, running, wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "embedder"
    write_bundle(folder, task="feature-extraction")
    return folder


def test_a_histogram_counts_what_is_at_or_below_each_bound():
    histogram = Histogram("size", "Sizes.", (1, 4), ("kind",))
    for value in (0.5, 1, 2, 4, 5):
        histogram.observe(value, "a")
    assert list(histogram.lines()) == [
        "# HELP size Sizes.",
        "# TYPE size histogram",
        'size_bucket{kind="a",le="1"} 2',
        'size_bucket{kind="a",le="4"} 4',
        'size_bucket{kind="a",le="+Inf"} 5',
        'size_sum{kind="a"} 12.5',
        'size_count{kind="a"} 5',
    ]


def test_a_counter_begins_at_0_and_adds_by_label():
    plain, labelled = Counter("all", "All."), Counter("some", "Some.", ("kind",))
    labelled.add(2, "b")
    labelled.add(3, "b")
    assert list(plain.lines())[2:] == ["all 0"]
    assert list(labelled.lines())[2:] == ['some{kind="b"} 5']


def test_a_server_counts_requests_texts_and_tokens(folder):
    with running(folder) as served:
        served.post(input=["good film", "film " * 40])  # 4 tokens; 32 and 10 that were cut
        served.post(input=[])
        served.ask("GET", "/nothing")
        reply = served.ask("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.body.decode().splitlines()
    for line in (
        'edgebert_requests_total{path="/v1/embeddings",status="200"} 1',
        'edgebert_requests_total{path="/v1/embeddings",status="400"} 1',
        'edgebert_requests_total{path="other",status="404"} 1',
        'edgebert_request_seconds_count{path="/v1/embeddings"} 2',
        "edgebert_texts_total 2",
        "edgebert_tokens_total 36",
        "edgebert_dropped_tokens_total 10",
        "edgebert_batch_rows_count 2",  # the lengths differ too much for one batch
        "edgebert_batch_rows_sum 2.0",
        "edgebert_queue_requests 0",
    ):
        assert line in lines


def test_what_waits_is_in_the_metrics(folder):
    with running(folder) as served, ThreadPoolExecutor(3) as pool, held_engine(served.runtime):
        for text in ("a", "b", "c"):
            pool.submit(served.post, input=text)
        wait_until(lambda: served.service.in_flight == 3)
        text = served.ask("GET", "/metrics").body.decode()
    assert "\nedgebert_queue_requests 3\n" in text


def test_a_server_is_live_and_ready_until_it_drains(folder):
    with running(folder) as served:
        assert served.ask("GET", "/health").json == {"status": "ok"}
        assert served.ask("GET", "/ready").status == 200
        with held_engine(served.runtime):
            threading.Thread(target=served.post, kwargs={"input": "a"}).start()
            wait_until(lambda: served.service.in_flight == 1)
            served.server.stop()
            assert served.ask("GET", "/health").status == 200
            assert served.ask("GET", "/ready").status == 503
            reply = served.post(input="b")
            assert (reply.status, reply.error["code"]) == (503, "stopping")
            assert "retry-after" in reply.headers


def test_every_response_has_a_number_of_its_own(folder):
    with running(folder) as served:
        paths = ("/health", "/v1/models", "/nothing")
        numbers = {served.ask("GET", path).headers["x-request-id"] for path in paths}
    assert len(numbers) == 3


def test_a_server_is_live_while_it_tokenizes(folder, monkeypatch):
    with running(folder) as served, ThreadPoolExecutor(1) as pool:
        tokenizer, begun, go_on = served.runtime._tokenizer, threading.Event(), threading.Event()
        encode = tokenizer.encode

        def slow(*args, **options):
            begun.set()
            assert go_on.wait(WAIT_SECONDS)
            return encode(*args, **options)

        monkeypatch.setattr(tokenizer, "encode", slow)
        reply = pool.submit(served.post, input="good")
        assert begun.wait(WAIT_SECONDS)
        assert served.ask("GET", "/health").status == 200
        assert not reply.done()
        go_on.set()
        assert reply.result(WAIT_SECONDS).status == 200
