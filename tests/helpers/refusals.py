"""What is refused by one line that names the setting."""

import pytest

from mfbo_torch.utils.errors import SettingError


def refused(said: str, make, *args, **settings) -> None:
    """``make(*args, **settings)`` raises a setting error of one line, in which the expression ``said`` is found."""
    with pytest.raises(SettingError, match=said) as caught:
        make(*args, **settings)
    assert "\n" not in str(caught.value)
