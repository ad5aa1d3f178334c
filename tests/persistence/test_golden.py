"""Files of earlier versions load and learn on: see make_golden.py."""

import json

import numpy as np
import pytest
from tests.interpreted import interpret_all
from tests.persistence.make_golden import GOLDEN, MODELS, make, say, teach

import fiol
from fiol.persistence import model_file

FILES = sorted(GOLDEN.glob("*.fiol"))


def assert_close(found, expected, near=1e-9):
    """Check that both are equal up to rounding."""
    assert found.keys() == expected.keys()
    for name, value in found.items():
        if name in ("weights", "intercept", "scores", "losses", "mixing") or (
            name == "predicted" and type(value[0]) is list
        ):
            np.testing.assert_allclose(value, expected[name], rtol=near, atol=1e-3 * near)
        elif name == "parameters":  # of which there may be more by now
            assert set(expected[name][2:-2].split("), (")) <= set(value[2:-2].split("), ("))
        else:
            assert value == expected[name]
            if name == "classes":  # True is 1, but not as a label
                assert [type(label) for label in value] == [type(label) for label in expected[name]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden_file_loads_and_learns_on(path, tmp_path):
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    model = fiol.load(path, compiled=False)
    # Of a float32 and a Python number, numpy before 2 computes in float64, later ones in float32.
    near = 1e-5 if hasattr(model, "core") and model.core.dtype == np.float32 else 1e-9
    assert_close(say(model, expected["X"]), expected["before"])
    model.save(tmp_path / "again")
    for learner in (model, fiol.load(tmp_path / "again", compiled=False)):
        teach(learner, expected["X"], expected["y"])
        assert_close(say(learner, expected["X"]), expected["after"], near)
    before, after = expected["before"], expected["after"]
    assert after["rounds"] > before["rounds"]
    assert not np.allclose(before["scores"], after["scores"])


def test_all_kinds_have_a_golden_file():
    assert {path.stem for path in FILES} >= MODELS.keys()
    kinds = {model_file.read(path)[0]["kind"] for path in FILES}
    assert kinds == fiol.persistence.model.BUILDERS.keys()


def test_golden_files_have_their_special_content():
    """Features never seen left out, one of them; arrays and fields of its recipe missing, the older one."""
    arrays = {path.stem: model_file.read(path)[1].keys() for path in FILES}
    assert "seen" in arrays["learner-bits"]
    assert "state.square" in fiol.load(GOLDEN / "learner-older.fiol", compiled=False).core.arrays()
    assert not {"state.square", "seen.square"} & arrays["learner-older"]
    merged = fiol.load(GOLDEN / "learner-merged.fiol", compiled=False)
    assert (merged.rows, merged.rounds, merged.engine.uncounted.tolist()) == (20, 12, [8.0, 0.5])
    assert fiol.load(GOLDEN / "learner-older.fiol", compiled=False).rows == 20
    assert "uncounted" not in arrays["learner-older"]
    gated, centered = (
        fiol.load(GOLDEN / f"learner-ensemble-{kind}.fiol", compiled=False) for kind in ("gated", "centred")
    )
    assert 0 < gated.n_nonzero < 5
    assert centered.engine.centering.features.tolist() == [0, 1]
    assert "geometry" not in model_file.read(GOLDEN / "learner-older.fiol")[0]["model"]["update"]["fields"]


@pytest.mark.parametrize("name", MODELS)
def test_golden_file_is_never_overwritten(name, tmp_path, monkeypatch):
    interpret_all(monkeypatch)
    make(name, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before.keys() == {f"{name}.fiol", f"{name}.json"}
    for left in before:
        for path in tmp_path.iterdir():
            path.unlink()
        (tmp_path / left).write_bytes(before[left])
        with pytest.raises(FileExistsError, match="must load for ever"):
            make(name, tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {left: before[left]}


def test_models_keep_their_hash_function(tmp_path):
    """Old files do not store it; models with different hashes have different names for a feature number."""
    old = fiol.load(GOLDEN / "learner-bits.fiol", compiled=False)
    new = fiol.Learner(old.update, bits=old.bits, intercept=old.intercept_fitted, compiled=False)
    assert (old.core.header()["hash"], new.core.header()["hash"]) == ("crc32", "murmur3")
    for learner in (old, new):
        learner.save(tmp_path / "model")
        for again in (fiol.load(tmp_path / "model", compiled=False), learner.copy()):
            assert again.core.header()["hash"] == learner.core.header()["hash"]
    with pytest.raises(ValueError, match="hashes names by"):
        fiol.Learner.merge([old, new])
    header = {**new.core.header(), "hash": "md5"}
    with pytest.raises(ValueError, match="its hash must be one of murmur3, crc32, got 'md5'"):
        fiol.Learner.from_parts(header, new.core.arrays(), False)
