"""The teacher with its whole vocabulary and with smaller ones, each ready to teach."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from compress.distillation.augmentation import with_augmented
from compress.distillation.config import NO_ENSEMBLE
from compress.distillation.ensemble import Ensemble, ask_teachers
from compress.distillation.student_check import method_of
from compress.models.teachers import ResolvedTeacher
from compress.searching.config import SearchConfig
from compress.training.teacher_step import ReadyTeacher, ready_teacher
from compress.trim import RESULT_NAME, TrimConfig, trim
from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    import torch

    from compress.data.task_data import Split, TaskData

logger = logging.getLogger(__name__)

FOLDER = "vocabularies"


class Vocabularies:
    """Makes a teacher for each vocabulary on first use.

    A student has its teacher's tokenizer, so the teacher is cut, once a vocabulary. Texts whose
    pieces are all kept get the outputs that they had. For others the whole teacher knows better
    (minilm on SST-2, 2,969 tokens: 0.900 on dev, 0.943 whole), so where a task's answers can be
    averaged it teaches too, as ``distill --extra-teacher``.

    Args:
        config: The settings.
        whole: The teacher as it is.
        data: Of the task.
        work: The run's work directory.
        device: Where teachers run.

    Attributes:
        sizes: Tokens of each, rising.
        whole: The teacher as it is.
    """

    def __init__(
        self,
        config: SearchConfig,
        whole: ReadyTeacher,
        data: TaskData,
        work: Path,
        device: torch.device,
    ) -> None:
        self._config, self._data, self._work, self._device = config, data, work, device
        self.whole = whole
        self._folder = work / FOLDER
        self._directories = {int(whole.model.config.vocab_size): whole.directory}
        self._ready: dict[int, ReadyTeacher] = {}
        self._lossy: set[int] = set()
        self._ensembles: dict[int, Ensemble] = {}
        self._cut()
        self.sizes = tuple(sorted(self._directories))

    def directory(self, size: int) -> Path:
        """Give where the teacher of a vocabulary stands."""
        return self._directories[size]

    def ready(self, size: int) -> ReadyTeacher:
        """Give the teacher of a vocabulary.

        Raises:
            ModelError: With so few tokens it is no better than chance.
        """
        if size not in self._ready:
            directory = self._directories[size]
            teacher = self.whole
            if directory != self.whole.directory:
                teacher = self._load(directory)
            self._ready[size] = with_augmented(teacher, self._data, self._config)
        return self._ready[size]

    def extra_teachers(self, size: int) -> tuple[str, ...]:
        """Name who teaches beside the teacher of a vocabulary: the whole one, or nobody."""
        by_text = self._config.task not in NO_ENSEMBLE or self._embeds
        return (str(self.whole.directory),) if by_text and size in self._lossy else ()

    def teacher_weights(self, size: int) -> str:
        """Say how they teach: vectors are the whole teacher's alone."""
        return "0,1" if self._embeds and self.extra_teachers(size) else "uniform"

    @property
    def _embeds(self) -> bool:
        return self._config.task == "feature-extraction"

    def ensemble(self, size: int) -> Ensemble | None:
        """Give what several teachers say to students of a vocabulary; None where one teaches."""
        if not self.extra_teachers(size):
            return None
        if size not in self._ensembles:
            found = [
                ResolvedTeacher(requested=str(one), used=str(one), path=one, note="")
                for one in (self.directory(size), self.whole.directory)
            ]
            self._ensembles[size] = ask_teachers(
                self.ready(size),
                found,
                self._data,
                self._config,
                work=self._work / "ensembles" / f"{size}",
                device=self._device,
                shares=(0.0, 1.0) if self._embeds else None,
            )
        return self._ensembles[size]

    def cache_dir(self, size: int, layers: int) -> Path:
        """Give where this teacher's outputs are kept; students that need the same share it."""
        config = self._config
        same = method_of(config) in ("logits", "embedding") and not config.hidden_weight
        return self._work / "cache" / (f"{size}" if same else f"{size}-{layers}")

    def _load(self, directory: Path) -> ReadyTeacher:
        config, names = self._config, self._config.teacher_labels
        given = tuple(names.split(",")) if names and self.whole.phase is None else ()
        return ready_teacher(
            directory,
            self._data,
            config,
            work=self._work / "tokenizers" / directory.name,
            device=self._device,
            learning_rate=config.teacher_learning_rate,
            num_train_epochs=config.teacher_num_train_epochs,
            teacher_labels=given,
        )

    def _cut(self) -> None:
        """Cut the teacher to what the train rows use, and to what fits each size."""
        corpus = self._folder / "corpus.jsonl"
        corpus.parent.mkdir(exist_ok=True)
        corpus.write_text(
            "".join(json.dumps({"text": one}) + "\n" for one in corpus_of(self._data.train)),
            encoding="utf-8",
        )
        asked: list[int | None] = list(self._config.vocab_size)
        if asked:
            for limit in asked:
                self._add(corpus, limit)
            return
        try:
            used = self._add(corpus, None)
        except ModelError as error:  # a vocabulary of a kind that can't be cut
            logger.info("The vocabulary stays as it is: %s", error)
            return
        try:
            self._add(corpus, used // 2)
        except InputError as error:
            logger.info("No half of the used vocabulary is tried: %s", error)

    def _add(self, corpus: Path, limit: int | None) -> int:
        """Cut the teacher, if that wasn't done before; give how many tokens it has then."""
        directory = self._folder / ("used" if limit is None else f"most-{limit}")
        if not (directory / RESULT_NAME).is_file():
            trim(
                TrimConfig(
                    model=str(self.whole.directory),
                    corpus=(corpus,),
                    output_dir=directory,
                    vocab_size=limit,
                    held_out_ratio=0.0,
                    seed=self._config.seed,
                )
            )
        result = json.loads((directory / RESULT_NAME).read_text(encoding="utf-8"))
        size = int(result["after"]["vocab_size"])
        self._directories.setdefault(size, directory)
        if result["unchanged"] < 1:  # of the train texts, which it was measured on
            self._lossy.add(size)
        return size


def corpus_of(train: Split) -> list[str]:
    """List all texts of train rows: pairs and choices too."""
    texts = [*train.texts, *(train.text_pairs or [])]
    return texts + [choice for choices in train.choices or [] for choice in choices]


def like_whole(teacher: ReadyTeacher, whole: ReadyTeacher) -> ReadyTeacher:
    """Give a cut teacher the curves of the whole one's fine-tuning, for the report."""
    return dataclasses.replace(teacher, phase=whole.phase)
