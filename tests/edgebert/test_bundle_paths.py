"""Paths that a bundle may have, and those that mean another file somewhere."""

import pytest

from edgebert.errors import ManifestError
from edgebert.formats.paths import check_path


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "//host/x", "../x", "a/../../x", "a/..", "..", ".", "./x", "a/./x", ""),
        *("a//b", "a/", "C:/x", "c:x", "x:stream", "\\\\host\\x", "a\\b", "..\\x", "~/../x"),
        *("CON", "con.onnx", "a/NUL", "aux.txt", "COM1", "lpt9.bin", "a/conin$", "Prn.x.y"),
        *(
            "x.",
            "x ",
            " x",
            "a./b",
            "x\n",
            "x\x00",
            "a\tb",
            "x\x7f",
            "a*",
            "a?",
            "a|b",
            '"a"',
            "<a>",
        ),
        *(
            "mod\u00e8le.onnx",
            "mode\u0300le.onnx",
            "x\u202egpj",
            "\uff0e\uff0e/x",
            "a\u2215b",
            "\u017f",
        ),
        "x" * 241,
    ],
)
def test_a_path_that_leaves_the_bundle_or_means_another_file_elsewhere_is_refused(path):
    with pytest.raises(ManifestError, match="File path"):
        check_path(path)


@pytest.mark.parametrize(
    "path", ["tokenizer.json", "1_Pooling/config.json", "onnx/model.onnx", "a b/c-d_(2).v1", "con2"]
)
def test_a_plain_path_is_taken(path):
    check_path(path)
