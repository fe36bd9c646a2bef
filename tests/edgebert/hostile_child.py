"""The process that may crash: loads one mutated bundle after the other, and says how each ended."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from edgebert import Runtime
from edgebert.errors import EdgeBertError
from edgebert.formats.manifest import FileRecord
from tests.edgebert.hostile import LIMIT_MB, MARK
from tests.edgebert.mutations import mutate


def say(**what: object) -> None:
    print(f"\n{MARK}{json.dumps(what)}", flush=True)


def rehash(bundle: Path, file: str) -> None:
    """Write the file's own size and hash into the manifest."""
    path = bundle / "edgebert.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    own = vars(FileRecord.of(bundle, file))
    for holder in (data, *data["artifacts"]):
        holder["files"] = [own if item["path"] == file else item for item in holder["files"]]
    path.write_text(json.dumps(data), encoding="utf-8")


def precision_of(bundle: Path, backend: str, file: str) -> str:
    data = json.loads((bundle / "edgebert.json").read_text(encoding="utf-8"))
    own = [item for item in data["artifacts"] if item["backend"] == backend]
    holds = [item for item in own if file in [record["path"] for record in item["files"]]]
    return str((holds or own)[0]["precision"])


def load(bundle: Path, backend: str, precision: str) -> str:
    """Load and run it once; say how that ended."""
    try:
        with Runtime(bundle, backend, precision, threads=1, self_test="always") as runtime:
            runtime.run(runtime.tokenize(["good film", ""]))
    except EdgeBertError as error:
        return type(error).__name__
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"NOT OURS: {type(error).__name__}"
    return "opened"


def peak_mb() -> int:
    """Read the most memory held since the last call; 0 where the system doesn't tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        return 0
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) // 1024


def main() -> None:
    bundle, backend, file = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if os.name != "nt":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_MB << 20, LIMIT_MB << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    content = (bundle / file).read_bytes()
    precision = precision_of(bundle, backend, file)
    with Runtime(bundle, backend, precision, threads=1) as runtime:
        say(engine=runtime.info.engine)  # and all imports are done
    peak_mb()
    before = peak_mb()
    for seed in range(int(sys.argv[4]), int(sys.argv[5])):
        (bundle / file).write_bytes(mutate(file, content, seed))
        rehash(bundle, file)
        outcome = load(bundle, backend, precision)
        say(outcome=outcome, memory_mb=peak_mb() - before)


if __name__ == "__main__":
    main()
