"""Model files round-trip, damaged files are rejected, and a save is complete or has no effect."""

import contextlib
import errno
import hashlib
import io
import json
import os
import resource
import stat
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fiol.persistence import model_file
from fiol.persistence.model_file import ModelFileError, read, write

HEADER = {"rounds": 7, "name": "größe 漢字 \U0001f600", "tree": {"a": [1, 2.5, None, True, "x"]}}
ARRAYS = {"w": np.array([0.5, -1.0, np.inf]), "n": np.arange(6, dtype=np.int32).reshape(2, 3)}


def assert_same(one, other):
    """Check that names, their order and the bytes of arrays are equal."""
    assert one[0] == other[0]
    assert list(one[1]) == list(other[1])
    for name, array in one[1].items():
        assert array.dtype == other[1][name].dtype
        assert array.shape == other[1][name].shape
        assert array.tobytes() == other[1][name].tobytes()


def strays(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".tmp"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.fiol"


# --- what is written is read ------------------------------------------------------------------

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=10,
)
text = st.text(st.characters())  # lone surrogates as well
kinds = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)
tables = hnp.arrays(kinds, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared") / "model.fiol"


@given(header=st.dictionaries(text, json_values), arrays=st.dictionaries(text, tables, max_size=4))
def test_model_file_round_trips(shared, header, arrays):
    write(shared, header, arrays)
    found = read(shared)
    assert_same(found, (header, {name: a.astype(a.dtype.newbyteorder("=")) for name, a in arrays.items()}))
    assert_same(found, read_by_the_docstring(shared.read_bytes()))
    for array in found[1].values():
        assert array.dtype.isnative
        assert array.flags.c_contiguous
        assert array.flags.owndata or array.base is not None
        assert array.flags.writeable
        array[...] = 0


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4).T,
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10.0)[::-3],
        np.broadcast_to(np.float32(3.0), (3, 2)),
        np.array([np.nan, -np.nan, -0.0, 5e-324]),
        np.frombuffer(struct.pack("<Q", 0x7FF4000000000123), "<f8"),  # a NaN with a message
        np.zeros((0, 3)),
        np.array(2, np.uint8),
        np.arange(4, dtype=">i8")[::2],
        np.array([0, 1, 2, 255], np.uint8).view(np.bool_),
    ],
    ids=str,
)
def test_arrays_of_any_memory_layout(path, array, monkeypatch):
    for size in (model_file.CHUNK, 16):
        monkeypatch.setattr(model_file, "CHUNK", size)
        write(path, {}, {"a": array})
        found = read(path)[1]["a"]
        assert found.shape == array.shape
        if array.dtype.kind == "b":
            array = array.view(np.uint8) != 0
        assert found.tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


def test_equal_content_has_equal_bytes(tmp_path):
    for name in "ab":
        write(tmp_path / name, HEADER, ARRAYS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_arrays_may_be_mapped_from_files(tmp_path, path):
    np.save(tmp_path / "w.npy", np.arange(5.0))
    write(path, {}, {"w": np.load(tmp_path / "w.npy", mmap_mode="r")})
    assert read(path)[1]["w"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_memory_beyond_the_arrays_is_constant(path):
    arrays = {"plain": np.ones(2_000_000), "turned": np.ones((1000, 2000), ">f8").T, "flags": np.ones(16_000_000, bool)}
    size = sum(array.nbytes for array in arrays.values())
    tracemalloc.start()
    try:
        write(path, {}, arrays)
        assert tracemalloc.get_traced_memory()[1] < 8 * model_file.CHUNK
        tracemalloc.reset_peak()
        read(path)
        assert tracemalloc.get_traced_memory()[1] < size + 8 * model_file.CHUNK
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("header", "arrays", "error", "message"),
    [
        ({}, {"a": np.array([{}])}, TypeError, "^'a' must hold booleans, integers or floats of .* got object$"),
        ({}, {"a": np.array(["x"])}, TypeError, "^'a' must hold booleans.*<U1$"),
        ({}, {"a": np.array([b"x"])}, TypeError, "^'a' must hold booleans"),
        ({}, {"a": np.array([1j])}, TypeError, "^'a' must hold booleans.*complex128$"),
        ({}, {"a": np.array(["2020-01-01"], "M8[D]")}, TypeError, "^'a' must hold booleans"),
        ({}, {"a": np.zeros(1, "i4,f8")}, TypeError, "^'a' must hold booleans"),
        ({}, {"a": np.ma.array([1.0], mask=[True])}, TypeError, "^'a' must be a plain array, got MaskedArray$"),
        ({}, {"a": [1.0]}, TypeError, "^'a' must be a plain array, got list$"),
        ({}, {1: np.zeros(1)}, TypeError, "^the name of an array must be a str, got 1$"),
        ({1: 2}, {}, TypeError, "^a header must be a dict of plain JSON values"),
        ({"a": (1, 2)}, {}, TypeError, "^a header must be a dict of plain JSON values"),
        ([], {}, TypeError, "^a header must be a dict of plain JSON values"),
        ({"a": b""}, {}, TypeError, "not JSON serializable"),
        ({"a": float("nan")}, {}, ValueError, "not JSON compliant"),
    ],
)
def test_unsupported_content_cannot_be_written(path, header, arrays, error, message):
    path.write_text("before")
    with pytest.raises(error, match=message):
        write(path, header, arrays)
    assert path.read_text() == "before"
    assert strays(path.parent) == []


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are doubles here")
def test_long_doubles_are_rejected(path):
    with pytest.raises(TypeError, match=r"^'a' must hold booleans"):
        write(path, {}, {"a": np.zeros(1, np.longdouble)})


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="no such arrays")
def test_arrays_of_too_many_dimensions_are_rejected(path):
    with pytest.raises(ValueError, match=r"^'a' must have at most 32 dimensions, got 33$"):
        write(path, {}, {"a": np.zeros((1,) * 33)})


