"""``edgebert extract`` and ``edgebert search``: what is printed, and the exit codes."""

import json
import subprocess
import sys

import pytest

from edgebert.cli import main
from edgebert.features import open_store, search


@pytest.fixture
def edgebert(capsys):
    """Run a command in this process: its exit code, stdout and stderr."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes.jsonl"
    rows = [("a", "good film", 1999, "en"), ("b", "bad plot", 2000, "en"), ("c", "fun", 1999, "de")]
    names = ("id", "text", "year", "lang")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    path.write_text("\n".join([*lines, "{", ""]))
    return path


@pytest.fixture
def store(edgebert, embedder_dir, notes, tmp_path, caplog):
    """Extract the notes with their metadata; give the URI and what was printed as JSON."""
    uri = f"sqlite:{tmp_path / 'store.db'}"
    columns = ("--id-column", "id", "--metadata-column", "year", "--metadata-column", "lang")
    code, out, _ = edgebert("extract", embedder_dir, notes, "--to", uri, *columns, "--json")
    assert (code, json.loads(out)["added"]) == (0, 3)
    assert "notes.jsonl:4 is left out: not JSON" in caplog.text
    return uri


def test_extract_prints_what_was_done(edgebert, embedder_dir, notes, tmp_path):
    uri = f"sqlite:{tmp_path / 's.db'}"
    code, out, _ = edgebert("extract", embedder_dir, notes, "--to", uri, "--id-column", "id")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "4 rows: 3 added, 1 quarantined"
    assert lines[1] == f"3 entries put into {uri}, which holds 3"
    assert lines[-1] == f"rows that can't be used: {tmp_path / 's.db.quarantine.jsonl'}"


def test_more_bad_rows_than_allowed_end_with_1(edgebert, embedder_dir, notes, tmp_path):
    uri = f"sqlite:{tmp_path / 's.db'}"
    code, out, err = edgebert("extract", embedder_dir, notes, "--to", uri, "--max-bad", 0)
    assert (code, out) == (1, "")
    assert "more than --max-bad 0" in err


def test_a_run_of_bad_rows_alone_ends_with_1(edgebert, embedder_dir, tmp_path, caplog):
    (tmp_path / "blank.txt").write_text("\n\n")
    uri = f"sqlite:{tmp_path / 's.db'}"
    code, out, _ = edgebert("extract", embedder_dir, tmp_path / "blank.txt", "--to", uri)
    assert (code, out.splitlines()[0]) == (1, "2 rows: 2 quarantined")
    assert "no row can be used; " in caplog.text


def test_every_setting_reaches_the_store(edgebert, embedder_dir, notes, tmp_path):
    uri = f"sqlite:{tmp_path / 's.db'}"
    settings = ["--role", "none", "--dtype", "int8", "--truncate-dim", 4, "--on-long", "chunks"]
    settings += ["--max-length", 12, "--precision", "fp32", "--threads", 1]
    code, _, _ = edgebert("extract", embedder_dir, notes, "--to", uri, *settings)
    assert code == 0
    with open_store(uri, read_only=True) as store:
        found = store.identity
    assert (found.role, found.dtype, found.dim, found.long) == (None, "int8", 4, "chunks")
    assert found.max_length == 12


def test_search_prints_score_key_and_text_the_best_first(edgebert, embedder_dir, store):
    code, out, _ = edgebert("search", store, "good film", "--bundle", embedder_dir, "--k", 2)
    lines = [line.split("\t") for line in out.splitlines()]
    hits = search(store, "good film", embedder_dir, k=2)
    assert code == 0
    assert lines == [[f"{hit.score:.4f}", hit.entry.key, hit.entry.text] for hit in hits]
    assert lines[0][1:] == ["a", "good film"]


def test_search_compares_the_query_with_its_prompt_by_cosine(embedder, store):
    hits = search(store, "fun", embedder, exact=True)
    query = embedder.encode(["fun"], role="query")
    for hit in hits:
        vector = embedder.encode([hit.entry.text], role="document")
        assert hit.score == pytest.approx(float((query * vector).sum()), abs=1e-5)


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        (["lang=en"], {"a", "b"}),
        (["year:=1999"], {"a", "c"}),
        (["year=1999"], set()),  # a text, which the number isn't
        (["year:=1999", "lang=de"], {"c"}),
        (["key=b"], {"b"}),
    ],
)
def test_search_looks_among_what_the_filter_leaves(edgebert, embedder_dir, store, where, keys):
    asked = [part for one in where for part in ("--where", one)]
    _, out, _ = edgebert("search", store, "fun", "--bundle", embedder_dir, *asked, "--json")
    assert {json.loads(line)["key"] for line in out.splitlines()} == keys


def test_a_json_hit_is_the_whole_entry(edgebert, embedder_dir, store):
    _, out, _ = edgebert("search", store, "fun", "--bundle", embedder_dir, "--json", "--k", 1)
    hit = json.loads(out)
    assert set(hit) == {"score", "id", "key", "chunk", "start", "end", "text", "metadata"}
    assert hit["metadata"].keys() == {"year", "lang"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((" ",), "query is ' ', which says nothing"),
        (("a", "--where", "lang=\udcff"), "column 'lang' is not UTF-8"),
        (("a", "--where", f"year:={1 << 63}"), "more than 64 bits have room for"),
        (("a", "--where", "\udcff=a"), "a column's name is not UTF-8"),
    ],
)
def test_a_search_that_no_store_can_make_ends_with_1(
    edgebert, embedder_dir, store, arguments, said
):
    code, _, err = edgebert("search", store, *arguments, "--bundle", embedder_dir)
    assert code == 1
    assert said in err


def test_more_hits_than_any_engine_counts_are_all_that_are_there(edgebert, embedder_dir, store):
    code, out, _ = edgebert("search", store, "a", "--bundle", embedder_dir, "--k", 10**30)
    assert (code, len(out.splitlines())) == (0, 3)


def test_a_store_that_is_not_there_ends_with_1(edgebert, embedder_dir, tmp_path):
    code, _, err = edgebert("search", tmp_path / "none.db", "fun", "--bundle", embedder_dir)
    assert code == 1
    assert err.startswith("error: There is no store")


def test_vectors_of_tokens_are_not_searched_by_a_text(edgebert, embedder_dir, notes, tmp_path):
    uri = f"sqlite:{tmp_path / 's.db'}"
    edgebert("extract", embedder_dir, notes, "--to", uri, "--token-vectors")
    code, _, err = edgebert("search", uri, "fun", "--bundle", embedder_dir)
    assert code == 1
    assert "vectors of tokens" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["extract", "b", "t.txt"],
        ["extract", "b", "--to", "s.db"],
        ["extract", "b", "t.txt", "--to", "s.db", "--max-bad", "-1"],
        ["extract", "b", "t.txt", "--to", "s.db", "--on-long", "window"],
        ["search", "s.db", "q", "--bundle", "b", "--where", "x"],
        ["search", "s.db", "q", "--bundle", "b", "--where", "x:=y"],
    ],
)
def test_a_wrong_usage_ends_with_2(arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2


def test_the_public_names_load_no_store_and_no_engine():
    code = (
        "import sys, edgebert.features; edgebert.features.open_store; edgebert.features.extract\n"
        "heavy = {'pyarrow', 'apsw', 'onnxruntime', 'openvino', 'lancedb', 'ray', 'torch'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
