"""The bar fits a line."""

from mfbo_torch import Space, minimize


def test_the_bar_fits_eighty_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def a_function_with_a_long_name_indeed(x, y, fidelity):
        return 1e-7 * (x + y) + 0.12345678 * (1 - fidelity)

    space = Space({"x": (0, 1), "y": (0, 1)}, [1, 3])
    minimize(a_function_with_a_long_name_indeed, space, 34, strategy="RandomSearch", progress=True)
    lines = capsys.readouterr().err.replace("\n", "\r").split("\r")
    assert max(map(len, lines)) <= 80
    assert "best" in lines[-2]
    assert "more evaluation" not in lines[-2]
