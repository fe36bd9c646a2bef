"""A bundle on disk or on the hub, and which of its artifacts can run here."""
