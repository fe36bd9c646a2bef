from __future__ import annotations

import shutil

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

import compress.training.checkpoint
from compress.training.checkpoint import (
    Checkpoints,
    TrainingState,
    copy_weights,
    set_weights,
    weights_of,
    weights_sha256,
)
from edgebert.errors import EdgeBertError, ResumeError


def model(seed: int = 0) -> nn.ModuleDict:
    torch.manual_seed(seed)
    tied = nn.Linear(4, 3, bias=False)
    table = nn.Embedding(3, 4)
    table.weight = tied.weight
    return nn.ModuleDict({"table": table, "norm": nn.BatchNorm1d(3), "head": tied})


def trained(modules: nn.ModuleDict) -> torch.optim.AdamW:
    optimizer = torch.optim.AdamW(modules.parameters(), fused=True)
    modules["norm"](modules["head"](torch.randn(5, 4))).pow(2).sum().backward()
    optimizer.step()
    return optimizer


def test_tied_weights_are_kept_once_and_buffers_too():
    names = ["table.weight", "norm.weight", "norm.bias"]
    buffers = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert list(weights_of(model())) == names + buffers


def test_setting_copied_weights_makes_models_equal_and_keeps_ties():
    first, second = model(0), model(1)
    assert weights_sha256(first) != weights_sha256(second)
    set_weights(second, copy_weights(first))
    assert weights_sha256(first) == weights_sha256(second)
    assert second["table"].weight is second["head"].weight


def test_the_hash_sees_one_changed_bit():
    changed = model()
    before = weights_sha256(changed)
    with torch.no_grad():
        value = changed["norm"].bias[0]
        changed["norm"].bias[0] = torch.nextafter(value, torch.tensor(1.0))
    assert weights_sha256(changed) != before


def test_weights_of_another_shape_are_refused_by_name():
    with pytest.raises(ResumeError, match=r"don't fit the model: head.weight \(1 in all\)"):
        set_weights(
            nn.ModuleDict({"head": nn.Linear(4, 2, bias=False)}), {"head.weight": torch.ones(4, 4)}
        )


def test_weights_and_moments_come_back_bit_for_bit(tmp_path):
    modules, other = model(0), model(1)
    optimizer = trained(modules)
    store = Checkpoints(tmp_path, fingerprint={})
    store.save(modules, optimizer, TrainingState(step=1), None)
    fresh = torch.optim.AdamW(other.parameters(), fused=True)
    state, best = store.load(other, fresh)
    assert (state, best) == (TrainingState(step=1), None)
    assert weights_sha256(other) == weights_sha256(modules)
    for old, new in zip(modules.parameters(), other.parameters(), strict=True):
        assert optimizer.state[old].keys() == fresh.state[new].keys()
        for kind, value in optimizer.state[old].items():
            assert torch.equal(fresh.state[new][kind], value)


def test_the_newest_checkpoint_and_the_best_weights_are_all_that_is_left(tmp_path):
    modules, store = model(), Checkpoints(tmp_path, fingerprint={})
    optimizer = trained(modules)
    (tmp_path / ".last-0000001.99.part").mkdir(parents=True)  # left by a killed run
    store.save(modules, optimizer, TrainingState(step=2, best_step=1), copy_weights(modules))
    store.save(modules, optimizer, TrainingState(step=12, best_step=9), copy_weights(modules))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best-0000009", "last-0000012"]
    assert [p.name for p in (tmp_path / "best-0000009").iterdir()] == ["weights.safetensors"]


def test_a_full_disk_is_one_error_and_leaves_the_checkpoint_of_before(tmp_path, monkeypatch):
    modules, store = model(), Checkpoints(tmp_path, fingerprint={})
    optimizer = trained(modules)
    store.save(modules, optimizer, TrainingState(step=1), None)

    def fail(*_: object) -> None:
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(compress.training.checkpoint, "save_file", fail)
    with pytest.raises(EdgeBertError, match=r"No space left on device.*make room there"):
        store.save(modules, optimizer, TrainingState(step=2), None)
    assert [p.name for p in tmp_path.iterdir()] == ["last-0000001"]
    found = store.load(modules, optimizer)
    assert found is not None
    assert found[0].step == 1


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_a_cut_file_is_refused_with_its_path(tmp_path, name):
    modules, store = model(), Checkpoints(tmp_path, fingerprint={})
    optimizer = trained(modules)
    store.save(modules, optimizer, TrainingState(step=1), None)
    path = tmp_path / "last-0000001" / name
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ResumeError, match=r"last-0000001.* damaged .*Leave --resume out"):
        store.load(modules, optimizer)


def test_missing_best_weights_are_refused(tmp_path):
    modules, store = model(), Checkpoints(tmp_path, fingerprint={})
    optimizer = trained(modules)
    store.save(modules, optimizer, TrainingState(step=2, best_step=1), copy_weights(modules))
    shutil.rmtree(tmp_path / "best-0000001")
    with pytest.raises(ResumeError, match=r"best-0000001.* is missing or damaged"):
        store.load(modules, optimizer)


def test_finishing_leaves_the_final_weights_alone(tmp_path):
    modules, other, store = model(0), model(1), Checkpoints(tmp_path, fingerprint={"a": 1})
    store.save(modules, trained(modules), TrainingState(step=1), None)
    assert store.load_done(other) is None
    store.finish(modules, TrainingState(step=2))
    assert [p.name for p in tmp_path.iterdir()] == ["done"]
    assert store.load_done(other) == TrainingState(step=2)
    assert weights_sha256(other) == weights_sha256(modules)
    with pytest.raises(ResumeError, match="a was 1 and is 2"):
        Checkpoints(tmp_path, fingerprint={"a": 2}).load_done(other)
