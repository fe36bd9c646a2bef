"""Ways to spoil a run that works: each with the remedy that the command must name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compress import DistillConfig
from tests.compress.steps import flags


@dataclass
class Case:
    """One command line that can't work.

    Attributes:
        folder: To write into; ``train.tsv`` and ``teacher`` there may be spoiled.
        changes: Of the settings of a run that works.
        extra: Flags behind them.
    """

    folder: Path
    changes: dict[str, object]
    extra: tuple[str, ...] = ()

    def command(self) -> list[str]:
        return [*flags(DistillConfig(**self.changes)), *self.extra]

    def spoil_train(self, text: str | bytes, name: str = "train.tsv") -> None:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.changes |= {"train_file": path}

    def good_train(self) -> str:
        return (self.folder / "train.tsv").read_text()

    def teacher_copy(self) -> Path:
        copy = self.folder / "teacher"
        shutil.copytree(self.changes["teacher"], copy)
        self.changes["teacher"] = str(copy)
        return copy


def edit_config(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def missing_file(case):
    case.changes["train_file"] = case.folder / "nowhere.tsv"


def truncated_gzip(case):
    import gzip

    case.spoil_train(gzip.compress(case.good_train().encode())[:-20], "train.tsv.gz")


def truncated_parquet(case):
    case.spoil_train(b"PAR1" + b"\0" * 50, "train.parquet")


def wrong_column(case):
    case.extra = ("--label-column", "stars")


def number_without_header(case):
    case.extra = ("--text-column", "0", "--label-column", "1")


def unknown_ending(case):
    case.spoil_train(case.good_train(), "train.doc")


def one_class(case):
    case.spoil_train(case.good_train().replace("bad\n", "good\n"))


def empty_text(case):
    case.spoil_train(case.good_train() + "\tgood\n")


def empty_label(case):
    case.spoil_train(case.good_train() + "the film\t\n")


def wrong_column_count(case):
    case.spoil_train(case.good_train() + "the\tfilm\tgood\n")


def not_utf8(case):
    case.spoil_train(case.good_train().encode() + b"caf\xe9\tgood\n")


def no_rows(case):
    case.spoil_train("sentence\tlabel\n")


def unseen_label(case):
    path = case.folder / "dev.tsv"
    path.write_text("sentence\tlabel\nthe film\tgreat\n")
    case.changes["dev_file"] = path


def no_such_alias(case):
    case.changes["teacher"] = "bas"


def no_such_directory(case):
    case.changes["teacher"] = "./no/where"


def truncated_weights(case):
    weights = case.teacher_copy() / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


def pickled_weights(case):
    copy = case.teacher_copy()
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")


def damaged_tokenizer(case):
    path = case.teacher_copy() / "tokenizer.json"
    path.write_text(path.read_text()[:500])


def other_family(case):
    edit_config(case.teacher_copy(), model_type="gpt2")


def other_labels(case):
    edit_config(case.teacher_copy(), id2label={"0": "no", "1": "yes"})


def nameless_labels(case):
    edit_config(case.teacher_copy(), id2label={"0": "LABEL_0", "1": "LABEL_1"})


def other_heads(case):
    case.changes |= {"method": "tinybert", "student": "L=1,H=32,A=2,I=64"}


def no_such_student(case):
    case.changes["student"] = "tinybert-4l"


def wrong_layer_map(case):
    case.changes["layer_map"] = "9"


def layers_of_another_width(case):
    case.changes |= {"student": "L=1,H=16,A=4,I=32", "init": "layers"}


def beyond_the_positions(case):
    case.changes["max_length"] = 600


def output_is_a_file(case):
    (case.folder / "student").write_text("mine")


def output_below_a_file(case):
    (case.folder / "mine").write_text("mine")
    case.changes["output_dir"] = case.folder / "mine" / "student"


def output_not_empty(case):
    (case.folder / "student").mkdir()
    (case.folder / "student" / "mine.txt").write_text("mine")


def wrong_class_weight(case):
    case.changes["class_weights"] = ("great=2",)


def no_such_device(case):
    case.changes["device"] = "cuda:99"


def not_a_number(case):
    case.changes["learning_rate"] = 1e30


def no_head_for_fill_mask(case):
    case.changes["task"] = "fill-mask"


def no_pooling(case):
    case.changes["task"] = "feature-extraction"


def no_such_metric(case):
    case.changes["metric_for_best_model"] = "bleu"


CASES: dict[Callable[[Case], None], str] = {  # and the remedy that the line must hold
    missing_file: "check the path",
    truncated_gzip: "make it again",
    truncated_parquet: "train.parquet is damaged",
    wrong_column: "no column 'stars'",
    number_without_header: "columns by name: sentence, label",
    unknown_ending: "allowed: .tsv",
    one_class: "Check --label-column",
    empty_text: "train.tsv:82",
    empty_label: "train.tsv:82",
    wrong_column_count: "train.tsv:82",
    not_utf8: "train.tsv:82",
    no_rows: "has no rows",
    unseen_label: "dev.tsv:2: label 'great' is not in the train data",
    no_such_alias: "--list-teachers",
    no_such_directory: "check the path",
    truncated_weights: "get it again",
    pickled_weights: "convert it",
    damaged_tokenizer: "tokenizer.json is damaged",
    other_family: "edgebert compresses encoders of the types",
    other_labels: "--teacher-labels",
    nameless_labels: "--teacher-labels bad,good",
    other_heads: "Use the method minilm",
    no_such_student: "tinybert-4l-312d",
    wrong_layer_map: "1 to 2",
    layers_of_another_width: "Use --init auto",
    beyond_the_positions: "--max-length 512 or less",
    output_is_a_file: "give the path of a directory",
    output_below_a_file: "give a folder that can be written",
    output_not_empty: "--overwrite-output-dir",
    wrong_class_weight: "a label of bad, good",
    no_such_device: "Use cpu, cuda, mps or auto",
    not_a_number: "lower --learning-rate",
    no_head_for_fill_mask: "take a pre-trained checkpoint",
    no_pooling: "--pooling mean, cls or max",
    no_such_metric: "use one of accuracy",
}


def error_line(capsys) -> str:
    """Give the one line that a command said on stderr."""
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert "Traceback" not in captured.err
    assert len(lines) == 1, lines
    assert captured.out == ""
    return lines[0]
