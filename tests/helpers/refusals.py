"""What is refused by one line that names the setting."""

import pytest

from mfbo_torch.utils.errors import SettingError


def refused(said: str, make, *args, error: type[Exception] = SettingError, **settings) -> None:
    """``make(*args, **settings)`` raises an error of one line, in which the expression ``said`` is found."""
    with pytest.raises(error, match=said) as caught:
        make(*args, **settings)
    assert "\n" not in str(caught.value)
