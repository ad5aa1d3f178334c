"""Fitted linear models as ONNX graphs, for scoring wherever there is a runtime for them.

Needs onnx, the extra `fiol[onnx]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.components.joint_losses import JointLoss
from fiol.components.losses import Loss
from fiol.components.row import Floats
from fiol.components.scalars import LOG_HUGE
from fiol.learner import Learner

#: Operators as of ONNX 1.8, which every runtime of the last years has.
OPSET, IR_VERSION = 13, 8


def to_onnx(model: Any, dtype: Any = "float64") -> Any:
    """The `onnx.ModelProto` that predicts what a fitted model predicts.

    Parameters
    ----------
    model : a fitted `FIOLClassifier` or `FIOLRegressor`, `PassiveAggressiveClassifier` or `PassiveAggressiveRegressor`,
        or a `fiol.Learner` with numbered features; nothing else. For several classes fit a `FIOLClassifier`, whose
        graph gives labels. Of a pipeline, convert the last step.
    dtype : of the rows and of all arithmetic, by name or as numpy has it. "float64" gives the model's predictions up to
        rounding (1e-12); "float32" gives them up to some 1e-6 of the sizes of the terms of a score.

    The graph takes a matrix `X` and gives, with the names of skl2onnx: for classifiers `label`, and `probabilities`
    of shape (rows, classes) where there are any, else `scores`; for regressors and learners `variable`, (rows, 1).

    Examples
    --------
    >>> from fiol import FIOLRegressor
    >>> from fiol.onnx import to_onnx
    >>> model = FIOLRegressor(max_iter=1, shuffle=False).fit([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0])
    >>> graph = to_onnx(model).graph
    >>> [node.op_type for node in graph.node], [out.name for out in graph.output]
    (['MatMul', 'Add'], ['variable'])
    """
    number = name_of_dtype(dtype)
    w, intercepts, loss = weights_and_loss(model)
    graph = Graph(number)
    graph.input("X", w.shape[1])
    graph.node("MatMul", ["X", graph.constant("weights", w.T)], "products")
    scores = graph.node("Add", ["products", graph.constant("intercepts", intercepts)], "scores")
    if hasattr(model, "classes_"):
        add_classes(graph, scores, np.asarray(model.classes_), loss, len(intercepts))
    else:
        graph.output(graph.rename(add_mean(graph, scores, loss), "variable"), len(intercepts))
    return graph.model()


def name_of_dtype(dtype: Any) -> str:
    """ "float64" or "float32"; ValueError for all others.

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


def check_is_ours(model: Any) -> None:
    """TypeError unless a model is an estimator of fiol, and scikit-learn's NotFittedError unless that is fitted."""
    name, homes = type(model).__name__, {kind.__module__ for kind in type(model).__mro__}
    if homes & {"fiol.integrations.estimators", "fiol.integrations.passive_aggressive"}:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    elif "fiol.integrations.river" in homes:
        raise TypeError(
            f"{name} of fiol.river takes dicts, and a graph takes a matrix: fit a fiol.{name}, or convert a Learner of "
            "this one (model.learner, model.learners), whose columns are the features in the order they appeared"
        )
    elif "sklearn.pipeline" in homes:
        raise TypeError(f"{name} is no single model: convert the last step: to_onnx(pipeline[-1])")
    elif any(home.startswith("sklearn.") for home in homes):
        raise TypeError(f"{name} is no model of fiol: skl2onnx converts those of scikit-learn")
    else:
        raise TypeError(f"model must be a fitted estimator or a Learner, got {name}")


def weights_and_loss(model: Any) -> tuple[Floats, Floats, Loss | JointLoss | None]:
    """Weights, one row per score, intercepts, and the loss; TypeError if a graph cannot say what it predicts."""
    loss: Loss | JointLoss | None
    if isinstance(model, Learner):
        if not (model.core.numbered and model.update.geometry.reparametrization().is_identity):
            raise TypeError("only a learner with numbered features and a plain geometry is one matrix of weights")
        if model.classes is not None:
            raise TypeError(
                "a Learner of several classes has labels, and its graph would have none: fit a FIOLClassifier"
            )
        w, intercepts, loss = model.weights[None, :], np.array([model.intercept]), model.update.loss
    else:
        check_is_ours(model)
        if getattr(model, "_coded", False):
            raise TypeError("a graph takes a matrix, but this model makes features of texts, dates or holes itself")
        coef = model.coef_
        w = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)
        intercepts = np.atleast_1d(model.intercept_)
        loss = model._fitted_loss() if hasattr(model, "_fitted_loss") else None  # passive ones have no link
    if isinstance(loss, Loss) and not loss.says_link():
        raise TypeError(f"{type(loss).__name__} has a predict of its own, which has no graph")
    return w, intercepts, loss


