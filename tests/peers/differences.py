"""Tests of scikit-learn that our classes do not pass, each with the reason.

docs/guides/from_scikit_learn.md says the same to users.

A name without brackets stands for all parameters. The test of this list is strict: one that is on it and passes fails,
and so does one that is not and fails.
"""

PRIVATE = "looks at private attributes"
LATE = "average is True or False: averaging does not start at a given row"
SPARSE_INTERCEPT = "the intercept of sparse rows is moved by the whole step, not by a hundredth"
WORDS = "the same refusal in other words"
PRECISION = "weights are of float64 whatever the rows are of"
NO_LOSS = "there is no loss of this name"
ADAPTIVE = 'learning_rate="adaptive" is not here: the nearest are the default steps'
WARNS = "warns of scikit-learn's own changes"
ONE_PASS = "max_iter=1 is one pass on purpose: no warning that it did not converge"

SGD = {
    "test_provide_coef": WORDS,
    "test_set_intercept_offset": WORDS,
    "test_plain_has_no_average_attr": PRIVATE,
    "test_sgd_predict_proba_method_access": PRIVATE,
    "test_loss_function_epsilon": PRIVATE,
    "test_validation_mask_correctly_subsets": PRIVATE,
    "test_late_onset_averaging_not_reached": LATE,
    "test_late_onset_averaging_reached": LATE,
    "test_partial_fit_multiclass_average": LATE,
    "test_average_binary_computed_correctly[SparseSGDClassifier]": SPARSE_INTERCEPT,
    "test_sgd_multiclass_average[SparseSGDClassifier]": SPARSE_INTERCEPT,
    "test_sgd_averaged_computed_correctly[SparseSGDRegressor]": SPARSE_INTERCEPT,
    "test_sgd_averaged_partial_fit[SparseSGDRegressor]": SPARSE_INTERCEPT,
    "test_average_sparse[SparseSGDRegressor]": SPARSE_INTERCEPT,
    "test_partial_fit_weight_class_balanced": WORDS,
    "test_tol_parameter": WORDS,
    "test_sgd_error_on_zero_validation_weight": WORDS,
    "test_power_t_limits": WARNS,
    "test_sgd_clf": NO_LOSS,
    "test_sgd_proba": NO_LOSS,
    "test_partial_fit_exception": "partial_fit takes labels that were not given before: classes may be open",
    "test_sgd_random_state[42-SGDClassifier]": ONE_PASS,
    "test_sgd_random_state[42-SGDRegressor]": ONE_PASS,
    "test_sgd_dtype_match[float32-SGDClassifier]": PRECISION,
    "test_sgd_dtype_match[float32-SparseSGDClassifier]": PRECISION,
    "test_sgd_dtype_match[float32-SGDRegressor]": PRECISION,
    "test_sgd_dtype_match[float32-SparseSGDRegressor]": PRECISION,
    "test_underflow_or_overflow": "values of 1e300 are refused where they stand, before the first round",
    "test_sgd_l1": "the default steps stand for their decaying ones, and still move weights that should end at 0",
    "test_balanced_weight": "a row has the weight of its class in every problem, not only in that of its own class",
    "test_adaptive_longer_than_constant[SGDRegressor]": ADAPTIVE,
    "test_adaptive_longer_than_constant[SparseSGDRegressor]": ADAPTIVE,
}
PASSIVE_AGGRESSIVE = {"test_class_deprecation": WARNS}
DIFFERENCES = {"sgd": SGD, "passive_aggressive": PASSIVE_AGGRESSIVE}

#: Tests of minutes where nothing is compiled: see `test_peers`.
SLOW = {
    "sgd": (
        "test_adaptive_longer_than_constant",
        "test_validation_mask_correctly_subsets",
        "test_n_iter_no_change",
        "test_sgd_l1",
        "test_balanced_weight",
        "test_elasticnet_convergence",
        "test_l1_ratio",
        "test_underflow_or_overflow",
        "test_multi_thread_multi_class_and_early_stopping",
        "test_multi_core_gridsearch_and_early_stopping",
        "test_SGDClassifier_fit_for_all_backends",
        "test_numerical_stability_large_gradient",
        "test_validation_set_not_used_for_training",
        "test_early_stopping",
        "test_tol_parameter",
        "test_equal_class_weight",
        "test_sample_weights",
        "test_class_weights",
        "test_sgd_multiclass_njobs",
        "test_sgd_least_squares_fit",
        "test_sgd_huber_fit",
        "test_sgd_epsilon_insensitive",
    ),
    "passive_aggressive": ("test_classifier_accuracy", "test_classifier_partial_fit", "test_regressor_partial_fit"),
}
