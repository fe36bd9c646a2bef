"""The public data sets as files with train, dev and test, split as the data's README says.

What is written goes to build/benchmarks/data; nothing of the data is kept in the project.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import BUILD, SHARED, shared

DATA = BUILD / "data"


@dataclass(frozen=True)
class TaskFiles:
    """One task on real data.

    Attributes:
        name: Of the run, like ``qa-en``.
        task: A task of the toolchain.
        teacher: Alias or directory.
        flags: Where the files and their columns are.
        length: Longest input in tokens.
        student: Its architecture.
    """

    name: str
    task: str
    teacher: str
    flags: tuple[str, ...]
    length: int
    student: str = "minilm-3l-384d"


def all_tasks() -> list[TaskFiles]:
    """List the runs: seven tasks, with question answering and classification in Chinese too."""
    minilm, chinese = "minilm", str(SHARED / "models" / "e5-small-zh-en")
    stsb = ("--text-column", "5", "--text-pair-column", "6", "--label-column", "4")
    return [
        TaskFiles("sentiment-en", "text-classification", minilm, _files("sst2", "tsv"), 64),
        TaskFiles("similarity", "regression", minilm, (*_stsb(), *stsb), 96),
        TaskFiles("entities", "token-classification", minilm, _files("wnut17", "conll"), 128),
        TaskFiles("answers-en", "question-answering", minilm, _given(xquad("en")), 256),
        TaskFiles("answers-zh", "question-answering", chinese, _given(cmrc()), 384),
        TaskFiles("choices", "multiple-choice", minilm, _given(choices()), 64),
        TaskFiles("masks", "fill-mask", minilm, _given(sentences()), 64),
        TaskFiles("vectors", "feature-extraction", minilm, (*_given(vectors()), *stsb), 96),
        TaskFiles("sentiment-zh", "text-classification", chinese, _given(reviews()), 160),
    ]


def xquad(language: str) -> dict[str, Path]:
    """Split XQuAD by article in file order: the last 8 are test, the 4 before them dev."""
    articles = _articles(shared("xquad") / f"xquad.{language}.json")
    parts = {"train": articles[:-12], "dev": articles[-12:-8], "test": articles[-8:]}
    return {name: _write_squad(f"xquad-{language}-{name}", part) for name, part in parts.items()}


def cmrc() -> dict[str, Path]:
    """Train on trial and 70 % of dev's articles, dev is the next 10 %, test the last 20 %."""
    articles = _articles(shared("cmrc2018") / "dev.json")
    trial = _articles(shared("cmrc2018") / "trial.json")
    first, second = round(0.7 * len(articles)), round(0.8 * len(articles))
    parts = {
        "train": trial + articles[:first],
        "dev": articles[first:second],
        "test": articles[second:],
    }
    return {name: _write_squad(f"cmrc-{name}", part) for name, part in parts.items()}


def choices(draws: int = 6) -> dict[str, Path]:
    """Make multiple choice of XQuAD: the answer and three others of the same article, seed 0.

    Questions to train and tune on come with other draws of wrong answers too (seeds 1, 2, …): there
    are few of them. Test has one draw.
    """
    articles = _articles(shared("xquad") / "xquad.en.json")
    rng = np.random.default_rng(0)
    rows = [_article_choices(article, rng) for article in articles]
    for seed in range(1, draws):
        rng = np.random.default_rng(seed)
        for place, article in enumerate(articles[:-8]):
            rows[place] += _article_choices(article, rng)
    parts = {"train": rows[:-12], "dev": rows[-12:-8], "test": rows[-8:]}
    return {
        name: _write_lines(f"choices-{name}", [row for article in part for row in article])
        for name, part in parts.items()
    }


