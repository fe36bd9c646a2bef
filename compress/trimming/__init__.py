"""A vocabulary cut to what a corpus needs."""
