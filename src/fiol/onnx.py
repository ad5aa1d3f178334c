"""`to_onnx`: models as ONNX graphs (extra `onnx`)."""

from fiol.exports.onnx_graph import to_onnx

__all__ = ["to_onnx"]
