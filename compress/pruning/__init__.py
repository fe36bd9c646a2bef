"""Which heads, neurons and layers of a model matter least, and the model without them."""
