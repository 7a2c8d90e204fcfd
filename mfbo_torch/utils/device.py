"""Where tensors are computed."""

from __future__ import annotations

from typing import Any

import torch

from mfbo_torch.utils.errors import SettingError


def usable_device(setting: str, given: Any, dtype: torch.dtype = torch.double) -> torch.device:
    """A device of this machine, such as ``"cpu"`` or ``"cuda"``, on which numbers of a precision can be kept and read;
    a :class:`SettingError` for any other."""
    try:
        found = torch.device(given)
        torch.zeros(1, dtype=dtype, device=found).item()
    except Exception as error:  # each device has an error of its own
        reason = str(error).partition("\n")[0]
        raise SettingError(setting, given, f"a device of this machine: {reason}") from error
    return found
