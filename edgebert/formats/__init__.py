"""What files say: the manifest, a checkpoint's settings, an ONNX graph's outline."""
