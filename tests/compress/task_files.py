"""Files of tasks, made by hand, and how a step reads them."""

from __future__ import annotations

import json

from compress.data.load import load_data, load_split
from compress.settings import DataConfig


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_rows(path, *rows):
    return write(path, *(json.dumps(row) for row in rows))


def load(task, path, **settings):
    return load_data(DataConfig(task=task, train_file=path, **settings), task=task, seed=0)


def read(task, path, *, labels=(), name="dev", **settings):
    config = DataConfig(task=task, train_file=path, **settings)
    return load_split(config, path, task=task, labels=labels, name=name)
