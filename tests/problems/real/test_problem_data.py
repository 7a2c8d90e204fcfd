"""Finding, downloading, verifying and parsing the public data sets."""

import hashlib
import os

import pytest
from refusals import refused

from mfbo_torch.problems.real import data
from mfbo_torch.utils.errors import SettingError


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MFBO_DATA_DIR", raising=False)
    return tmp_path / "cache" / "mfbo_torch"


def published(tmp_path, text, sha256=None):
    """A three-row source whose address is a local file."""
    original = tmp_path / "original.txt"
    original.write_text(text)
    checksum = sha256 or hashlib.sha256(original.read_bytes()).hexdigest()
    return data.Source("toy.csv", 3, ("a", "b"), "nowhere", original.as_uri(), checksum)


def test_loads_the_three_tables_and_no_other(data_dir):
    assert data.load("supernovae").shape == (192, 3)
    assert data.load("power_plant").shape == (9568, 5)
    magic = data.load("magic")
    assert magic.shape == (19020, 11)
    assert set(magic[:, -1]) == {0.0, 1.0}
    refused("data = 'iris': must be 'supernovae' or 'magic' or 'power_plant'", data.load, "iris")


def test_missing_file_without_an_address_says_what_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setenv("MFBO_DATA_DIR", str(tmp_path))
    with pytest.raises(SettingError) as caught:
        data.load("power_plant")
    message = str(caught.value)
    assert "\n" not in message
    for part in ("MFBO_DATA_DIR", str(tmp_path), "ccpp.csv", "9568 rows", "humidity", "archive.ics.uci.edu"):
        assert part in message


def test_downloads_once_into_the_cache_which_comes_after_ones_own_folder(tmp_path, monkeypatch, empty_cache):
    monkeypatch.setitem(data.SOURCES, "toy", published(tmp_path, "1,2\n3,4\n5,6\n"))
    assert data.load("toy").tolist() == [[1, 2], [3, 4], [5, 6]]
    (tmp_path / "original.txt").unlink()
    assert data.load("toy").shape == (3, 2)
    assert [path.name for path in empty_cache.iterdir()] == ["toy.csv"]
    (tmp_path / "toy.csv").write_text("7 8\n7 8\n7 8\n")
    monkeypatch.setenv("MFBO_DATA_DIR", str(tmp_path))
    assert data.load("toy")[0].tolist() == [7, 8]


def test_a_failed_download_is_named_and_leaves_nothing(tmp_path, monkeypatch, empty_cache):
    monkeypatch.setitem(data.SOURCES, "toy", published(tmp_path, "1,2\n3,4\n5,6\n", sha256="0" * 64))
    refused(r"^SHA-256 of file:.*must be 0{64}", data.load, "toy")
    assert not empty_cache.exists()
    monkeypatch.setitem(data.SOURCES, "toy", published(tmp_path, "1,2\n"))
    (tmp_path / "original.txt").unlink()
    refused(r"toy.csv .*downloading file:.* failed", data.load, "toy")
    assert not empty_cache.exists()


def test_cache_is_in_the_home_folder_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data.cache_dir() == tmp_path / ".cache" / "mfbo_torch"


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n5,6",
        "a,b\n1,2\n3,4\n5,6\n",
        "\ufeffa,b\r\n1,2\r\n3,4\r\n5,6\r\n",
        "\ufeff1 2\n\n3  4\n 5\t6\n",
        '"a","b"\n"1","2"\n3,4\n5,6',
    ],
    ids=["plain", "header", "byte-order mark, header, CRLF", "byte-order mark, white space", "quoted"],
)
def test_reads_any_of_the_usual_layouts(tmp_path, text):
    path = tmp_path / "toy.csv"
    path.write_bytes(text.encode())
    assert data.read(path, data.Source("toy.csv", 3, ("a", "b"), "nowhere")).tolist() == [[1, 2], [3, 4], [5, 6]]


SHAPES = {"1,2\n3,4\n": "2 x 2", "1\n2\n3\n": "3 x 1", "1,2\n3\n4,5": "3 x 1 or 2", "": "0 x 0", "a,b\n": "0 x 0"}
BAD = [(text, f"^shape of .*toy.csv = '{found}': must be 3 x 2: 3 rows of a, b$") for text, found in SHAPES.items()]
BAD += [(f"1,2\n3,{x}\n5,6\n", f"^row 2 of .*toy.csv = '3 {x}': must be numbers") for x in ("x", "nan", "inf")]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_wrong_shapes_and_cells_are_named(tmp_path, text, said):
    (tmp_path / "toy.csv").write_text(text)
    refused(said, data.read, tmp_path / "toy.csv", data.Source("toy.csv", 3, ("a", "b"), "nowhere"))


@pytest.mark.parametrize("sizes", [(), (5, 20), (20, 10), (10, 10), (10, 200), (10.5, 20), (True, 20)])
def test_sizes_must_be_increasing_and_within_range(sizes):
    refused(r"^sizes = .*increasing whole numbers from 10 to 100$", data.checked_sizes, sizes, 10, 100)
    assert data.checked_sizes([10, 100], 10, 100) == (10, 100)


@pytest.mark.parametrize("name", data.SOURCES)
def test_the_real_tables_where_they_are(name, monkeypatch, real_data_dir):
    source = data.SOURCES[name]
    if not os.path.exists(os.path.join(real_data_dir, source.file)):
        pytest.skip(f"{source.file} is not in MFBO_DATA_DIR")
    monkeypatch.setenv("MFBO_DATA_DIR", real_data_dir)
    assert data.load(name).shape == (source.rows, len(source.columns))
