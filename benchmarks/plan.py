"""Machines, hours, storage and cost of very many texts, from what one machine was measured to do.

Rates, tokens and bytes come from benchmarks/results/plan_inputs.json, which --measure writes. There
is no price in it: prices are yours. --write puts the table into docs/billion-texts.md.

python benchmarks/plan.py BUNDLE --measure [--rows N]
python benchmarks/plan.py --texts 1e9 --core-hour PRICE --gb-month PRICE [--hours H] [--write]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, save

PAGE = ROOT / "docs" / "billion-texts.md"
START, END = "<!-- planned: benchmarks/plan.py -->", "<!-- /planned -->"
STORES = ("parquet", "npy", "sqlite", "lancedb", "duckdb")
DTYPES = ("float32", "float16", "int8", "binary")
_SIZED = 10_000  # rows of the stores that are sized; DuckDB's files grow by 256 KiB
_MORE = 4  # times: the second store, whose size less the first's is what rows alone take


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked for.

    Attributes:
        texts: How many there are.
        tokens: Of a text on average; None means as many as those that were measured.
        hours: In which all must be done.
        cores: Of a machine.
        core_hour: Price of a core for an hour.
        gb_month: Price of 10**9 bytes for a month.
        months: That the store is kept.
        again: The part of the work that is done twice: machines that die, blocks begun anew.
        scaling: The part of a core's rate that is left where many work.
    """

    texts: float
    tokens: float | None
    hours: float
    cores: int
    core_hour: float
    gb_month: float
    months: float
    again: float
    scaling: float


def core_hours(plan: Plan, measured: dict[str, Any]) -> float:
    """Give the hours that one core would take: texts x tokens over the tokens a core does."""
    tokens = plan.tokens or measured["tokens_per_text"]
    a_core = measured["tokens_per_s"] / measured["threads"]
    return plan.texts * tokens * (1 + plan.again) / (a_core * plan.scaling) / 3600


def table(plan: Plan, measured: dict[str, Any]) -> list[str]:
    """Show what the embedding takes, and each store's size and price."""
    hours = core_hours(plan, measured)
    machines = math.ceil(hours / (plan.hours * plan.cores))
    tokens = plan.tokens or measured["tokens_per_text"]
    lines = [
        f"{plan.texts:,.0f} texts of {tokens:.0f} tokens: **{hours:,.0f} core-hours**, "
        f"{machines:,} machines of {plan.cores} cores for {hours / machines / plan.cores:,.1f} "
        f"hours, {hours * plan.core_hour:,.0f} at {plan.core_hour:g} a core-hour. Done twice: "
        f"{plan.again:.0%}. A core among many has {plan.scaling:.0%} of its rate alone.",
        "",
        f"| store | vectors | bytes a row | all | {plan.months:g} months at {plan.gb_month:g} a "
        "GB-month | with the embedding |",
        "|---|---|---|---|---|---|",
    ]
    for store, sizes in measured["bytes_per_row"].items():
        for dtype, size in sizes.items():
            gigabytes = plan.texts * size / 1e9
            kept = gigabytes * plan.gb_month * plan.months
            lines.append(
                f"| {store} | {dtype} | {size:,.0f} | {gigabytes:,.0f} GB | {kept:,.0f} "
                f"| {kept + hours * plan.core_hour:,.0f} |"
            )
    machine = measured["machine"]
    return [
        *lines,
        "",
        f"Measured: {measured['texts_per_s']:,.0f} texts a second of "
        f"{measured['tokens_per_text']:.1f} tokens ({measured['tokens_per_s']:,.0f} tokens) by "
        f"{measured['artifact']} with "
        f"{measured['threads']} threads on {machine['cpu']}, {measured['dim']} dimensions; "
        f"rate of {measured['rows']:,} rows, sizes "
        f"of {measured['rows_sized']:,}.",
    ]


