"""What a model says of a split, and the field's metrics of it."""
