"""What to type to install an engine on a platform."""

import pytest

from edgebert.bundles.wheels import Platform, install_line


def on(machine, python=(3, 11), **more):
    return Platform(**{"system": "Linux", "machine": machine, "python": python, **more})


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("backend", ["onnx", "openvino", "tflite"])
def test_64_bit_linux_takes_the_extra(machine, backend):
    assert install_line(backend, on(machine)) == f"pip install 'edgebert[{backend}]'"


def test_32_bit_pi_os_takes_tflite_runtime_and_the_numpy_of_debian():
    line = install_line("tflite", on("armv7l", bits=32))
    assert "python3-numpy" in line
    assert "--no-deps edgebert tokenizers tflite-runtime" in line


def test_a_32_bit_python_on_a_64_bit_kernel_is_32_bit():
    line = install_line("tflite", on("aarch64", bits=32))
    assert "tflite-runtime" in line


def test_on_debian_13_the_engine_is_its_own_onnx_runtime():
    here = on("armv7l", (3, 13), bits=32)
    assert "python3-onnxruntime" in install_line("onnx", here)
    assert install_line("tflite", here).startswith("none:")


@pytest.mark.parametrize(
    ("here", "backend", "reason"),
    [
        (on("armv6l", bits=32), "tflite", "ARMv6"),
        (on("armv7l", bits=32), "openvino", "32-bit ARM"),
        (on("i686", bits=32), "onnx", "32-bit x86"),
        (on("x86_64", glibc=False), "onnx", "musl"),
        (on("x86_64", system="Darwin"), "tflite", "Intel Macs"),
    ],
)
def test_where_there_is_no_wheel_the_reason_is_given(here, backend, reason):
    line = install_line(backend, here)
    assert line.startswith("none: ")
    assert reason in line


def test_this_process_is_described():
    here = Platform.here()
    assert here.bits in (32, 64)
    assert here.python >= (3, 10)
