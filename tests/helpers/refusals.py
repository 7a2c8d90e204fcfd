"""What is refused by one line that names the setting."""

import pytest

from mfbo_torch.utils.errors import SettingError


def refused(said: str, make, *args, **settings) -> None:
    """``make(*args, **settings)`` raises a setting error in which the regular expression ``said`` is found."""
    with pytest.raises(SettingError, match=said):
        make(*args, **settings)