# --- the layout, as someone else would write it from the docstring ----------------------------


def read_by_the_docstring(data):
    assert data[:8] == bytes.fromhex("8966696F6C0D0A1A")
    version = int.from_bytes(data[8:12], "little")
    size, length = struct.unpack("<QQ", data[12:28])
    assert len(data) == size
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    with_header = json.loads(data[28 : 28 + length].decode("utf-8"))
    start = (28 + length + 63) // 64 * 64
    arrays, end, saved = {}, 28 + length, False
    for entry in with_header["arrays"]:
        first = start + entry["offset"]
        assert first % 64 == 0
        stop = first + entry["length"]
        if stop > end or first >= end:
            assert data[end:first] == bytes(first - end)
            end = stop
        else:
            saved = True
        found, whole = np.frombuffer(data[first:stop], entry["dtype"]), int(np.prod(entry["shape"]))
        saved = saved or found.size < whole
        arrays[entry["name"]] = np.tile(found, whole // max(found.size, 1)).reshape(entry["shape"])
    assert max(end, start) + 32 == size
    assert version == (2 if saved else 1)
    return with_header["header"], arrays


def compose(with_header, arrays=b"", **other):
    """Return a file with any header and a valid checksum."""
    text = (
        with_header if isinstance(with_header, bytes) else json.dumps(with_header, ensure_ascii=False).encode("utf-8")
    )
    start = (28 + len(text) + 63) // 64 * 64
    size, length = other.get("size", start + len(arrays) + 32), other.get("length", len(text))
    data = b"\x89fiol\r\n\x1a" + struct.pack("<IQQ", other.get("version", 1), size, length) + text
    data = data.ljust(start, b"\0") + arrays
    return data + hashlib.sha256(data).digest()


def entry(**changes):
    return {"name": "w", "dtype": "<f8", "shape": [2], "offset": 0, "length": 16, **changes}


def with_header(*entries, **header):
    return {"header": header, "arrays": list(entries)}


W = struct.pack("<dd", 1.0, -2.0)


def test_file_written_as_documented_is_read(path):
    path.write_bytes(compose(with_header(entry(), entry(name="ü", offset=64), name="漢"), W.ljust(64, b"\0") + W))
    header, arrays = read(path)
    assert header == {"name": "漢"}
    assert {name: array.tolist() for name, array in arrays.items()} == {"w": [1.0, -2.0], "ü": [1.0, -2.0]}


@pytest.mark.parametrize("shape", [(9,), (1000, 3), (400_000,)])
def test_equal_arrays_and_equal_entries_are_stored_once(path, shape):
    rng = np.random.default_rng(3)
    w, zeros = rng.standard_normal(shape), np.full(shape, -0.0)
    one_bit = zeros.copy()
    one_bit.flat[-1] = 0.0
    arrays = {"w": w, "zeros": zeros, "v": w[::-1][::-1], "again": zeros.copy(), "one bit": one_bit}
    chosen = rng.permutation(shape[0])
    arrays |= {"some": model_file.Selected(w, chosen), "some more": model_file.Selected(w.copy(), chosen)}
    write(path, {"a": 1}, arrays)
    assert path.stat().st_size < 3 * w.nbytes + 2000
    for header, found in (read(path), read_by_the_docstring(path.read_bytes())):
        assert header == {"a": 1}
        for name, array in found.items():
            expected = w[chosen] if name.startswith("some") else arrays[name]
            assert (array.shape, array.tobytes()) == (shape, expected.tobytes())
    again = read(path)[1]
    again["v"][...] = 7.0
    assert again["w"].tobytes() == w.tobytes()  # memory is not shared


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shape": [2**40], "length": 8}, "takes 8,192.0 GiB of memory"),
        ({"shape": [2**40], "length": 16}, "has a length that is not that of its shape"),
        ({"offset": 0, "dtype": "<i8"}, "does not follow"),
        ({"offset": 0, "shape": [1], "length": 8}, "does not follow"),
        ({"offset": 0, "shape": [2, 1]}, "does not follow"),
        ({"offset": 8, "shape": [1], "length": 8}, "does not follow"),
    ],
)
def test_arrays_that_claim_more_than_the_file_holds_are_rejected(path, changes, reason):
    other = {**entry(name="v", offset=64), **changes}
    refused(path, compose(with_header(entry(), other), W.ljust(64, b"\0") + W[: other["length"]], version=2), reason)


