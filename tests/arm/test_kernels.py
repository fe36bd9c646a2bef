"""Each core runs its own INT8 instructions: what qemu ran, read off its log."""

from __future__ import annotations

import pytest

from tests.arm.kernels import name_of
from tests.arm.machines import MACHINES

pytestmark = pytest.mark.arm

PLACES = [(machine.name, backend) for machine in MACHINES.values() for backend in machine.kernels]
NEWER = {  # than the core: it would die of them
    "cortex-a53": {"sdot", "udot", "smmla", "ummla"},
    "cortex-a76": {"smmla", "ummla"},
    "i8mm": set(),
}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (0x4E809400, "sdot"),  # sdot v0.4s, v0.16b, v0.16b
        (0x4F80E000, "sdot"),  # sdot v0.4s, v0.16b, v0.4b[0]
        (0x4FA0E800, "sdot"),  # sdot v0.4s, v0.16b, v0.4b[3]
        (0x6E829420, "udot"),  # udot v0.4s, v1.16b, v2.16b
        (0x4E82A420, "smmla"),  # smmla v0.4s, v1.16b, v2.16b
        (0x6E82A420, "ummla"),  # ummla v0.4s, v1.16b, v2.16b
        (0x0E22C020, "smull"),  # smull v0.8h, v1.8b, v2.8b
        (0x4E22C020, "smull"),  # smull2 v0.8h, v1.16b, v2.16b
        (0x0E228020, "smull"),  # smlal v0.8h, v1.8b, v2.8b
        (0x0F622020, "smlal"),  # smlal v0.4s, v1.4h, v2.h[2]
        (0x0E62C020, None),  # smull v0.4s, v1.4h, v2.4h: no bytes
        (0x4E20D400, None),  # fadd v0.4s, v0.4s, v0.4s
        (0xD503201F, None),  # nop
    ],
)
def test_an_instruction_is_known_by_its_encoding(word, name):
    assert name_of(word) == name


@pytest.mark.parametrize(("core", "backend"), PLACES)
def test_int8_runs_the_instruction_of_its_core(said, core, backend):
    kernels = said(core, backend)["int8"]["kernels"]
    assert kernels[MACHINES[core].kernels[backend]] > 0
    assert not NEWER[core] & set(kernels)


@pytest.mark.parametrize(("core", "backend"), PLACES)
def test_fp32_runs_none_of_them(said, core, backend):
    assert not said(core, backend)["fp32"]["kernels"]