def add_mean(graph: Graph, scores: str, loss: Loss | JointLoss | None) -> str:
    """Add the nodes that turn scores into predictions, as `Loss.predict` does; the name of the result."""
    if isinstance(loss, JointLoss):  # of two classes; more are no matter of single scores
        return graph.node("Sigmoid", [scores], "mean")
    link = "identity" if loss is None else loss.link
    if loss is not None and loss.link_factor != 1.0:
        scores = graph.node("Mul", [scores, graph.constant("factor", np.array(loss.link_factor))], "scaled")
    if link == "logit":
        return graph.node("Sigmoid", [scores], "mean")
    if link == "log":
        limit = LOG_HUGE if graph.dtype == np.float64 else 88.0  # the largest that has an exponential
        return graph.node(
            "Exp", [graph.node("Min", [scores, graph.constant("limit", np.array(limit))], "below")], "mean"
        )
    if link == "sign":
        above = graph.node("Less", [scores, graph.constant("zero", np.array(0.0))], "below")
        signs = [graph.constant("minus", np.array(-1.0)), graph.constant("plus", np.array(1.0))]
        return graph.node("Where", [above, *signs], "mean")
    return scores


def add_classes(graph: Graph, scores: str, classes: Any, loss: Loss | JointLoss | None, columns: int) -> None:
    """Outputs of a classifier: one score tells two classes apart, otherwise the highest wins."""
    if len(classes) == 1:
        raise TypeError("a model that knows a single class has nothing to tell apart")
    if columns == 1:
        positive = graph.node("Greater", [scores, graph.constant("zero", np.array(0.0))], "positive")
        code = graph.node("Cast", [positive], "code_column", to=7)
        code = graph.node("Squeeze", [code, graph.constant("columns", np.array([1]))], "code")
    else:
        code = graph.node("ArgMax", [scores], "code", axis=1, keepdims=0)
    graph.output(graph.node("Gather", [graph.constant("classes", classes), code], "label"), None)
    if loss is None or loss.link != "logit":
        graph.output(scores, columns)
        return
    if isinstance(loss, JointLoss) and columns > 1:
        graph.output(graph.node("Softmax", [scores], "probabilities", axis=1), columns)
        return
    p = add_mean(graph, scores, loss)
    if columns == 1:
        rest = graph.node("Sub", [graph.constant("one", np.array(1.0)), p], "rest")
        graph.node("Concat", [rest, p], "probabilities", axis=1)
    else:
        mass = graph.node("ReduceSum", [p, graph.constant("columns", np.array([1]))], "mass", keepdims=1)
        some = graph.node("Greater", [mass, graph.constant("zero", np.array(0.0))], "some")
        safe = graph.node("Where", [some, mass, graph.constant("one", np.array(1.0))], "divisor")
        share = graph.node("Div", [p, safe], "share")
        even = graph.constant("even", np.array(1.0 / columns))
        graph.node("Where", [some, share, even], "probabilities")
    graph.output("probabilities", len(classes))


class Graph:
    """An ONNX graph in the making: nodes, constants and what goes in and out, by name."""

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
        """An array as a named constant; numbers become those of the graph, labels stay what they are."""
        if values.dtype.kind == "f" and name != "classes":
            values = np.ascontiguousarray(values, self.dtype)
        elif values.dtype.kind in "iu":
            values = values.astype(np.int64)
        if values.dtype.kind in "fib":
            tensor = self.onnx.numpy_helper.from_array(values, name)
        else:
            texts: Any = [str(label).encode() for label in values.tolist()]
            tensor = self.onnx.helper.make_tensor(name, self.onnx.TensorProto.STRING, values.shape, texts)
        if name == "classes":
            self.labels = tensor.data_type
        self.constants[name] = tensor
        return name

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """One operator; the name of its result."""
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def rename(self, name: str, new: str) -> str:
        """Another name for the result of the last node."""
        last = self.nodes[-1]
        assert list(last.output) == [name]
        last.output[0] = last.name = new
        return new

    def number(self, name: str, columns: int) -> Any:
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        return self.onnx.helper.make_tensor_value_info(name, kind, [None, columns])

    def input(self, name: str, columns: int) -> None:
        """A matrix that goes in."""
        self.inputs.append(self.number(name, columns))

    def output(self, name: str, columns: int | None) -> None:
        """A matrix of so many columns that comes out, or the labels."""
        if columns is None:
            self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.labels, [None]))
        else:
            self.outputs.append(self.number(name, columns))

    def model(self) -> Any:
        """The graph, checked."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, "fiol", self.inputs, self.outputs, list(self.constants.values()))
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, producer_name="fiol", ir_version=IR_VERSION)
        self.onnx.checker.check_model(model, full_check=True)
        return model
