"""A model as an ONNX graph, with its labels: what `fiol.onnx.to_onnx` does for estimators and numbered learners.

The graph takes a matrix `X` with a column per feature, in the order of the model's; what features are called stands in
the model's metadata as JSON (`features`), and so does the coding of columns (`coding`), which a graph cannot do: texts,
dates and holes have to be features before. Of two classes and of several it gives `label` and `probabilities` (or
`scores`), of numbers `variable`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fiol.exports.linear import NoExportError, linear_model
from fiol.integrations.onnx import Graph, add_classes, add_mean, name_of_dtype


def onnx_model(learner: Any, dtype: Any = "float64") -> Any:
    """The `onnx.ModelProto`; needs onnx, the extra `fiol[onnx]`.

    >>> from fiol import FIOL, Learner, Logistic
    >>> learner = Learner(FIOL(Logistic()), compiled=False)
    >>> learner.meta["labels"] = ["no", "yes"]
    >>> score = learner.learn_named({"age": 2.0}, y=1.0)
    >>> model = onnx_model(learner)
    >>> [out.name for out in model.graph.output], model.metadata_props[0].value
    (['label', 'probabilities'], '["age"]')
    """
    model = linear_model(learner)
    if model.hashing is not None:
        raise NoExportError("a graph takes a matrix, and has no hash of names: export to python")
    graph = Graph(name_of_dtype(dtype))
    graph.input("X", model.weights.shape[1])
    graph.node("MatMul", ["X", graph.constant("weights", model.weights.T)], "products")
    scores = graph.node("Add", ["products", graph.constant("intercepts", model.intercepts)], "scores")
    if model.labels is not None:
        add_classes(graph, scores, labels_as_array(model.labels), model.loss, len(model.intercepts))
    else:
        graph.output(graph.rename(add_mean(graph, scores, model.loss), "variable"), 1)
    made = graph.model()
    told = {"features": model.names, "coding": None if model.coding is None else model.coding.to_json()}
    for key, value in told.items():
        if value is not None:
            made.metadata_props.add(key=key, value=json.dumps(value, ensure_ascii=False))
    return made


def labels_as_array(labels: list[Any]) -> Any:
    """Labels as the graph gives them: whole numbers, truth values, or texts for all others."""
    kinds = {type(label) for label in labels}
    if kinds == {int} or kinds == {bool} or kinds == {float}:
        return np.array(labels)
    return np.array([str(label) for label in labels], object)
