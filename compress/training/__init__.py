"""One loop for every step that trains, and what a teacher learns from."""
