"""``edgebert score``, ``choose`` and ``fill-mask``."""

import json

import pytest

from edgebert.cli import main
from edgebert.runtime import Runtime
from tests.edgebert.bundles import write_bundle


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    write_bundle(folder / "scorer", task="regression", pairs=True)
    write_bundle(folder / "chooser", task="multiple-choice")
    write_bundle(folder / "masked", task="fill-mask")
    write_bundle(folder / "classifier", task="text-classification")
    return folder


def test_score_prints_a_number_and_the_pair(bundles, edgebert, stdin):
    stdin(b"good film\tdull plot\na\tb\n")
    with Runtime(bundles / "scorer") as runtime:
        expected = runtime.score([("good film", "dull plot"), ("a", "b")])
    code, out, _ = edgebert("score", bundles / "scorer", "--pairs")
    assert code == 0
    assert out.splitlines() == [
        f"{expected[0]:.4f}\tgood film\tdull plot",
        f"{expected[1]:.4f}\ta\tb",
    ]


def test_score_prints_json(bundles, edgebert):
    with Runtime(bundles / "scorer") as runtime:
        (expected,) = runtime.score([("good", "bad")]).tolist()
    _, out, _ = edgebert("score", bundles / "scorer", "--pairs", "--json", "good\tbad")
    assert json.loads(out) == {"text": "good", "text_pair": "bad", "score": expected}


def test_choose_takes_a_prompt_and_choices(bundles, edgebert):
    choices = ["dull", "very good", "film"]
    with Runtime(bundles / "chooser") as runtime:
        (expected,) = runtime.choose([("the plot", choices)])
    options = [part for choice in choices for part in ("--choice", choice)]
    code, out, _ = edgebert("choose", bundles / "chooser", "--prompt", "the plot", *options)
    assert code == 0
    assert out == f"1\t{expected.index}\t{expected.score:.4f}\t{expected.text}\n"


def test_choose_reads_json_lines_and_prints_them(bundles, edgebert, stdin):
    rows = [{"prompt": "the plot", "choices": ["a", "b"]}, {"prompt": "", "choices": ["c"]}]
    stdin("\n\n".join(map(json.dumps, rows)).encode())
    _, out, _ = edgebert("choose", bundles / "chooser", "--json")
    first, second = map(json.loads, out.splitlines())
    assert (first["prompt"], first["choices"], len(first["scores"])) == ("the plot", ["a", "b"], 2)
    assert (second["text"], second["score"], second["dropped_tokens"]) == ("c", 1.0, [0])


@pytest.mark.parametrize(
    "line",
    [
        b"[1]",
        b'{"prompt": "a"}',
        b'{"prompt": "a", "choices": []}',
        b'{"prompt": 1, "choices": ["a"]}',
    ],
)
def test_choose_names_a_line_that_is_no_question(bundles, edgebert, stdin, line):
    stdin(b'{"prompt": "a", "choices": ["b"]}\n' + line)
    code, _, err = edgebert("choose", bundles / "chooser")
    assert code == 1
    assert "stdin:2 needs" in err


@pytest.mark.parametrize("options", [["--prompt", "a"], ["--choice", "a"]])
def test_a_prompt_goes_with_choices(bundles, capsys, options):
    with pytest.raises(SystemExit) as end:
        main(["choose", str(bundles / "chooser"), *options])
    assert end.value.code == 2
    assert "give --prompt and --choice together" in capsys.readouterr().err


def test_fill_mask_prints_a_line_for_each_token(bundles, edgebert):
    texts = ["the [MASK]", "[MASK] or [MASK]"]
    with Runtime(bundles / "masked") as runtime:
        expected = runtime.fill_mask(texts, top_k=2)
    code, out, _ = edgebert("fill-mask", bundles / "masked", *texts, "--top-k", 2)
    assert code == 0
    assert out.splitlines() == [
        f"{number}\t{place}\t{one.score:.4f}\t{one.token}"
        for number, masks in enumerate(expected, start=1)
        for place, mask in enumerate(masks, start=1)
        for one in mask
    ]


def test_fill_mask_prints_json_for_each_text(bundles, edgebert, stdin):
    stdin(b"[MASK] film\n[MASK]\n")
    _, out, _ = edgebert("fill-mask", bundles / "masked", "--json", "--top-k", 1)
    first, second = map(json.loads, out.splitlines())
    assert (first["text"], len(first["masks"]), len(first["masks"][0])) == ("[MASK] film", 1, 1)
    assert set(second["masks"][0][0]) == {"token", "token_id", "score"}


def test_a_text_without_a_mask_ends_with_1_and_its_place(bundles, edgebert):
    code, out, err = edgebert("fill-mask", bundles / "masked", "film")
    assert (code, out) == (1, "")
    assert "texts[0] has no mask" in err


@pytest.mark.parametrize(
    ("command", "bundle", "text"),
    [
        ("classify", "classifier", "good " * 90),
        ("score", "scorer", "good " * 90 + "\tbad"),
        ("fill-mask", "masked", "[MASK] " + "good " * 90),
    ],
)
def test_windows_are_asked_for_with_on_long(bundles, edgebert, command, bundle, text):
    pairs = ["--pairs"] if "\t" in text else []
    call = (command, bundles / bundle, text, *pairs)
    code, out, _ = edgebert(*call, "--on-long", "window")
    assert (code, bool(out)) == (0, True)
    code, _, err = edgebert(*call, "--on-long", "error")
    assert code == 1
    assert "more than 32 tokens" in err
