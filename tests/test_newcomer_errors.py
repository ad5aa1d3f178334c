"""Errors that suggest a fix for common mistakes of newcomers, and unusual inputs that are valid."""

import os
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from tests.commands import CliRunner

import fiol
from fiol import (
    FIOL,
    L1,
    Constant,
    Curvature,
    Hinge,
    Learner,
    Logistic,
    OneVsRest,
    ScaleFree,
    Softmax,
    Squared,
    Stacked,
)
from fiol.cli import main
from fiol.persistence.model_file import ModelFileError

ROWS, Y = np.array([[1.0, 2.0], [3.0, 4.0]]), [1.0, 2.0]


def learner(update=None, **options):
    return Learner(FIOL(Squared()) if update is None else update, compiled=False, **options)


# --- what was meant ---------------------------------------------------------------------------

MEANT = {
    "loss by name": (
        lambda: FIOL("logistic"),
        r"^loss must be a fiol.Loss, got 'logistic': did you mean fiol.Logistic",
    ),
    "their name of it": (lambda: FIOL("log_loss"), r"did you mean fiol.Logistic\(\)\?$"),
    "an alias": (lambda: FIOL("mse"), r"did you mean fiol.Squared\(\)\?$"),
    "an alias with a parameter": (lambda: FIOL("pinball:0.9"), r"did you mean fiol.Quantile\(\)\?$"),
    "a joint loss": (lambda: FIOL("softmax"), r"did you mean fiol.Softmax\(\)\?$"),
    "no loss at all": (lambda: FIOL("forest"), r"^loss must be a fiol.Loss, got 'forest'$"),
    "penalty by name": (lambda: FIOL(Squared(), "l1"), r"did you mean fiol.L1\(\.\.\.\)\?$"),
    "penalty as a number": (lambda: FIOL(Squared(), 0.1), r"did you mean fiol.L1\(0.1\) or fiol.Ridge\(0.1\)\?$"),
    "step as a number": (
        lambda: FIOL(Squared(), L1(0.1), 0.1),
        r"^step_size must be a fiol.StepSize, got 0.1: did you mean fiol.Constant\(0.1\)\?$",
    ),
    "loss for update": (
        lambda: Learner(Logistic()),
        r"^update must be .* did you mean fiol.Stacked\(Logistic\(\)\) or fiol.FIOL\(Logistic\(\)\)\?$",
    ),
    "learn(dict)": (
        lambda: learner().learn({"a": 1.0}, 1.0),
        r"not a single dict: use learn_named, or put it in a list",
    ),
    "predict(dict)": (lambda: learner().predict({"a": 1.0}), r"use predict_named or score_named, or put it in a list$"),
    "OneVsRest.predict(dict)": (lambda: OneVsRest(FIOL(Hinge())).predict({"a": 1.0}), r"use predict_named"),
    "bits": (lambda: learner(bits=True), r"^bits must be an integer, got True$"),
    "n_features": (lambda: learner(n_features=True), r"^n_features must be an integer, got True$"),
    "max_features": (lambda: learner(max_features=False), r"^max_features must be an integer, got False$"),
    "texts for -1 and +1": (
        lambda: learner(FIOL(Logistic())).learn(ROWS, ["no", "yes"]),
        r"^y holds str: it must be -1 or \+1 for Logistic; fiol.OneVsRest and fiol.FIOLClassifier take any labels$",
    ),
    "Struct": (
        lambda: learner().learn(pl.DataFrame({"a": [1.0, 2.0], "s": [{"x": 1}, {"x": 2}]}), Y),
        r"^column 's' holds Struct: convert it",
    ),
    "Array": (
        lambda: learner().learn(pl.DataFrame({"s": pl.Series([[1.0, 2.0]] * 2, dtype=pl.Array(pl.Float64, 2))}), Y),
        r"^column 's' holds Array: convert it",
    ),
    "y of Struct": (
        lambda: learner().learn(ROWS, pl.Series([{"x": 1}, {"x": 2}])),
        r"^y holds Struct: it must be numbers",
    ),
    "objects": (lambda: learner().learn(np.array([[1.0, "a"]], object), [1.0]), r"^column 1 holds str: encode it"),
    "categories": (
        lambda: learner(n_features=1).learn(pd.DataFrame({"c": pd.Categorical([1, 2])}), Y),
        r"^column 'c' holds category: encode it",
    ),
}
WRONG = {
    "average": (lambda: learner(average="yes"), r"^average must be True or False, got 'yes'$"),
    "intercept": (lambda: learner(intercept=2), r"^intercept must be True or False, got 2$"),
    "compiled": (lambda: Learner(FIOL(Squared()), compiled="no"), r"^compiled must be True or False, got 'no'$"),
    "OneVsRest": (lambda: OneVsRest(FIOL(Hinge()), intercept=2), r"^intercept must be True or False, got 2$"),
    "1 and 2": (lambda: learner(FIOL(Logistic())).learn(ROWS, [1, 2]), r"got 2: use 2\*y - 3; fiol.OneVsRest and"),
    "0 and 1": (lambda: learner(FIOL(Logistic())).learn(ROWS, [1, 0]), r"^y\[1\] must be .* got 0: use 2\*y - 1$"),
    "other numbers": (lambda: learner(FIOL(Logistic())).learn(ROWS, [3, 7]), r"for Logistic, got 3$"),
    "fractions": (lambda: learner(FIOL(Logistic())).learn(ROWS, [0.5, 1.0]), r"for Logistic, got 0.5$"),
    "infinite": (lambda: learner(FIOL(Logistic())).learn(ROWS, [np.inf, 1.0]), r"^y\[0\] must be finite, got inf$"),
    "too large": (
        lambda: learner().learn(np.array([[1.0, 10**400]], object), [1.0]),
        r"^X\[0, 1\] must be finite, got a number beyond double precision$",
    ),
    "missing": (lambda: learner().learn(np.array([[1.0, None]], object), [1.0]), r"^X\[0, 1\] is missing$"),
    "nan": (lambda: learner().learn(np.array([[1.0, np.nan]], object), [1.0]), r"^X\[0, 1\] must be finite, got nan$"),
}


