"""Geometries: the Bregman divergence B(w, w_hat) that keeps the new weights near the old.

| module | contents |
|---|---|
| `geometry` | `Geometry`, the base class: the path of a row's weights, and the divergence of whole vectors |
| `separable` | `Separable`: divergences that are sums over the weights; the base class of users' own |
| `quadratic` | `Euclidean`, `DiagonalMetric`, `Mahalanobis` |
| `entropic` | `Entropy`, `SignedEntropy`, `Simplex` |
| `reparametrization` | how rows and weights are expressed in the coordinates that steps are solved in |
"""

from fiol.components.geometries.entropic import Entropy, SignedEntropy, Simplex, relative_entropy
from fiol.components.geometries.geometry import Geometry
from fiol.components.geometries.quadratic import DiagonalMetric, Euclidean, Mahalanobis, Quadratic
from fiol.components.geometries.reparametrization import Basis, Pairs, Reparametrization, WholeRows
from fiol.components.geometries.separable import Separable

__all__ = [
    "Basis",
    "DiagonalMetric",
    "Entropy",
    "Euclidean",
    "Geometry",
    "Mahalanobis",
    "Pairs",
    "Quadratic",
    "Reparametrization",
    "Separable",
    "SignedEntropy",
    "Simplex",
    "WholeRows",
    "relative_entropy",
]
