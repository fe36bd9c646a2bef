"""The commands of ``edgebert``, one module each, imported when it is called.

A command module has ``add_arguments(parser)`` and ``run(args) -> int``, the exit code. It prints
its result to stdout and nothing else.
"""

from __future__ import annotations

# name (also the module's, with _ for -) -> what `edgebert --help` says of it
COMMANDS: dict[str, str] = {
    "info": "say what a bundle holds and what would run here",
    "verify": "check a bundle's hashes and reproduce its golden outputs on this machine",
    "classify": "label texts",
    "score": "give texts, or pairs of them, a number",
    "tag": "find the entities of texts",
    "answer": "answer questions, each from its context",
    "choose": "choose the text that fits a prompt best",
    "fill-mask": "find the tokens that fit in the place of a mask",
    "encode": "turn texts into vectors",
    "extract": "store the vectors of texts, each row exactly once",
    "search": "find what a store has that is most like a text",
    "serve": "answer over HTTP, in the shape of OpenAI's API",
    "bench": "time every artifact of a bundle on this machine",
    "backends": "list the engines and whether they are installed",
    "doctor": "say what this device has, what of a bundle it takes, and why not the others",
    "slim": "copy only what one device needs of a bundle",
    "export-app": "write the files and sample code of an app without Python: Android, iOS, web, C",
    "pull": "download a bundle from the model hub, whole and checked, or not at all",
}
