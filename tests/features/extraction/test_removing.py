"""How many rows ``--update`` may remove."""

import pytest

from edgebert.cli import main
from edgebert.errors import DataError, InputError
from edgebert.features import extract

ROWS = [(f"k{i}", f"good film {'abcdefghij'[i]}") for i in range(10)]


@pytest.fixture
def stored(embedder, uri, opened, small_blocks):  # noqa: ARG001
    """Store 10 rows; give the keys that are there."""
    extract(embedder, ROWS, uri)

    def keys():
        with opened(uri) as store:
            return sorted(entry.key for entry in store.entries(list(store.ids())))

    return keys


def test_half_of_the_rows_may_go(embedder, uri, stored):
    assert extract(embedder, ROWS[:5], uri, update=True).removed == 5
    assert stored() == ["k0", "k1", "k2", "k3", "k4"]


def test_of_more_than_half_none_goes(embedder, uri, stored):
    said = "remove 6 of the 10 rows that were stored, more than --max-removed 50%.*-removed 6"
    with pytest.raises(DataError, match=said):
        extract(embedder, ROWS[:4], uri, update=True)
    assert stored() == sorted(key for key, _ in ROWS)


def test_rows_of_this_run_do_not_make_room_for_more(embedder, uri, stored):
    others = [(f"new{i}", text) for i, (_, text) in enumerate(ROWS)]  # as by another id column
    with pytest.raises(DataError, match="remove 10 of the 10 rows"):
        extract(embedder, others, uri, update=True)
    assert len(stored()) == 20


@pytest.mark.parametrize(("most", "gone"), [(3, 3), (0.3, 3), (1.0, 10), (None, 10), (0, 0)])
def test_as_many_as_are_allowed_may_go(embedder, uri, stored, most, gone):
    rows = [*ROWS[gone:], ("k10", "hello")]
    summary = extract(embedder, rows, uri, update=True, max_removed=most)
    assert (summary.removed, len(stored())) == (gone, 11 - gone)


@pytest.mark.parametrize(("most", "limit"), [(2, "2"), (0.2, "20%"), (0.0, "0%")])
def test_one_more_may_not(embedder, uri, stored, most, limit):
    with pytest.raises(DataError, match=f"remove 3 .* more than --max-removed {limit}. "):
        extract(embedder, ROWS[3:], uri, update=True, max_removed=most)
    assert len(stored()) == 10


@pytest.mark.parametrize("most", [-1, 1.5, -0.1, float("nan"), True, "50%"])
def test_what_is_no_number_and_no_share_is_refused(embedder, uri, most):
    with pytest.raises(InputError, match="max_removed is"):
        extract(embedder, ROWS, uri, max_removed=most)


@pytest.mark.parametrize(("flag", "code"), [("6", 0), ("60%", 0), ("5", 1), ("59.9%", 1)])
def test_the_command_takes_rows_or_a_share(embedder_dir, tmp_path, flag, code):
    path, uri = tmp_path / "texts.txt", f"sqlite:{tmp_path / 'store.db'}"
    arguments = ["extract", str(embedder_dir), str(path), "--to", uri]
    path.write_text("".join(f"{text}\n" for _, text in ROWS))
    assert main(arguments) == 0
    path.write_text("".join(f"{text}\n" for _, text in ROWS[:4]))
    assert main([*arguments, "--update", "--max-removed", flag]) == code


@pytest.mark.parametrize("flag", ["-1", "101%", "half", "nan%", "%"])
def test_the_command_refuses_what_is_neither(flag):
    with pytest.raises(SystemExit) as end:
        main(["extract", "b", "t.txt", "--to", "s.db", f"--max-removed={flag}"])
    assert end.value.code == 2
