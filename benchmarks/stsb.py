"""A sentence embedder of three layers, from the plain texts of the train splits, scored on STS-B.

The texts are STS-B's train sentences, SST-2's and WikiANN's, without labels.

python benchmarks/stsb.py
"""

from common import BUILD, save, shared, step, summary

STSB, BUNDLE, TEXTS = shared("stsb"), BUILD / "stsb", BUILD / "plain-texts.txt"


def plain_texts() -> list[str]:
    """Collect the sentences of three train splits, each once, in a fixed order."""
    texts: list[str] = []
    for line in (STSB / "sts-train.tsv").read_text(encoding="utf-8").splitlines():
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
    return list(dict.fromkeys(text.strip() for text in texts if text.strip()))


BUILD.mkdir(parents=True, exist_ok=True)
TEXTS.write_text("\n".join(plain_texts()) + "\n", encoding="utf-8")
run = step(
    "distill",
    *("--teacher", "minilm", "--task", "feature-extraction", "--student", "minilm-3l-384d"),
    *("--num-train-epochs", "2"),
    *("--train-file", str(TEXTS)),
    *("--dev-file", str(STSB / "sts-dev.tsv"), "--test-file", str(STSB / "sts-test.tsv")),
    *("--text-column", "5", "--text-pair-column", "6", "--label-column", "4"),
    *("--output-dir", str(BUNDLE), "--overwrite-output-dir"),
)
save("stsb", run | summary(BUNDLE))
