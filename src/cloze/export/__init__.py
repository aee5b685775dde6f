"""Models in the forms that other runtimes take: ONNX."""
