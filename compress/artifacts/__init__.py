"""One engine's files: exported, quantized, and judged on that engine."""
