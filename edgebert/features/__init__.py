"""Offline features: texts through a bundle into a vector store, each row exactly once."""