def sentences() -> dict[str, Path]:
    """Take SST-2's sentences without their labels."""
    found = {}
    for name in ("train", "dev", "test"):
        rows = (shared("sst2") / f"{name}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        texts = [row.split("\t")[0].strip() for row in rows]
        found[name] = _write(f"sentences-{name}.txt", "\n".join(texts) + "\n")
    return found


def vectors() -> dict[str, Path]:
    """Take STS-B's train sentences as plain text; dev and test are its scored pairs."""
    lines = (shared("stsb") / "sts-train.tsv").read_text(encoding="utf-8").splitlines()
    texts = dict.fromkeys(text for line in lines for text in line.split("\t")[5:7])
    rows = (shared("sst2") / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts |= dict.fromkeys(row.split("\t")[0].strip() for row in rows[:20_000])
    folder = shared("stsb")
    return {
        "train": _write("vectors-train.txt", "\n".join(text for text in texts if text) + "\n"),
        "dev": folder / "sts-dev.tsv",
        "test": folder / "sts-test.tsv",
    }


def plain_texts() -> Path:
    """Collect the sentences of three train splits, each once: STS-B's, SST-2's and WikiANN's."""
    texts: list[str] = []
    for line in (shared("stsb") / "sts-train.tsv").read_text(encoding="utf-8").splitlines():
        texts += line.split("\t")[5:7]
    rows = (shared("sst2") / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts += [row.split("\t")[0] for row in rows]
    words: list[str] = []
    for line in (shared("wikiann-en") / "train.conll").read_text(encoding="utf-8").splitlines():
        if line.strip():
            words.append(line.split("\t")[0].removeprefix("en:"))
        elif words:
            texts.append(" ".join(words))
            words = []
    found = dict.fromkeys(text.strip() for text in texts if text.strip())
    return _write("plain-texts.txt", "\n".join(found) + "\n")


def reviews() -> dict[str, Path]:
    """Take ChnSentiCorp: its labelled dev is test, and a tenth of train becomes dev."""
    folder = shared("chnsenticorp")
    header, *rows = (folder / "train.tsv").read_text(encoding="utf-8").splitlines()
    drawn = np.random.default_rng(0).choice(len(rows), len(rows) // 10, replace=False)
    places = set(drawn.tolist())
    parts = {
        "train": [row for i, row in enumerate(rows) if i not in places],
        "dev": [row for i, row in enumerate(rows) if i in places],
    }
    found = {
        name: _write(f"reviews-{name}.tsv", "\n".join([header, *part]) + "\n")
        for name, part in parts.items()
    }
    return found | {"test": folder / "dev.tsv"}


def _files(name: str, suffix: str) -> tuple[str, ...]:
    folder = shared(name)
    return _given({part: folder / f"{part}.{suffix}" for part in ("train", "dev", "test")})


def _stsb() -> tuple[str, ...]:
    folder = shared("stsb")
    return _given({part: folder / f"sts-{part}.tsv" for part in ("train", "dev", "test")})


def _given(paths: dict[str, Path]) -> tuple[str, ...]:
    return tuple(flag for name, path in paths.items() for flag in (f"--{name}-file", str(path)))


def _articles(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["data"]
    return found


def _article_choices(article: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    questions = [qa for paragraph in article["paragraphs"] for qa in paragraph["qas"]]
    answers = list(dict.fromkeys(qa["answers"][0]["text"] for qa in questions))
    rows = []
    for qa in questions:
        right = qa["answers"][0]["text"]
        others = [answer for answer in answers if answer != right]
        drawn = [others[i] for i in rng.choice(len(others), 3, replace=False)]
        place = int(rng.integers(4))
        drawn.insert(place, right)
        rows.append({"prompt": qa["question"], "choices": drawn, "label": place})
    return rows


def _write_squad(name: str, articles: list[dict[str, Any]]) -> Path:
    return _write(f"{name}.json", json.dumps({"version": "1.1", "data": articles}))


def _write_lines(name: str, rows: list[dict[str, Any]]) -> Path:
    return _write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def _write(name: str, text: str) -> Path:
    DATA.mkdir(parents=True, exist_ok=True)
    path = DATA / name
    path.write_text(text, encoding="utf-8")
    return path
