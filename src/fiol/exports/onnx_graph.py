"""Models as ONNX graphs, for scoring wherever there is an ONNX runtime. Needs onnx, the extra `fiol[onnx]`.

The graph takes a matrix `X` with a column per feature, in the model's order. Names of features are in the metadata of
the graph as JSON (`features`), and so is the table encoding (`coding`), which a graph cannot apply: text, dates and
missing values must be features before.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fiol.components.scalars import LOG_HUGE
from fiol.exports.linear import ExportedModel, NoExportError, linear_model, two_or_more_labels
from fiol.exports.onnx_basis import add_basis
from fiol.features.labels import label_array

#: Operators as of ONNX 1.8, which every runtime of the last years has.
OPSET, IR_VERSION = 13, 8


def to_onnx(model: Any, dtype: Any = "float64") -> Any:
    """Return the `onnx.ModelProto` that predicts what a model predicts.

    Parameters
    ----------
    model : a `Learner`, a `OneVsRest`, or a fitted `FIOLClassifier`, `FIOLRegressor`, `PassiveAggressiveClassifier` or
        `PassiveAggressiveRegressor`. Of a pipeline, convert the last step.
    dtype : of the rows and of all arithmetic, by name or a numpy dtype. "float64" gives the model's predictions up to
        rounding (1e-12); "float32" up to about 1e-6 of the size of the terms of a score.

    Returns
    -------
    A graph with the outputs `label` and `probability` (rows, classes), if there are any, or `prediction` (rows, 1)
    where numbers are predicted; and `score` (rows, scores).

    Examples
    --------
    >>> from fiol import FIOLRegressor
    >>> from fiol.onnx import to_onnx
    >>> model = FIOLRegressor(max_iter=1, shuffle=False).fit([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0])
    >>> graph = to_onnx(model).graph
    >>> [node.op_type for node in graph.node], [out.name for out in graph.output]
    (['MatMul', 'Add', 'Identity', 'Identity'], ['prediction', 'score'])
    """
    number = name_of_dtype(dtype)
    linear = linear_model(model, complete=False)  # rows are those of its features
    if linear.hashing is not None:
        raise NoExportError("a graph takes a matrix of numbered features and cannot hash names: export to python")
    graph = Graph(number)
    graph.input("X", linear.weights.shape[1])
    graph.node("MatMul", ["X", graph.constant("weights", linear.weights.T)], "products")
    scores = graph.node("Add", ["products", graph.constant("intercepts", linear.intercepts)], "linear_score")
    if linear.basis is not None:
        scores = add_basis(graph, scores, linear)
    scores = graph.node("Identity", [scores], "score")
    if linear.labels is not None:
        add_classes(graph, scores, linear)
    else:
        graph.output(graph.node("Identity", [add_mean(graph, scores, linear)], "prediction"), 1)
    graph.output(scores, len(linear.intercepts))
    made = graph.model()
    metadata = {
        "features": linear.names,
        "coding": None if linear.table_encoding is None else linear.table_encoding.to_json(),
    }
    for key, value in metadata.items():
        if value is not None:
            made.metadata_props.add(key=key, value=json.dumps(value, ensure_ascii=False))
    return made


def name_of_dtype(dtype: Any) -> str:
    """Return "float64" or "float32"; ValueError for all others.

    >>> name_of_dtype("f4"), name_of_dtype(np.float64)
    ('float32', 'float64')
    """
    try:
        name = "" if dtype is None else np.dtype(dtype).name  # None would be float64
    except TypeError:
        name = ""
    if name in ("float64", "float32"):
        return name
    raise ValueError(f'dtype must be "float64" or "float32", got {dtype!r}')


def labels_as_array(labels: list[Any]) -> Any:
    """Return labels as the graph outputs them: whole numbers of 64 bits, booleans, or text for all others.

    >>> labels_as_array([1, 2**63]), labels_as_array([True, False])
    (array(['1', '9223372036854775808'], dtype=object), array([ True, False]))
    """
    found = label_array(labels)
    if found.dtype.kind in "bif":
        return found
    return np.array([str(label) for label in labels], object)


def add_mean(graph: Graph, scores: str, model: ExportedModel) -> str:
    """Add the nodes that turn scores into predictions, as `Loss.predict` does; return the name of the result."""
    if model.link_factor != 1.0:
        scores = graph.node("Mul", [scores, graph.constant("factor", np.array(model.link_factor))], "scaled")
    if model.link == "logit":
        return graph.node("Sigmoid", [scores], "mean")
    if model.link == "log":
        limit = LOG_HUGE if graph.dtype == np.float64 else 88.0  # the largest that has an exponential
        return graph.node(
            "Exp", [graph.node("Min", [scores, graph.constant("limit", np.array(limit))], "below")], "mean"
        )
    if model.link == "sign":
        below = graph.node("Less", [scores, graph.constant("zero", np.array(0.0))], "below")
        signs = [graph.constant("minus", np.array(-1.0)), graph.constant("plus", np.array(1.0))]
        return graph.node("Where", [below, *signs], "mean")
    return scores


def add_classes(graph: Graph, scores: str, model: ExportedModel) -> None:
    """Add the outputs of a classifier: one score separates two classes, otherwise the highest score wins."""
    labels, columns = two_or_more_labels(model), len(model.intercepts)
    if columns == 1:
        positive = graph.node("Greater", [scores, graph.constant("zero", np.array(0.0))], "positive")
        code = graph.node("Cast", [positive], "code_column", to=7)
        code = graph.node("Squeeze", [code, graph.constant("columns", np.array([1]))], "code")
    else:
        code = graph.node("ArgMax", [scores], "code", axis=1, keepdims=0)
    graph.output(graph.node("Gather", [graph.constant("classes", labels_as_array(labels)), code], "label"), None)
    if model.probability is None:
        return
    if model.probability == "softmax":
        graph.node("Softmax", [scores], "probability", axis=1)
    elif model.probability == "sigmoid":
        p = add_mean(graph, scores, model)
        rest = graph.node("Sub", [graph.constant("one", np.array(1.0)), p], "rest")
        graph.node("Concat", [rest, p], "probability", axis=1)
    else:
        p = add_mean(graph, scores, model)
        mass = graph.node("ReduceSum", [p, graph.constant("columns", np.array([1]))], "mass", keepdims=1)
        some = graph.node("Greater", [mass, graph.constant("zero", np.array(0.0))], "some")
        safe = graph.node("Where", [some, mass, graph.constant("one", np.array(1.0))], "divisor")
        share = graph.node("Div", [p, safe], "share")
        even = graph.constant("even", np.array(1.0 / columns))
        graph.node("Where", [some, share, even], "probability")
    graph.output("probability", len(labels))


class Graph:
    """An ONNX graph under construction: nodes, constants, inputs and outputs, by name."""

    def __init__(self, dtype: str) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ImportError("fiol.onnx needs onnx: pip install fiol[onnx]") from error
        self.onnx, self.dtype = onnx, np.dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.labels: int = onnx.TensorProto.INT64

    def constant(self, name: str, values: Any) -> str:
        """Add an array as a constant and return its name; floats are cast to the dtype of the graph, labels are not."""
        if values.dtype.kind == "f" and name != "classes":
            values = np.ascontiguousarray(values, self.dtype)
        elif values.dtype.kind in "iu":
            values = values.astype(np.int64)
        if values.dtype.kind in "fib":
            tensor = self.onnx.numpy_helper.from_array(values, name)
        else:
            strings: Any = [str(label).encode() for label in values.tolist()]
            tensor = self.onnx.helper.make_tensor(name, self.onnx.TensorProto.STRING, values.shape, strings)
        if name == "classes":
            self.labels = tensor.data_type
        self.constants[name] = tensor
        return name

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add an operator and return the name of its result."""
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def matrix(self, name: str, columns: int) -> Any:
        """Return the description of a matrix of numbers."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        return self.onnx.helper.make_tensor_value_info(name, kind, [None, columns])

    def input(self, name: str, columns: int) -> None:
        """Add an input, a matrix."""
        self.inputs.append(self.matrix(name, columns))

    def output(self, name: str, columns: int | None) -> None:
        """Add an output: a matrix with this number of columns, or, with None, the labels."""
        if columns is None:
            self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.labels, [None]))
        else:
            self.outputs.append(self.matrix(name, columns))

    def model(self) -> Any:
        """Return the graph, checked."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, "fiol", self.inputs, self.outputs, list(self.constants.values()))
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, producer_name="fiol", ir_version=IR_VERSION)
        self.onnx.checker.check_model(model, full_check=True)
        return model