# --- what is refused --------------------------------------------------------------------------


def refused(path, data, reason="."):
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=reason) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_any_altered_byte_is_detected(path):
    write(path, {}, {"a": np.array([7], np.uint8)})
    data = path.read_bytes()
    assert_same(read(path), ({}, {"a": np.array([7], np.uint8)}))
    with open(path, "r+b", buffering=0) as file:
        for place, byte in enumerate(data):
            for other in set(range(256)) - {byte}:
                os.pwrite(file.fileno(), bytes([other]), place)
                with pytest.raises(ModelFileError):
                    read(path)
            os.pwrite(file.fileno(), bytes([byte]), place)
    assert path.read_bytes() == data


def test_any_truncation_is_detected(path):
    write(path, HEADER, ARRAYS)
    data = path.read_bytes()
    for size in range(len(data)):
        expected = f"expected {len(data)} bytes" if size >= 28 else "expected at least 60 bytes"
        refused(path, data[:size], rf"truncated: {expected}, found {size}$")
    refused(path, data + b"\0", rf"too long: expected {len(data)} bytes, found {len(data) + 1}$")


@given(st.binary())
def test_random_bytes_are_rejected(shared, data):
    refused(shared, data)
    refused(shared, b"\x89fiol\r\n\x1a" + data)
    refused(shared, compose(data, data))


@given(json_values, json_values)
def test_random_headers_are_rejected(shared, value, other):
    refused(shared, compose(value), "nonsense in the header")
    refused(shared, compose({"header": {}, "arrays": [value, other]}), "nonsense in the header")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(entry(), json_values)))
def test_random_entries_are_read_or_rejected(shared, changes):
    shared.write_bytes(compose(with_header(entry(**changes)), W))
    with contextlib.suppress(ModelFileError):
        (array,) = read(shared)[1].values()
        assert array.nbytes == 16


@pytest.mark.parametrize("data", [b"{}", b"PK\3\4" + bytes(99), b"\x93NUMPY" + bytes(99), b"\x80\4." * 30], ids=repr)
def test_other_file_formats_are_rejected(path, data):
    refused(path, data, r"not a fiol model file$")


def test_newer_format_versions_are_rejected(path):
    refused(path, compose(b"?", version=3), r"written by a newer fiol \(format 3\); this one reads format 2$")
    refused(path, compose(b"?", version=0), r"not a fiol model file: there is no format 0$")