@pytest.mark.parametrize(("call", "message"), MEANT.values(), ids=MEANT)
def test_type_errors_suggest_a_fix(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_value_errors_suggest_a_fix(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_suggested_fixes_work():
    """Labels 1 and 2 become -1 and +1 as suggested, and the suggested models accept them."""
    codes = np.array([1, 2])
    learner(FIOL(Logistic())).learn(ROWS, 2 * codes - 3)
    assert OneVsRest(FIOL(Logistic()), compiled=False).learn(ROWS, codes).shape == (2, 2)


@pytest.mark.parametrize("seconds", ["nan", "inf"])
def test_non_finite_seconds_option_is_rejected(seconds, tmp_path):
    found = CliRunner().invoke(main, ["reproduce", "table3", "--seconds", seconds, "--out", str(tmp_path / "new")])
    assert found.exit_code == 2
    assert f"{seconds} is not a finite number" in found.output
    assert not (tmp_path / "new").exists()


def test_missing_folder_error_names_the_given_path(tmp_path):
    path = tmp_path / "no" / "model.fiol"
    for model in (learner(), OneVsRest(FIOL(Hinge()), compiled=False)):
        with pytest.raises(FileNotFoundError) as caught:
            model.save(path)
        assert caught.value.filename == str(path)
        assert ".tmp" not in str(caught.value)
        assert not os.listdir(tmp_path)


# --- what is in order -------------------------------------------------------------------------

ALIKE = {
    "dok_matrix": sparse.dok_matrix(ROWS),
    "dok_array": sparse.dok_array(ROWS),
    "lil_matrix": sparse.lil_matrix(ROWS),
    "objects": ROWS.astype(object),
    "objects of all kinds": np.array([[1, Fraction(2)], [np.float32(3.0), 4.0]], object),
    "a frame of objects": pd.DataFrame(ROWS.astype(object)),
    "a list of fractions": [[Fraction(1), 2], [3, 4]],
}


@pytest.mark.parametrize("rows", ALIKE.values(), ids=ALIKE)
def test_rows_of_any_container_are_learned(rows):
    expected = learner().learn(ROWS, Y)
    for targets in (Y, np.array(Y, object), pd.Series(Y, dtype=object)):
        model = learner()
        assert np.array_equal(model.learn(rows, targets), expected)
        assert np.array_equal(model.scores(rows), model.scores(ROWS))


# --- how many columns -------------------------------------------------------------------------

KINDS = {
    "one score": lambda **options: learner(**options),
    "bounded": lambda: learner(max_features=10),
    "joint": lambda: learner(FIOL(Softmax())),
    "one against the rest": lambda: OneVsRest(FIOL(Hinge()), compiled=False),
}


@pytest.mark.parametrize("width", [4, 6, 0])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_arrays_must_have_as_many_columns_as_the_first(make, width):
    model, y = make(), [1, 2]
    model.learn(np.ones((2, 5)), y)
    before = model.copy()
    for rows in (np.ones((2, width)), [[1.0] * width] * 2, pd.DataFrame(np.ones((2, width)))):
        for call in (lambda: model.learn(rows, y), lambda: model.scores(rows), lambda: model.predict(rows)):  # noqa: B023
            with pytest.raises(ValueError, match=f"^X has {width} columns, but the rows learned from have 5$"):
                call()
    assert (model.n_features, model.rounds) == (before.n_features, before.rounds)
    assert np.array_equal(model.weights, before.weights)
    model.learn(np.ones((2, 5)), y)


def test_sparse_rows_chunks_and_single_rows_may_add_columns():
    model = learner()
    model.learn(np.ones((2, 5)), Y)
    assert model.learn(sparse.csr_matrix(np.ones((2, 7))), Y).shape == (2,)
    model.learn(sparse.csr_matrix(np.ones((2, 3))), Y)
    model.learn_chunk(fiol.to_chunk(np.ones((2, 8))), Y)
    model.learn_one([8], [1.0], 1.0)
    assert model.n_features == 9
    model.learn(np.ones((2, 5)), Y)
    first = learner()
    first.learn(sparse.csr_matrix(np.ones((2, 3))), Y)
    first.learn(np.ones((2, 5)), Y)  # the first array says how many there are
    with pytest.raises(ValueError, match=r"but the rows learned from have 5$"):
        first.learn(np.ones((2, 3)), Y)


def test_empty_rows_do_not_fix_the_number_of_columns():
    model = learner()
    for empty in ([], np.empty((0, 3)), np.ones((2, 0))):
        model.learn(empty, Y[: len(empty)])
    model.learn(np.ones((2, 5)), Y)
    model.learn(np.empty((0, 3)), [])
    assert model.n_features == 5


def test_rejected_array_does_not_fix_the_number_of_columns():
    model = learner()
    with pytest.raises(ValueError, match="must be finite"):
        model.learn(np.full((2, 4), np.nan), Y)
    model.learn(np.ones((2, 5)), Y)


def test_number_of_columns_is_kept_in_copies_files_and_merges(tmp_path):
    model, path = learner(), tmp_path / "model.fiol"
    model.learn(np.ones((2, 5)), Y)
    model.save(path)
    new = learner()
    for other in (model.copy(), Learner.load(path, compiled=False), Learner.merge([new, model])):
        with pytest.raises(ValueError, match=r"^X has 4 columns, but the rows learned from have 5$"):
            other.predict(np.ones((1, 4)))
    new.learn(np.ones((1, 4)), [1.0])
    with pytest.raises(
        ValueError, match=r"^learners\[1\] has learned from arrays of 5 columns, learners\[0\] from arrays of 4"
    ):
        Learner.merge([new, model])


@pytest.mark.parametrize("width", [True, 0, -1, 2.0, "5", 2**31])
def test_file_with_invalid_column_count_is_rejected(width, tmp_path):
    from fiol.persistence import model as files

    model, path = learner(), tmp_path / "model.fiol"
    model.learn(np.ones((2, 5)), Y)
    files.write_model(path, "learner", {**model.core.header(), "dense_columns": width}, model.core.arrays(), {})
    with pytest.raises(ModelFileError, match="the columns of its dense rows are given as"):
        Learner.load(path, compiled=False)


# --- how models look --------------------------------------------------------------------------


def test_model_repr_is_short():
    model = learner(FIOL(Logistic(), L1(0.01)))
    model.learn(ROWS, [1, -1])
    assert repr(model) == (
        "<Learner of 2 features after 2 rounds of Update(loss=Logistic(), regularizer=L1(lam=0.01))>"
    )
    assert repr(learner(fiol.SGD(Squared()))).count("step_size=Polynomial") == 1  # what is not the default is shown
    both = OneVsRest(FIOL(Hinge()), compiled=False)
    both.learn(ROWS, ["a<b", "b"])
    assert repr(both) == "<OneVsRest of 2 classes after 2 rounds of Update(loss=Hinge())>"


def test_notebook_repr_is_a_table():
    model = learner(FIOL(Softmax()))
    model.learn(ROWS, ["a<b", "b"])
    shown = model._repr_html_()
    for part in ("<table>", "Update(loss=Softmax())", "<th>features</th><td>2</td>", "<th>classes</th><td>2</td>"):
        assert part in shown
    assert "<th>rounds</th><td>0</td>" in OneVsRest(FIOL(Hinge()), compiled=False)._repr_html_()
    assert "<th>features with weight</th><td>0</td>" in learner()._repr_html_()


def test_ensemble_repr_shows_members_and_important_features():
    model = learner(Stacked(Logistic()))
    model.learn([{"a": 1.0, "b<": 100.0}, {"a": -1.0, "b<": -50.0}, {"c": 0.5}], [1, -1, 1])
    text, html = str(model), model._repr_html_()
    for member in model.members:
        assert f"{member.loss:.4g}" in text
        assert f"{member.loss:.4g}" in html
    assert "ScaleFree(AdaGrad(size=300))" in text
    assert "<th>b&lt;</th>" in html
    assert all(name in text for name in model.importances())


def test_importances_are_hardly_changed_by_extreme_values():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    X[:, 3] = rng.standard_t(1.5, 2000)
    y = X[:, :3] @ [1.0, 0.5, 0.25] + 0.01 * X[:, 3] + 0.1 * rng.normal(size=2000)
    for model in (learner(Stacked(Squared())), learner(FIOL(Squared(), step_size=ScaleFree(Curvature())))):
        model.learn(X, y)
        assert list(model.importances()) == list(model.importances(X=X)) == [0, 1, 2, 3]
        assert np.argsort(-np.abs(model.weights) * model.core.scales()).tolist() != [0, 1, 2, 3]


def test_importances_are_weights_times_scales():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * [1.0, 1000.0, 0.01] + [0.0, 5000.0, 0.0]
    y = X @ [1.0, 0.002, 0.0]
    for model in (learner(Stacked(Squared())), learner(FIOL(Squared()))):
        model.learn(X, y)
        deviations = dict(enumerate(X.std(axis=0) * model.weights))
        assert model.importances(X=X) == pytest.approx(deviations)
        assert list(model.importances(2, X=X)) == [1, 0]
        assert list(model.importances(2)) == [1, 0]  # by root mean squares of distances from the means
    plain = learner(FIOL(Squared(), step_size=Constant(0.1)), intercept=False)
    plain.learn([{"a": 1.0, "b": -2.0}], [1.0])
    assert plain.importances() == dict(zip(plain.names, plain.weights, strict=True))
    assert list(plain.importances()) == ["b", "a"]
    many = OneVsRest(FIOL(Logistic()), compiled=False)
    many.learn(X, np.where(y > y.mean(), "more", "less"))
    expected = dict(enumerate(np.sqrt((many.weights**2).mean(axis=0)) * X.std(axis=0)))
    assert many.importances(X=X) == pytest.approx(expected)
    assert list(many.importances()) == list(expected := many.importances(X=X)) == [1, 0, 2]
    assert many.importances()[0] == pytest.approx(expected[0], rel=0.1)
    assert OneVsRest(FIOL(Logistic()), compiled=False).importances() == {}


def test_predict_accepts_one_dict():
    model = learner(FIOL(Logistic()))
    model.learn([{"a": 1.0}, {"b": 1.0}], [1, -1])
    assert model.predict_named({"a": 2.0}) == model.predict([{"a": 2.0}])[0]
    assert type(model.predict_named({"a": 2.0})) is float
    joint = learner(FIOL(Softmax()))
    joint.learn([{"a": 1.0}, {"b": 1.0}], ["x", "y"])
    assert joint.predict_named({"a": 1.0}).shape == (2,)
    labels = learner(FIOL(fiol.CrammerSinger()))
    labels.learn([{"a": 1.0}, {"b": 1.0}], ["x", "y"])
    assert labels.predict_named({"b": 1.0}) == "y"
    both = OneVsRest(FIOL(Hinge()), compiled=False)
    both.learn([{"a": 1.0}, {"b": 1.0}], [7, 8])
    assert [both.predict_named({"a": 1.0}), both.predict_named({"b": 1.0})] == [7, 8]


def test_arrow_batch_keeps_column_names():
    with pytest.raises(TypeError, match=r"^column 's' holds Struct: convert it"):
        learner().learn(pa.table({"a": [1.0, 2.0], "s": [{"x": 1}, {"x": 2}]}), Y)


def test_errors_about_data_name_the_frame_the_option_and_the_columns(tmp_path):
    frame = pd.DataFrame({"price": [1.0, 2.0, 3.0], "sold": ["no", "yes", "no"]})
    with pytest.raises(ValueError, match=r"^a frame: there is no column 'nope': the columns are price, sold$"):
        fiol.train(frame, target="nope")
    with pytest.raises(ValueError, match=r"\(columns\), there is no column 'prise': did you mean 'price'\?"):
        fiol.train(frame, target="sold", columns={"prise": "number"})
    with pytest.raises(FileNotFoundError, match=r"has no files to read: .*\.csv, .*\.parquet"):
        fiol.train(tmp_path, target="sold")


def test_decimal_commas_are_hinted_at(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("price;sold\n" + "".join(f"{k},5;{'yn'[k % 2]}\n" for k in range(40)))
    with pytest.warns(UserWarning, match="column 'price' is text with commas in numbers.*give reader="):
        next(fiol.read(path, target="sold"))
    batch = next(fiol.read(path, target="sold", reader={"decimal": ","}))
    assert [str(name) for name in batch.X.names] == ["price"]
