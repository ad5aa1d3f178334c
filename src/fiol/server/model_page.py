"""What there is to know about one model: recipe, columns, weights and importances by name."""

from __future__ import annotations

from typing import Any

from fiol.persistence.component_json import to_json
from fiol.server.served_model import ServedModel
from fiol.server.weight_changes import weights_by_name
from fiol.training.metrics import finite_or_none


def model_page(served: ServedModel, most: int) -> dict[str, Any]:
    """Return the description of a model, with the `most` largest weights and importances."""
    reader, model = served.reader, served.model
    weights = weights_by_name(reader.snapshot, most)
    try:
        importances = model.importances(most)
    except (TypeError, ValueError):  # a model that is not linear, or of hashed features
        importances = {}
    columns, target = model.columns, getattr(model.reading, "target", None)
    return {
        "name": served.name,
        "shadow_of": served.shadow_of,
        "source": served.source,
        "round": reader.rounds,
        "position": reader.position,
        "labels": reader.labels,
        "target": target,
        "columns": None if columns is None else list(columns),
        "update": model.update.brief(),
        "recipe": to_json(model.update),
        "features": reader.snapshot.n_features,
        "intercept": numbers(reader.snapshot.intercept),
        "weights": [{"name": str(name), "weight": finite_or_none(weight)} for name, weight in weights.items()],
        "importances": [{"name": str(name), "importance": finite_or_none(float(x))} for name, x in importances.items()],
        "rules": served.rules,
    }


def numbers(value: Any) -> Any:
    """Return a number, or a list of them, without numpy's types."""
    return [finite_or_none(float(one)) for one in value] if hasattr(value, "__len__") else finite_or_none(float(value))
