"""What an OpenVINO ``.xml`` declares, without OpenVINO."""

from __future__ import annotations

from pathlib import Path
from xml.parsers import expat

from edgebert.foreign.graph_ports import GraphPorts, Shape

_LAYER_DEPTH = 3  # net, layers, layer; a deeper one is part of a loop's body
_MAX_NUMBER = 32  # digits of a size; no longer text is of use here
_TYPES = {
    **{"f32": "f32", "f16": "f16", "bf16": "f16"},
    **{"i8": "i8", "u8": "i8", "i4": "i4", "u4": "i4", "nf4": "i4"},
}


def read_openvino_ports(path: Path) -> GraphPorts:
    """Read the names and shapes of a model's inputs and outputs, and its kinds of weights.

    A port of several names has an entry for each.

    Raises:
        ValueError: It is no OpenVINO model.
        OSError: It can't be read.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        with path.open("rb") as stream:
            parser.ParseFile(stream)
    except expat.ExpatError as error:
        raise ValueError(f"it is no XML ({error})") from error
    return reader.ports()


def _refuse_doctype(*_: object) -> None:
    """An engine never writes one, and its entities can fill any memory."""
    raise ValueError("it has a document type, which no OpenVINO model has")


class _Reader:
    """Collects, as the parser goes through the file."""

    def __init__(self) -> None:
        self._depth = 0
        self._layer: dict[str, str] = {}
        self._side = ""
        self._port: dict[str, str] = {}
        self._dims: list[int | None] = []
        self._text = ""
        self._inputs: dict[str, Shape] = {}
        self._results: list[tuple[str, str, Shape]] = []  # layer, names, shape
        self._port_names: dict[tuple[str, str], str] = {}
        self._sources: dict[str, tuple[str, str]] = {}  # of a layer's last input: layer, port
        self._types: set[str] = set()

    def ports(self) -> GraphPorts:
        """Put together what was found."""
        outputs: dict[str, Shape] = {}
        for layer, names, shape in self._results:
            given = names or self._port_names.get(self._sources.get(layer, ("", "")), "")
            outputs.update(dict.fromkeys(_names(given), shape))
        if not outputs:
            raise ValueError("it declares no outputs")
        return GraphPorts(self._inputs, outputs, frozenset(self._types))

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._text = ""
        if tag == "layer" and self._depth == _LAYER_DEPTH:
            self._layer = attributes
        elif tag in ("input", "output"):
            self._side = tag
        elif tag == "port":
            self._port, self._dims = attributes, []
        elif tag == "edge" and self._depth == _LAYER_DEPTH:
            source = attributes.get("from-layer", ""), attributes.get("from-port", "")
            self._sources[attributes.get("to-layer", "")] = source
        elif (
            tag == "data"
            and self._layer.get("type") == "Const"
            and "," in attributes.get("shape", "")
        ):
            self._types.add(_TYPES.get(attributes.get("element_type", ""), "other"))

    def text(self, data: str) -> None:
        if len(self._text) < _MAX_NUMBER:
            self._text += data

    def end(self, tag: str) -> None:
        if tag == "dim":
            size = int(self._text)
            self._dims.append(size if size >= 0 else None)
        elif tag == "port" and self._depth == _LAYER_DEPTH + 2:
            self._end_port()
        self._depth -= 1
        self._text = ""

    def _end_port(self) -> None:
        kind, shape = self._layer.get("type"), tuple(self._dims)
        names = self._port.get("names", "")
        if kind == "Parameter":
            self._inputs.update(dict.fromkeys(_names(names or self._layer.get("name", "")), shape))
        elif kind == "Result":
            given = self._layer.get("output_names", "")
            self._results.append((self._layer.get("id", ""), given, shape))
        elif names and self._side == "output":
            self._port_names[self._layer.get("id", ""), self._port.get("id", "")] = names


def _names(given: str) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()]
