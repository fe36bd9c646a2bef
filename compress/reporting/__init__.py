"""What was measured, as JSON, table and page."""
