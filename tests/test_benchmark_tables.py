"""Tables of the benchmarks on vectors into stores, and the plan of very many texts, by hand."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MACHINE = {"cpu": "CPU", "cores": 2}
MEASURED = {
    "rows": 1000,
    "rows_sized": 400,
    "artifact": "onnx/int8",
    "threads": 2,
    "dim": 384,
    "texts_per_s": 100.0,
    "tokens_per_s": 2000.0,  # 1000 a core
    "tokens_per_text": 20.0,
    "bytes_per_row": {"parquet": {"float32": 2000.0, "int8": 500.0}},
    "machine": MACHINE,
}


@pytest.fixture
def module(monkeypatch):
    """Import a benchmark as its own command would."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def plan_of(plan, **changes):
    facts = {"texts": 3.6e9, "tokens": None, "hours": 10.0, "cores": 16, "core_hour": 0.5}
    rest = {"gb_month": 0.1, "months": 2.0, "again": 0.0, "scaling": 1.0}
    return plan.Plan(**{**facts, **rest, **changes})


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_core_hours_are_tokens_over_a_cores_tokens(module):
    plan = module("plan")  # 3.6e9 texts x 20 tokens / 1000 a second / 3600 = 20,000
    assert plan.core_hours(plan_of(plan), MEASURED) == pytest.approx(20_000)


def test_longer_texts_work_done_twice_and_lost_rate_take_more_core_hours(module):
    plan = module("plan")  # 20,000 x 2 for 40 tokens x 1.1 / 0.8
    more = plan_of(plan, tokens=40.0, again=0.1, scaling=0.8)
    assert plan.core_hours(more, MEASURED) == pytest.approx(55_000)


def test_the_plan_shows_machines_hours_bytes_and_money(module):
    plan = module("plan")
    lines = plan.table(plan_of(plan), MEASURED)
    # 20,000 / (10 h x 16 cores) = 125 machines; x 0.5 = 10,000
    assert (
        "**20,000 core-hours**, 125 machines of 16 cores for 10.0 hours, 10,000 at 0.5" in lines[0]
    )
    # 3.6e9 x 2000 bytes = 7200 GB, x 0.1 x 2 months = 1440
    assert cells(lines[4]) == ["parquet", "float32", "2,000", "7,200 GB", "1,440", "11,440"]
    assert cells(lines[5]) == ["parquet", "int8", "500", "1,800 GB", "360", "10,360"]


def test_the_plan_goes_between_the_marks_of_its_page(module, tmp_path, monkeypatch):
    plan = module("plan")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{plan.START}\nold\n{plan.END}\nafter\n")
    monkeypatch.setattr(plan, "PAGE", page)
    plan.write(["new"])
    assert page.read_text() == f"before\n{plan.START}\n\nnew\n\n{plan.END}\nafter\n"


def test_the_page_has_the_marks_that_the_plan_is_written_between(module):
    plan = module("plan")
    text = plan.PAGE.read_text()
    assert (text.count(plan.START), text.count(plan.END)) == (1, 1)


def test_a_plan_without_prices_is_refused(module, capsys):
    with pytest.raises(SystemExit):
        module("plan").parse(["--texts", "1e9"])
    assert "give your prices" in capsys.readouterr().err


def test_extraction_shows_each_store_beside_encoding_and_its_memory(module):
    result = {
        "rows": 200_000,
        "encode_texts_per_s": 1000.0,
        "stores": {
            "sqlite": {
                "texts_per_s": 950.0,
                "of_encode": 0.95,
                "memory_mb": {"median": 300.4, "most": 310.0, "growth": 2.0},
            }
        },
        "recall_at_10": {"int8": 0.98, "binary": 0.7},
        "machine": MACHINE,
    }
    lines = module("feature_tables").extraction(result)
    assert cells(lines[2])[:2] == ["`Runtime.encode` alone", "1,000"]
    assert cells(lines[3]) == ["sqlite", "950", "95%", "300 MB", "310 MB", "2 MB"]
    assert lines[-1].startswith("200,000 texts; CPU, 2 cores.")
    assert lines[-1].endswith("int8 0.980, binary 0.700.")


def test_serve_shows_requests_errors_and_latency(module):
    result = {
        "artifact": "onnx/int8",
        "clients": 64,
        "seconds": 60.01,
        "requests": 12_345,
        "errors": 1,
        "mixed_up": 2,
        "latency_ms": {"p50": 80.2, "p95": 120.4, "p99": 150.0},
        "requests_per_s": 205.7,
        "server_memory_mb": 250.4,
        "encode_texts_per_s": 400.0,
        "refused": {"malformed": 400, "too_large": 413},
        "machine": MACHINE,
    }
    lines = module("feature_tables").serve(result)
    row = ["64", "12,345", "1", "2", "80 ms", "120 ms", "206", "250 MB"]
    assert cells(lines[2]) == row
    assert "Refused: malformed 400, too large 413." in lines[-1]


def test_peers_are_shown_by_store_with_the_quickest_first(module):
    def way(name, store, rate):
        facts = {"precision": "fp32", "memory_mb": 281.0, "seconds_in_all": 12.3}
        more = {"cosine_to_torch": 0.9998, "versions": {"fastembed": "0.9.1"}}
        return {"way": name, "store": store, "texts_per_s": rate, **facts, **more}

    ways = [way("fastembed_vectors", "qdrant", 150.0), way("edgebert", "qdrant", 280.0)]
    ways.append(way("sentence_transformers_lancedb", "lancedb", 1.0))
    told = {"rows": 5000, "threads": 2, "repeats": 3, "ways": ways, "machine": MACHINE}
    lines = module("feature_tables").peers_extract(told)
    assert [cells(line)[0] for line in lines[2:5]] == ["lancedb", "qdrant", "qdrant"]
    first = ["qdrant", "`edgebert extract`", "ONNX Runtime FP32", "280", "281 MB", "12.3", "0.9998"]
    assert cells(lines[3]) == first
    assert lines[-1].endswith("fastembed 0.9.1.")
