"""The library as others expect it: scikit-learn, River, ONNX."""
