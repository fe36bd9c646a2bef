"""Layers that share weights, embeddings in two factors: a BERT as an ALBERT, or sharing a part."""
