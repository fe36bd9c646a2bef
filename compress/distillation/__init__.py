"""What a student learns from its teacher, phase by phase."""
