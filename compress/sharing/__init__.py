"""Layers that share weights and embeddings in two factors: a BERT's weights in an ALBERT."""
