"""Fitted models as ONNX graphs: `to_onnx` (extra `onnx`)."""

from fiol.integrations.onnx import to_onnx

__all__ = ["to_onnx"]
