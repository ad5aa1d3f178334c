"""Models in other formats: JSON, SQL, Python source, scikit-learn and ONNX; `formats` lists them."""
