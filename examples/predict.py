"""Load a bundle and classify three texts: all that an app needs, without torch.

python examples/predict.py build/demo
"""

import sys

import edgebert

TEXTS = [
    "The bank cut its prime lending rate by a quarter of a percentage point.",
    "Shareholders agreed to the merger; the buyer pays 42 dlrs for each share.",
    "Net profit of the second quarter rose to 3.1 mln dlrs, or 27 cts a share.",
]


def main() -> None:
    """Print the label and the probability of each text."""
    bundle = sys.argv[1] if len(sys.argv) > 1 else "build/demo"
    with edgebert.Runtime(bundle) as runtime:
        print(f"{runtime.info.artifact} on {runtime.info.engine}")
        for text, result in zip(TEXTS, runtime.classify(TEXTS), strict=True):
            print(f"{result.label:10} {result.score:.3f}  {text}")


if __name__ == "__main__":
    main()