@pytest.mark.parametrize("at", [30, 130, -60, -1])
def test_damage_and_invalid_content_have_different_errors(path, at):
    data = bytearray(compose(with_header(entry()), W))
    data[at] ^= 1
    refused(path, bytes(data), r"damaged: its checksum does not match$")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\xff\xfe", "'utf-8' codec"),
        (b"[" * 100_000, "recursion"),
        (b'{"header": {"a": NaN}, "arrays": []}', "NaN is not JSON"),
        (b'{"header": {"a": -Infinity}, "arrays": []}', "-Infinity is not JSON"),
        ('{"header": {}, "arrays": []}'.encode("utf-16"), "'utf-8' codec"),
        ([], "it is not"),
        ({"header": {}}, "it is not"),
        ({"header": [], "arrays": []}, '"header" is no object'),
        ({"header": {}, "arrays": {}}, '"arrays" is no list'),
        (with_header(7), r"arrays\[0\] is not name, dtype, shape, offset and length"),
        (with_header({"name": "w"}), r"arrays\[0\] is not name"),
        (with_header(entry(more=1)), r"arrays\[0\] is not name"),
        (with_header(entry(), entry(offset=64)), r"arrays\[1\] has no name of its own"),
        (with_header(entry(name=None)), r"arrays\[0\] has no name of its own"),
        (with_header(entry(name=["w"])), r"arrays\[0\] has no name of its own"),
        (with_header(entry(dtype="|O")), r"arrays\[0\] has a dtype other than \|b1 "),
        (with_header(entry(dtype="O")), "has a dtype other"),
        (with_header(entry(dtype=">f8")), "has a dtype other"),
        (with_header(entry(dtype="<f16", length=32)), "has a dtype other"),
        (with_header(entry(dtype="os.system")), "has a dtype other"),
        (with_header(entry(dtype="i4,O")), "has a dtype other"),
        (with_header(entry(dtype=["<f8"])), "has a dtype other"),
        (with_header(entry(dtype=None)), "has a dtype other"),
        (with_header(entry(shape=[-2], length=-16)), "has an impossible shape"),
        (with_header(entry(shape=[-2, -1])), "has an impossible shape"),
        (with_header(entry(shape=[2.0])), "has an impossible shape"),
        (with_header(entry(shape=[True, 2])), "has an impossible shape"),
        (with_header(entry(shape=2)), "has an impossible shape"),
        (with_header(entry(shape=[1] * 32 + [2])), "has an impossible shape"),
        (with_header(entry(shape=[0, 2**63], length=0)), "has an impossible shape"),
        (with_header(entry(shape=[0, 2**62, 2**62], length=0)), "'w' cannot have its shape"),
        (with_header(entry(shape=[3])), "has a length that is not that of its shape"),
        (with_header(entry(length=-16)), "has a length that is not"),
        (with_header(entry(length=16.0)), "has a length that is not"),
        (with_header(entry(shape=[2**61], length=0)), "has a length that is not"),
        (with_header(entry(shape=[2**60], length=2**63)), "has a length that is not"),
        (with_header(entry(shape=[2**59], length=2**62)), "the arrays take 4611686018427387904 bytes, the file has 16"),
        (with_header(entry(shape=[3], length=24)), "the arrays take 24 bytes, the file has 16"),
        (with_header(entry(shape=[1], length=8)), "the arrays take 8 bytes, the file has 16"),
        (with_header(), "the arrays take 0 bytes, the file has 16"),
        (with_header(entry(offset=-64)), "does not follow the array before it"),
        (with_header(entry(offset=64)), "does not follow"),
        (with_header(entry(offset=2**62)), "does not follow"),
        (with_header(entry(offset=False)), "does not follow"),
        (with_header(entry(), entry(name="v")), r"arrays\[1\] does not follow"),  # overlapping
        (with_header(entry(), entry(name="v", offset=16)), r"arrays\[1\] does not follow"),
    ],
    ids=lambda said: str(said)[:80],
)
def test_invalid_header_is_rejected(path, said, reason):
    arrays = b"" if "cannot have its shape" in reason else W
    tracemalloc.start()
    try:
        refused(path, compose(said, arrays), f"nonsense in the header: .*{reason}")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [200, 2**32, 2**63, 2**64 - 1])
def test_impossible_header_size_is_rejected(path, length):
    refused(path, compose(with_header(entry()), W, length=length), "nonsense in the header: its size is given as")


def test_operating_system_errors_pass_through(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "none" / "model", {}, {})
    with pytest.raises(OSError, match="is not a regular file"):
        write(tmp_path, {}, {})
    with pytest.raises(OSError, match="is not a regular file"):
        write("/dev/null", {}, {})
    assert Path("/dev/null").is_char_device()
    assert os.listdir(tmp_path) == []


