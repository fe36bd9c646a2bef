"""What each task makes of a model's outputs, and its methods of `Runtime`."""
