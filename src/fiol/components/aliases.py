"""Names that other libraries use for losses, penalties and algorithms."""

from __future__ import annotations

#: Names of other libraries, by ours. Case does not matter, and "-" is "_".
ALIASES = {
    "log_loss": ("logistic", "log", "logloss", "logit", "binary_crossentropy", "binary_logloss"),
    "squared_error": ("squared", "squared_loss", "mse", "mean_squared_error", "least_squares", "l2_loss"),
    "absolute_error": ("absolute", "mae", "mean_absolute_error", "least_absolute_deviation", "l1_loss"),
    "quantile": ("pinball",),
    "softmax": ("multinomial", "cross_entropy", "categorical_crossentropy", "multiclass"),
    "squared_hinge": ("hinge_squared",),
    "l1": ("lasso",),
    "l2": ("ridge",),
    "elasticnet": ("elastic_net",),
    "FTRLProximal": ("ftrl", "ftrl_proximal"),
    "ImplicitFTRL": ("implicit_ftrl",),
    "ImplicitCoin": ("implicit_coin",),
    "ISGD": ("implicit_sgd",),
    "PA1": ("passive_aggressive",),
}
