"""Texts and labels of a run: read, checked, split and encoded."""
