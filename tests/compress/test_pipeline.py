"""A chain of steps: checked whole before it runs, journaled, and gone on with where it ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import compress
from compress import pipeline, prune
from edgebert.errors import DataError, InputError, ResumeError
from tests.compress.steps import run_step

CHAIN = """
[defaults]
train_file = "{train}"
dev_file = "{train}"
max_length = 16
threads = 1
bf16 = false
learning_rate = 3e-3
per_device_train_batch_size = 16

[[steps]]
step = "prune"
name = "half"
model = "{teacher}"
sparsity = 0.1
units = "neurons"
importance = "magnitude"
num_train_epochs = 4

[[steps]]
step = "prune"
num_hidden_layers = 1
importance = "magnitude"
num_train_epochs = 0

[[steps]]
step = "export"
backend = ["onnx"]
"""


@pytest.fixture
def write(lab, tmp_path):
    def write(text: str = CHAIN, name: str = "chain.toml") -> Path:
        filled = text.replace("{train}", str(lab.train)).replace("{teacher}", str(lab.teacher))
        (tmp_path / name).write_text(filled)
        return tmp_path / name

    return write


def settings(recipe: Path, **changes):
    return compress.PipelineConfig(
        **{"recipe": recipe, "output_dir": recipe.parent / "out", **changes}
    )


@pytest.fixture(scope="module")
def finished(lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline")
    text = CHAIN.replace("{train}", str(lab.train)).replace("{teacher}", str(lab.teacher))
    (folder / "chain.toml").write_text(text)
    code = run_step("pipeline", str(folder / "chain.toml"), "--output-dir", str(folder / "out"))
    return folder / "out", code


def run_of(directory: Path):
    return json.loads((directory / "run.json").read_text())


def test_each_step_reads_what_the_one_before_it_wrote(finished, lab):
    out, code = finished
    assert code == 0
    assert run_of(out / "half")["model"] == str(lab.teacher)
    assert run_of(out / "02-prune")["model"] == str(out / "half")
    assert run_of(out / "03-export")["model"] == str(out / "02-prune")
    config = json.loads((out / "03-export" / "config.json").read_text())
    assert config["num_hidden_layers"] == 1
    assert config["intermediate_size"] < 64


def test_the_journal_says_what_each_step_came_to(finished):
    out, _ = finished
    steps = json.loads((out / "pipeline.json").read_text())["steps"]
    assert [one["name"] for one in steps] == ["half", "02-prune", "03-export"]
    assert [one["exit_code"] for one in steps] == [0, 0, 0]
    sizes = [(out / one["name"] / "model.safetensors").stat().st_size for one in steps]
    assert [one["weights_bytes"] for one in steps] == sizes


def test_defaults_go_to_the_steps_that_have_them(finished):
    out, _ = finished
    assert run_of(out / "02-prune")["bf16"] is False
    assert "bf16" not in run_of(out / "03-export")


def test_a_chain_that_ended_in_the_middle_goes_on_with_the_step_that_failed(write, monkeypatch):
    recipe, calls = write(), []
    whole = prune.prune

    def failing(config, **given):
        calls.append(config.output_dir.name)
        if len(calls) == 2:
            raise DataError("no more")
        return whole(config, **given)

    monkeypatch.setattr(prune, "prune", failing)
    with pytest.raises(DataError, match="no more"):
        compress.pipeline(settings(recipe))
    first = (recipe.parent / "out/half/model.safetensors").stat().st_mtime_ns
    done = compress.pipeline(settings(recipe, resume=True))
    assert calls == ["half", "02-prune", "02-prune"]
    assert [one.name for one in done] == ["half", "02-prune", "03-export"]
    assert (recipe.parent / "out/half/model.safetensors").stat().st_mtime_ns == first


def test_a_step_that_ended_just_before_the_journal_was_written_is_not_run_again(write):
    recipe = write(CHAIN.partition('[[steps]]\nstep = "export"')[0])
    compress.pipeline(settings(recipe))
    journal = recipe.parent / "out" / "pipeline.json"
    steps = json.loads(journal.read_text())["steps"]
    journal.write_text(json.dumps({"steps": steps[:1]}))
    stamp = (recipe.parent / "out/02-prune/model.safetensors").stat().st_mtime_ns
    done = compress.pipeline(settings(recipe, resume=True))
    assert len(done) == 2
    assert (recipe.parent / "out/02-prune/model.safetensors").stat().st_mtime_ns == stamp


def test_going_on_with_other_settings_is_refused_and_loses_nothing(write):
    one = CHAIN.partition('[[steps]]\nstep = "export"')[0]
    compress.pipeline(settings(write(one)))
    changed = write(one.replace("sparsity = 0.1", "sparsity = 0.3"))
    with pytest.raises(ResumeError, match="half was made by a step with other settings"):
        compress.pipeline(settings(changed, resume=True))
    with pytest.raises(ResumeError, match="has 2 finished steps"):
        compress.pipeline(
            settings(write(one.partition('[[steps]]\nstep = "prune"\nnum')[0]), resume=True)
        )
    with pytest.raises(InputError, match="is not empty"):
        compress.pipeline(settings(changed))
    assert (changed.parent / "out/02-prune/model.safetensors").is_file()


def test_the_name_of_an_earlier_step_is_its_directory(write):
    text = CHAIN.replace('step = "export"', 'step = "export"\nmodel = "@half"')
    links = pipeline.read_recipe(write(text), Path("out"))
    assert links[2].config.model == str(Path("out/half"))
    assert links[2].config.backend == ("onnx",)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[[steps]]", "[[stages]]", r"one \[\[steps\]\] or more, not \['stages'\]"),
        ('step = "prune"', 'step = "melt"', "Step 1 of the recipe is 'melt'; use one of train"),
        ('step = "export"', 'step = "evaluate"', "Step 3 of the recipe is 'evaluate'; use one of"),
        ("sparsity = 0.1", "sparsety = 0.1", r"half, has unknown settings \['sparsety'\]"),
        ("sparsity = 0.1", "sparsity = 1.5", "half, sparsity must be above 0 and below 1"),
        ("sparsity = 0.1", 'sparsity = "much"', "half, sparsity must be float or None"),
        ('model = "{teacher}"', "", "half, lacks --model"),
        ('backend = ["onnx"]', 'model = "@dense"', "'@dense' names no earlier step.*half, 02"),
        ('backend = ["onnx"]', 'name = "half"', "Two steps of the recipe have the name 'half'"),
        ('backend = ["onnx"]', 'name = "../up"', "must do as a directory's name"),
        ('backend = ["onnx"]', 'output_dir = "x"', r"\['output_dir'\], which the pipeline itself"),
        ("bf16 = false", "bf61 = false", r"No step of the recipe has the settings \['bf61'\]"),
        ("bf16 = false", "bf16 = ", "can't be read as TOML"),
    ],
)
def test_a_wrong_recipe_is_refused_before_anything_runs(write, before, after, message):
    recipe = write(CHAIN.replace(before, after))
    with pytest.raises(InputError, match=message):
        compress.pipeline(settings(recipe))
    assert not (recipe.parent / "out").exists()


def test_an_input_inside_the_output_is_not_cleared_away(write, lab, tmp_path):
    inside = tmp_path / "out" / "train.tsv"
    inside.parent.mkdir()
    inside.write_bytes(lab.train.read_bytes())
    recipe = write(CHAIN.replace('train_file = "{train}"', f'train_file = "{inside}"'))
    with pytest.raises(InputError, match=r"train_file .* of half lies in"):
        compress.pipeline(settings(recipe, overwrite_output_dir=True))
    assert inside.is_file()


def test_a_finished_chain_is_replaced_when_asked(write):
    recipe = write(CHAIN.partition('[[steps]]\nstep = "export"')[0])
    compress.pipeline(settings(recipe))
    (recipe.parent / "out" / "stray").touch()
    done = compress.pipeline(settings(recipe, overwrite_output_dir=True))
    assert len(done) == 2
    assert not (recipe.parent / "out" / "stray").exists()


def test_a_recipe_that_is_not_given_is_asked_for(capsys):
    assert run_step("pipeline") == 2
    assert "required: recipe" in capsys.readouterr().err
