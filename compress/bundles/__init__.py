"""One model, one verified bundle, with its report."""
