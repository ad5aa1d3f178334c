"""Models as others read them: JSON, SQL, Python, scikit-learn, ONNX, Vowpal Wabbit's text. One file a format."""
