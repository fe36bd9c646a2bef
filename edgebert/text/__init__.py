"""Texts to tokens and back: ids, offsets, windows, words."""