def measure(bundle: Path, rows: int) -> dict[str, Any]:
    """Embed texts into Parquet for the rate, and fill each store with each type for its size."""
    from extraction import texts

    import edgebert
    from edgebert.cpu import machine
    from edgebert.features import extract

    def some(count: int) -> Iterator[dict[str, Any]]:
        return ({"id": i, "text": text} for i, text in enumerate(made[:count]))

    made = texts(rows)
    sizes: dict[str, dict[str, float]] = {}
    with edgebert.Runtime(bundle) as runtime, tempfile.TemporaryDirectory() as place:
        runtime.encode(["warm"])
        told = extract(runtime, some(rows), f"parquet:{place}/rate", id_column="id")
        many = min(rows, _SIZED)
        few = many // _MORE
        for store in STORES:
            for dtype in DTYPES:
                held = []
                for count in (few, many):
                    folder = Path(place, f"{store}-{dtype}-{count}")
                    folder.mkdir()
                    to = f"{store}:{folder / 'store'}"
                    extract(runtime, some(count), to, id_column="id", dtype=dtype)
                    held.append(_bytes_in(folder))
                sizes.setdefault(store, {})[dtype] = (held[1] - held[0]) / (many - few)
                if held[1] <= held[0]:
                    sys.exit(f"{rows} rows are too few to size {store}; give --rows 10000.")
                print(store, dtype, f"{sizes[store][dtype]:.0f} bytes a row", file=sys.stderr)
        info = runtime.info
        dim = runtime.encode(["warm"]).shape[1]
    seconds = told.seconds["total"]
    return {
        "rows": rows,
        "rows_sized": many,
        "artifact": f"{info.backend}/{info.precision}",
        "threads": info.threads,
        "dim": int(dim),
        "texts_per_s": told.rows / seconds,
        "tokens_per_s": told.tokens / seconds,
        "tokens_per_text": told.tokens / told.rows,
        "bytes_per_row": sizes,
        "machine": machine(),
    }


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def write(lines: list[str]) -> None:
    """Put lines between the page's marks."""
    head, rest = PAGE.read_text(encoding="utf-8").split(START, 1)
    tail = rest.split(END, 1)[1]
    PAGE.write_text(f"{head}{START}\n\n" + "\n".join(lines) + f"\n\n{END}{tail}", encoding="utf-8")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle", type=Path, nargs="?")
    parser.add_argument("--measure", action="store_true", help="Measure BUNDLE on this machine")
    parser.add_argument("--rows", type=int, default=20_000, help="Texts to measure with")
    parser.add_argument("--texts", type=float, default=1e9)
    parser.add_argument("--tokens", type=float, help="Of a text; by default as measured")
    parser.add_argument("--hours", type=float, default=24.0, help="In which all must be done")
    parser.add_argument("--cores", type=int, default=16, help="Of a machine")
    parser.add_argument("--core-hour", type=float, help="Your price, in any currency")
    parser.add_argument("--gb-month", type=float, help="Your price, in the same")
    parser.add_argument("--months", type=float, default=1.0)
    parser.add_argument("--again", type=float, default=0.05, help="Part that is done twice")
    parser.add_argument("--scaling", type=float, default=1.0, help="Of a core's rate, among many")
    parser.add_argument("--write", action="store_true", help=f"Into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args(arguments)
    if args.measure and args.bundle is None:
        parser.error("--measure needs BUNDLE")
    if not args.measure and (args.core_hour is None or args.gb_month is None):
        parser.error("give your prices: --core-hour and --gb-month")
    above = (
        "texts",
        "hours",
        "cores",
        "scaling",
        *(("tokens",) if args.tokens is not None else ()),
    )
    wrong = [name for name in above if not getattr(args, name) > 0]
    wrong += [name for name in ("months", "again") if not getattr(args, name) >= 0]
    if wrong:
        parser.error(f"--{wrong[0]} is too small: {getattr(args, wrong[0])}")
    return args


def main(arguments: list[str] | None = None) -> None:
    """Measure, or plan from what was measured."""
    args = parse(arguments)
    if args.measure:
        save("plan_inputs", measure(args.bundle, args.rows))
        return
    path = RESULTS / "plan_inputs.json"
    if not path.is_file():
        sys.exit(f"{path} is missing; measure first: python benchmarks/plan.py BUNDLE --measure")
    fields = {name: getattr(args, name) for name in Plan.__dataclass_fields__}
    lines = table(Plan(**fields), json.loads(path.read_text(encoding="utf-8")))
    if args.write:
        write(lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