def test_loading_executes_nothing(tmp_path):
    """By the interpreter's own account, for files made to tempt it."""
    tempting = [with_header(entry(dtype=name)) for name in ("|O", "O", "os.system", "__import__('this')", "i4,O")]
    tempting += [with_component("os.system"), with_component("this.s"), with_component("pickle.loads")]
    files = [tmp_path / str(k) for k in range(len(tempting))]
    for file, said in zip(files, tempting, strict=True):
        file.write_bytes(compose(said, b"" if said["header"] else W))
    write(tmp_path / "good", HEADER, ARRAYS)
    script = """
import sys
from fiol.persistence.model_file import read
from fiol.persistence.component_json import from_json
good, *bad = sys.argv[1:]
read(good)
seen = []
sys.addaudithook(lambda event, _: seen.append(event))
read(good)
for path in bad:
    try:
        from_json(read(path)[0]["recipe"])
    except ValueError:
        continue
    raise SystemExit(path)
forbidden = {"import", "exec", "compile", "os.system", "subprocess.Popen", "pickle.find_class"}
sys.exit(str(sorted(forbidden.intersection(seen))) if forbidden.intersection(seen) else 0)
"""
    command = [sys.executable, "-c", script, tmp_path / "good", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def with_component(name):
    return with_header(recipe={"component": name, "fields": {"command": "true"}})


# --- files on disk ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, Path])
def test_paths_as_str_and_path(path, kind):
    write(kind(path), HEADER, ARRAYS)
    assert_same(read(kind(path)), (HEADER, ARRAYS))
    assert os.listdir(path.parent) == [path.name]


def test_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("m" * 255, HEADER, ARRAYS)
    assert_same(read("m" * 255), (HEADER, ARRAYS))


@pytest.fixture
def umask():
    before = os.umask(0o026)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_saved_file_permissions(path):
    write(path, {}, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    for mode in (0o600, 0o666, 0o444, 0o755):
        path.chmod(mode)
        write(path, {"mode": mode}, {})
        assert read(path)[0] == {"mode": mode}
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_temporary_file_has_the_permissions_of_the_file(path, monkeypatch):
    write(path, {}, {})
    path.chmod(0o600)
    modes = []

    def look(file, *rest):
        modes.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        raise KeyboardInterrupt

    monkeypatch.setattr(model_file, "pour", look)
    with pytest.raises(KeyboardInterrupt):
        write(path, {}, {})
    assert modes == [0o600]
    assert strays(path.parent) == []


def test_symlink_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    target, link, second = tmp_path / "far" / "model", tmp_path / "link", tmp_path / "second"
    link.symlink_to(Path("far") / "model")
    second.symlink_to(link)
    for rounds in (1, 2):  # the target does not exist at first
        write(second, {"rounds": rounds}, ARRAYS)
        assert link.is_symlink()
        assert second.is_symlink()
        assert not target.is_symlink()
        assert read(target)[0] == read(link)[0] == {"rounds": rounds}
    assert os.listdir(target.parent) == ["model"]


def test_circular_symlinks_raise(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        write(tmp_path / "a", {}, {})
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_open_reader_keeps_the_old_content(path):
    write(path, {"rounds": 1}, ARRAYS)
    before = path.read_bytes()
    with open(path, "rb") as file:
        write(path, {"rounds": 2}, ARRAYS)
        assert file.read() == before


# --- saves that fail --------------------------------------------------------------------------

BIG = {"w": np.arange(400_000.0)}  # several chunks


@pytest.mark.parametrize("room", [0, 1, 28, 1000, 4096, 1 << 20, 3_000_000, 3_200_130])  # the last: within the checksum
def test_full_disk_keeps_the_old_file(path, room):
    write(path, HEADER, ARRAYS)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            write(path, {}, BIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert_same(read(path), (HEADER, ARRAYS))
    assert os.listdir(path.parent) == [path.name]
    write(path, {}, BIG)
    assert_same(read(path), ({}, BIG))


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("name", ["fsync", "replace", "chmod"])
def test_failed_save_keeps_the_old_file(path, monkeypatch, name, error):
    def fail(*_):
        raise error

    write(path, HEADER, ARRAYS)
    monkeypatch.setattr(os, name, fail)
    with pytest.raises(type(error)):
        write(path, {}, BIG)
    assert_same(read(path), (HEADER, ARRAYS))
    assert os.listdir(path.parent) == [path.name]


def test_unsyncable_directory_is_ignored(path, monkeypatch):
    sync = os.fsync

    def only_files(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "no")
        sync(handle)

    monkeypatch.setattr(os, "fsync", only_files)
    write(path, HEADER, ARRAYS)
    assert_same(read(path), (HEADER, ARRAYS))


def test_file_is_synced_before_the_rename(path, monkeypatch):
    sync, replace, calls = os.fsync, os.replace, []

    def record_sync(handle):
        status = os.fstat(handle)
        calls.append("sync directory" if stat.S_ISDIR(status.st_mode) else f"sync {status.st_size} bytes")
        sync(handle)

    def record_replace(old, new):
        calls.append("replace")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_replace)
    write(path, HEADER, ARRAYS)
    assert calls == [f"sync {path.stat().st_size} bytes", "replace", "sync directory"]


# --- saves that are killed --------------------------------------------------------------------

#: Children are forked from a process without threads, which also is quicker than starting Python for each.
KILLS = """
import os, random, signal, sys, time
import numpy as np
from fiol.persistence import model_file

path, how, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])
folder = os.path.dirname(path)
size = 200_000 if how == "moments" else 100
contents = [({"which": k}, {"w": np.full(size + k * size // 2, float(k)), "n": np.full(7, k)}) for k in range(2)]

def save_for_ever():
    while True:
        for content in contents:
            model_file.write(path, *content)

def save_up_to(event):
    '''Die before the so manieth line of the module that a save of the other content runs.'''
    left = event
    def trace(frame, *_):
        nonlocal left
        if frame.f_code.co_filename != model_file.__file__:
            return None
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    model_file.write(path, *contents[1])
    sys.settrace(None)
    os._exit(0)

def child(work, *arguments):
    pid = os.fork()
    if pid == 0:
        try:
            work(*arguments)
        finally:
            os._exit(1)
    return pid

def inspect():
    header, arrays = model_file.read(path)
    expected = contents[header["which"]]
    assert header == expected[0] and list(arrays) == ["w", "n"]
    for name, array in arrays.items():
        assert np.array_equal(array, expected[1][name])
    left = [name for name in os.listdir(folder) if name != os.path.basename(path)]
    assert len(left) <= 1 and all(name.startswith(".fiol-") and name.endswith(".tmp") for name in left), left
    for name in left:
        os.unlink(os.path.join(folder, name))
    return header["which"], len(left)

random.seed(7)
killed, seen, strays = 0, set(), 0
began = time.perf_counter()
for content in (contents[0], contents[1], contents[0]):
    model_file.write(path, *content)
longest = max(0.03, 2.0 * (time.perf_counter() - began))  # on a busy machine a save takes its time
enough = False
while not enough:
    if how == "moments":
        pid = child(save_for_ever)
        time.sleep(random.uniform(0.0, longest))
        os.kill(pid, signal.SIGKILL)
    else:
        model_file.write(path, *contents[0])
        pid = child(save_up_to, killed)
    status = os.waitpid(pid, 0)[1]
    which, left = inspect()
    seen.add(which)
    strays += left
    if how == "lines" and os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0 and which == 1
        break
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    killed += 1
    hit = len(seen) == 2 and strays > 0  # kills at random moments go on until some hit a save, on any machine
    enough = killed >= kills and (hit or how == "lines" or killed >= 100 * kills)
print(killed, len(seen), strays)
"""


def kill(path, how, kills):
    command = [sys.executable, "-c", KILLS, path, how, str(kills)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split())


def test_save_killed_at_any_moment_leaves_a_complete_file(path):
    killed, seen, left = kill(path, "moments", 30)
    assert killed >= 30
    assert seen == 2
    assert left > 0  # some were in the middle of writing


def test_save_killed_at_any_line_leaves_a_complete_file(path):
    killed, seen, left = kill(path, "lines", 1000)
    assert 50 < killed < 1000  # it ran out of lines
    assert seen == 2
    assert left > 10


def test_file_truncated_while_it_is_read_raises():
    """Between the look at its size and the reading."""
    entry = {"name": "w", "dtype": "<f8", "shape": [2], "offset": 3, "length": 16}
    assert model_file.read_array(io.BytesIO(b"abc" + np.arange(2.0).tobytes()), entry, 0).tolist() == [0.0, 1.0]
    with pytest.raises(ModelFileError, match="truncated while it was read"):
        model_file.read_array(io.BytesIO(b"abc" + np.arange(2.0).tobytes()[:-1]), entry, 0)
