"""Kill a run ten times with SIGKILL at random moments, resume it, and compare the weights.

The run has every phase: a teacher is fine-tuned, its outputs cached, a student distilled in two
phases and exported. The weights of the unbroken run and of the killed one must have one hash.

python benchmarks/kill_resume.py [SEED]
"""

import random
import shutil
import subprocess
import sys
import time

from common import BUILD, ROOT, save, shared

from edgebert.files import sha256_file

KILLS = 10
DATA = shared("sst2")
FLAGS = (
    *("--teacher", "minilm", "--student", "L=2,H=192,A=12,I=384", "--method", "tinybert"),
    *("--train-file", str(DATA / "train.tsv"), "--dev-file", str(DATA / "test.tsv")),
    *("--max-train-samples", "3000", "--save-steps", "10", "--intermediate-epochs", "1"),
    *("--num-train-epochs", "1", "--teacher-num-train-epochs", "1"),
)


def start(output: str, *more: str) -> subprocess.Popen[bytes]:
    """Start the run."""
    command = [sys.executable, "-m", "compress.distill", *FLAGS, "--output-dir", output, *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stage(output: str) -> str:
    """Name the newest thing in the work directory: where the kill came."""
    work = BUILD / f"{output.rsplit('/', 1)[-1]}.work"
    inside = sorted(work.iterdir(), key=lambda path: path.stat().st_mtime) if work.is_dir() else []
    folders = [path.name for path in inside if path.is_dir()]
    return folders[-1] if folders else "before the first checkpoint"


def main() -> None:
    """Run it unbroken, then killed."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    rng = random.Random(seed)
    unbroken, killed = str(BUILD / "unbroken"), str(BUILD / "killed")
    for output in (unbroken, killed):
        for path in (output, f"{output}.work"):
            shutil.rmtree(path, ignore_errors=True)
    began = time.monotonic()
    if start(unbroken).wait() != 0:
        sys.exit("the unbroken run failed")
    whole = time.monotonic() - began
    stages: list[str] = []
    while len(stages) < KILLS:
        run = start(killed, *(["--resume"] if stages else []))
        try:
            run.wait(timeout=rng.uniform(6.0, 6.0 + whole / 3))
            break  # it was done before the kill came
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
            stages.append(stage(killed))
            print(f"kill {len(stages)} in {stages[-1]}", file=sys.stderr, flush=True)
    if start(killed, "--resume").wait() != 0:
        sys.exit("the resumed run failed")
    hashes = [sha256_file(BUILD / name / "model.safetensors") for name in ("unbroken", "killed")]
    save(
        "kill_resume",
        {
            "command": f"python benchmarks/kill_resume.py {seed}",
            "kills": len(stages),
            "stages": stages,
            "sha256": hashes,
            "equal": hashes[0] == hashes[1],
            "unbroken_seconds": round(whole, 1),
        },
    )
    sys.exit(hashes[0] != hashes[1])


if __name__ == "__main__":
    main()
