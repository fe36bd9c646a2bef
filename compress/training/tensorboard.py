"""Send losses and scores to TensorBoard while a training runs (``--report-to tensorboard``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from edgebert.errors import InputError

if TYPE_CHECKING:
    from compress.settings import TrainingConfig


class EventWriter:
    """Writes the entries of one loop."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), flush_secs=10)

    def __call__(self, entry: Mapping[str, float]) -> None:
        """Write every number of an entry under its name, at its ``step``."""
        for name, value in entry.items():
            if name != "step":
                self._writer.add_scalar(name, value, int(entry["step"]))

    def close(self) -> None:
        """Write what is pending; without it that happens within ten seconds or at exit."""
        self._writer.close()


def event_writer(config: TrainingConfig, label: str) -> EventWriter | None:
    """Make the writer of a loop, or None when nobody asked for it.

    Events go to ``OUTPUT.runs/LABEL`` beside ``output_dir``; look at them with
    ``tensorboard --logdir OUTPUT.runs``.

    Args:
        config: ``report_to`` says whether.
        label: Of the loop, like ``teacher`` or ``prediction``.

    Raises:
        InputError: TensorBoard is not installed.
    """
    if config.report_to != "tensorboard":
        return None
    try:
        return EventWriter(config.output_dir.with_name(config.output_dir.name + ".runs") / label)
    except ImportError as error:
        raise InputError(
            "--report-to tensorboard needs the package tensorboard: pip install tensorboard"
        ) from error
