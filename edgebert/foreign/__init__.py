"""Directories that other exporters wrote, with a manifest made on the fly."""
