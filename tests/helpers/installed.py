"""Whether a distribution is installed; folders of the tests have the names of some and can be imported like them."""

from importlib.metadata import PackageNotFoundError, version


def installed(*distributions: str) -> bool:
    try:
        return all(map(version, distributions))
    except PackageNotFoundError:
        return False
