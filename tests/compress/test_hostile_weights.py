"""Checkpoints of strangers: a header of safetensors that lies, an index that leads elsewhere."""

import json
import struct

import pytest
from safetensors.torch import load_file

from compress.models.files import check_checkpoint, check_safetensors
from edgebert.errors import ModelError
from tests.edgebert.mutations import mutate
from tests.tiny import write_encoder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    write_encoder(folder)
    return folder


def attack(checkpoint, target, *, times):
    content = (checkpoint / "model.safetensors").read_bytes()
    refused = 0
    for seed in range(times):
        target.write_bytes(mutate("model.safetensors", content, seed))
        try:
            check_safetensors(target)
        except ModelError:
            refused += 1
        else:
            load_file(target)  # what passes the check can be read
    assert refused > times / 2


def test_a_changed_header_is_refused_or_can_be_read(checkpoint, tmp_path):
    attack(checkpoint, tmp_path / "model.safetensors", times=1000)


def test_a_header_of_gigabytes_is_not_read(tmp_path):
    with (tmp_path / "model.safetensors").open("wb") as stream:
        stream.write(struct.pack("<Q", 4 << 30))
        stream.truncate(5 << 30)  # of which nothing is on the disk
    with pytest.raises(ModelError, match="its header has 4294967296 bytes"):
        check_safetensors(tmp_path / "model.safetensors")


@pytest.mark.parametrize("shard", ["../model.safetensors", "/etc/passwd", 5, None, ["a"]])
def test_an_index_that_leads_out_of_its_folder_is_refused(tmp_path, shard):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    index = {"weight_map": {"a": shard}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"index\.json"):
        check_checkpoint(tmp_path)
