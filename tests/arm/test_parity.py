"""On each ARM core a bundle says what it says on x86, or its self-test refuses it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.arm.machines import MACHINES
from tests.engines.methods import METHODS

pytestmark = pytest.mark.arm

PLACES = [
    pytest.param((machine.name, backend), marks=getattr(pytest.mark, backend))
    for machine in MACHINES.values()
    for backend in machine.backends
]
COSINE = {"fp32": 0.999999, "int8": 0.999}


def pair(said, place, precision, task):
    """Give what a machine and x86 say of one artifact."""
    name, backend = place
    old = MACHINES[name].bits == 32
    both = (said(one, backend, compatible=old) for one in (name, "x86"))
    return [one[precision]["tasks"][task] for one in both]


def cosine(found, expected):
    one, other = (np.concatenate(given) for given in (found, expected))
    return one @ other / np.sqrt((one @ one) * (other @ other))


def check_same(found, expected, name, precision):
    """Compare labels, places and texts; and numbers by their cosine, never by their bits."""
    assert found[name]["says"] == expected[name]["says"]
    given = (found[name]["numbers"], expected[name]["numbers"])
    assert cosine(*given) >= COSINE[precision]


@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_the_machine_is_an_arm_and_has_its_engine(said, place):
    found, expected = pair(said, place, "fp32", "text-classification")
    assert found["machine"] == ("aarch64" if MACHINES[place[0]].bits == 64 else "armv7l")
    assert expected["machine"] == "x86_64"
    old = "tflite-runtime 2.14.0"
    assert (found["engine"] == old) == (MACHINES[place[0]].bits == 32)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_fp32_says_the_same_as_on_x86(said, place, method):
    found, expected = pair(said, place, "fp32", METHODS[method].task)
    check_same(found, expected, method, "fp32")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_int8_says_the_same_as_on_x86(said, place, method):
    found, expected = pair(said, place, "int8", METHODS[method].task)
    if place[1] == "openvino" and "error" in found:
        # static INT8 is computed in another way on ARM; never wrong in silence is what counts
        assert found["kind"] == "SelfTestError"
        assert "take another artifact (precision='fp32')" in found["error"]
    else:
        check_same(found, expected, method, "int8")
