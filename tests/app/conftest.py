"""A browser for the tests of pages."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        own = driver.chromium.executable_path
        found = [own] if Path(own).exists() else map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        path = next(filter(None, found), None)
        if path is None:
            pytest.skip("there is no Chromium")
        program = driver.chromium.launch(executable_path=path, args=["--enable-unsafe-swiftshader"])
        yield program
        program.close()
