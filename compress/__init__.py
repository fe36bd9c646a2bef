"""From a full-size teacher to a verified student bundle. The only package that imports torch."""
