"""Models as MLflow models."""

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow


def test_saved_mlflow_model_predicts_as_the_model_does(tmp_path):
    mlflow = pytest.importorskip("mlflow.pyfunc")
    import fiol.mlflow

    frame = pd.DataFrame({"size": [1.0, 2.0, 8.0, 9.0] * 20, "city": ["Rome", None, "Oslo", "Oslo"] * 20})
    frame["sold"] = ["no", "no", "yes", "yes"] * 20
    model = fiol.train(frame, target="sold", algorithm="fiol")
    model.save(tmp_path / "m.fiol")
    rows = frame.drop(columns="sold")[:5].set_index(pd.Index([7, 5, 3, 1, 0]))
    for number, given in enumerate((model, tmp_path / "m.fiol")):
        path = tmp_path / f"mlflow{number}"
        fiol.mlflow.save_model(given, path)
        found = mlflow.load_model(str(path)).predict(rows)
        assert found["prediction"].tolist() == model.predict(rows).tolist()
        assert found.index.tolist() == rows.index.tolist()
        assert np.array_equal(found[["probability of no", "probability of yes"]].to_numpy(), model.predict_proba(rows))
