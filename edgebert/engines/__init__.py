"""An artifact opened, tested, timed and run in batches."""
