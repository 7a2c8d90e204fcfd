"""Every kernel as it is launched, compiled ahead of time for A100 (sm_80) and H100 (sm_90): no device is needed.

The launches of a few representative problems are recorded instead of run, so that what is compiled
here is what would be compiled there.
"""

import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tolerances import TOLERANCES

from mfbo_torch.ops import _dispatch
from mfbo_torch.ops.cache import Cache, factorize

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton's interpreter does not compile", allow_module_level=True)

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.gpu.sizes import fit_together
from mfbo_torch.ops.greedy import triton as greedy
from mfbo_torch.ops.posterior import triton as posterior

NAMES = {torch.float64: "fp64", torch.float32: "fp32", torch.int32: "i32", torch.int64: "i64"}
KERNELS = {
    posterior: ("covariance_kernel", "product_kernel", "finish_kernel", "gradient_kernel"),
    greedy: ("step_kernel", "pick_kernel"),
}
OPTIONS = ("num_warps", "num_stages", "maxnreg", "enable_fp_fusion")
DIM = 6


@dataclass(frozen=True)
class Launch:
    """A kernel, the types of its arguments, what it is specialised to, and how it is compiled."""

    name: str
    function: Any
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]
    aligned: tuple[int, ...]
    options: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        flags = [str(value) for name, value in self.constants if name.isupper() and not isinstance(value, int)]
        flags += [name for name, value in self.constants if value is True]
        types = {kind for _, kind in self.signature if kind.startswith("*fp")}
        return "-".join([self.name, *flags, *sorted(kind[1:] for kind in types)])


def record(function: Any, name: str, found: dict[Launch, None]) -> Any:
    """Stands for a kernel: keeps what it is launched with, specialised the way Triton does."""

    def launch(*arguments: Any, **keywords: Any) -> None:
        options = {key: keywords.pop(key) for key in OPTIONS if key in keywords}
        bound = dict(zip(function.arg_names, arguments, strict=False)) | keywords
        signature, constants, aligned = [], {}, []
        unspecialised = getattr(function, "do_not_specialize", None) or ()
        for i, key in enumerate(function.arg_names):
            value = bound[key]
            if isinstance(value, torch.Tensor):
                kind, whole = "*" + NAMES[value.dtype], value.data_ptr() % 16 == 0
            elif key.isupper() or (value == 1 and key not in unspecialised):
                constants[key], kind, whole = value, "constexpr", False
            else:
                kind = "i32" if abs(value) < 2**31 else "i64"
                whole = value % 16 == 0 and key not in unspecialised
            signature.append((key, kind))
            aligned += [i] * whole
        found[
            Launch(name, function, tuple(signature), tuple(constants.items()), tuple(aligned), tuple(options.items()))
        ] = None

    class Recorder:
        def __getitem__(self, grid: object) -> Callable:
            return launch

    return Recorder()


def factor(kind: str, n: int, dtype: torch.dtype, processes: int) -> Cache:
    X = torch.rand(processes, n, DIM, dtype=dtype)
    one, ones = X.new_ones(processes), X.new_ones(processes, n)
    return factorize(kind, X, ones, 0.1 * ones, X.new_ones(processes, DIM), one, one, ones)


@cache
def launches(kind: str, dtype: torch.dtype) -> tuple[Launch, ...]:
    """What the public functions launch, on every path, at even and odd sizes, for one process and for two."""
    found: dict[Launch, None] = {}
    with pytest.MonkeyPatch.context() as patch:
        for module, names in KERNELS.items():
            for name in names:
                patch.setattr(module, name, record(getattr(module, name), name, found))
        patch.setattr(posterior, "FEW", 40)
        patch.setattr(posterior, "VERY_FEW", 40)
        patch.setattr(posterior, "RECOMPUTE", 160)
        for m, n in ((16, 144), (256, 144), (256, 256)):
            cache, X = factor(kind, n, dtype, 1), torch.rand(m, DIM, dtype=dtype)
            posterior.backward(cache, X, X[:, 0], X[:, 0])
            if kind == "rbf":  # the others differ in the covariances only
                posterior.forward(cache, X)
                X = torch.rand(2, m + 1, DIM, dtype=dtype)
                posterior.backward(factor(kind, n + 1, dtype, 2), X, X[..., 0], X[..., 0])
        for m in (16, 256):
            posterior.forward(factor(kind, 48, dtype, 1), torch.rand(m, DIM, dtype=dtype))
        greedy.select(factor(kind, 48 * (kind == "rbf"), dtype, 1), torch.rand(256, DIM, dtype=dtype), 2.0, 2)
    return tuple(found)


@pytest.mark.parametrize("path", ["few", "recomputed", "stored"])
def test_one_compilation_for_all_sizes(path, monkeypatch):
    """A growing history compiles nothing anew."""
    monkeypatch.setattr(posterior, "FEW", 10**9 if path == "few" else 0)
    monkeypatch.setattr(posterior, "VERY_FEW", posterior.FEW)
    monkeypatch.setattr(posterior, "RECOMPUTE", 10**9 if path == "recomputed" else 0)
    found: dict[Launch, None] = {}
    for name in KERNELS[posterior]:
        monkeypatch.setattr(posterior, name, record(getattr(posterior, name), name, found))
    for n, m in ((130, 33), (144, 64), (277, 128), (400, 100)):
        X = torch.rand(m, DIM, dtype=torch.double)
        posterior.forward(factor("rbf", n, torch.double, 1), X)
        posterior.backward(factor("rbf", n, torch.double, 1), X, X[:, 0].clone(), X[:, 0].clone())
    kinds = {(launch.name, dict(launch.constants).get("KEEP"), dict(launch.constants).get("WHOLE")) for launch in found}
    assert len(found) == len(kinds), [str(launch) for launch in found]


@dataclass(frozen=True)
class Compiled:
    """PTX, machine code and the compiler's resource report; the last two empty without ``cuobjdump``."""

    ptx: str
    sass: str
    resources: str
    metadata: Any


@cache
def compiled(launch: Launch, arch: int) -> Compiled:
    source = ASTSource(
        fn=launch.function,
        signature=dict(launch.signature),
        constexprs=dict(launch.constants),
        attrs={(i,): [["tt.divisibility", 16]] for i in launch.aligned},
    )
    kernel = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=dict(launch.options))
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    reports = ["", ""]
    if tool.exists():
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(kernel.asm["cubin"])
            file.flush()
            for i, wanted in enumerate(("-sass", "-res-usage")):
                run = subprocess.run([tool, wanted, file.name], capture_output=True, text=True, check=True)
                reports[i] = run.stdout + run.stderr
    return Compiled(kernel.asm["ptx"], *reports, kernel.metadata)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "arch", "dtype"),
    [
        *(("rbf", arch, torch.double) for arch in (80, 90)),
        *((kind, 90, torch.double) for kind in ("matern12", "matern32", "matern52")),
        *((kind, 90, torch.float) for kind in ("rbf", "matern52")),
    ],
    ids=str,
)
def test_what_is_launched_compiles(kind, dtype, arch):
    """Tensor-core products, of float32 in TF32; nothing spills; no precision is lost on the way."""
    for launch in launches(kind, dtype):
        found = compiled(launch, arch)
        label = f"{launch} for sm_{arch}"
        assert f".target sm_{arch}" in found.ptx, label
        assert ".local" not in found.ptx, f"{label}: local memory"
        assert not re.search(r"cvt\.\S*\.?f32\.f64", found.ptx), f"{label}: float64 becomes float32"
        multiplies = launch.name in ("product_kernel", "gradient_kernel")
        products = len(re.findall(r"mma\.sync\.\S*\.f64\.f64\.f64\.f64", found.ptx))
        if dtype == torch.float64:
            assert (products > 0) == multiplies, f"{label}: {products} tensor-core products"
            shapes = set(re.findall(r"mma\.sync\.aligned\.(\w+)\.\S*\.f64\.f64\.f64\.f64", found.ptx))
            slow = arch == 80 or _dispatch.triton_version() >= (3, 8)
            assert shapes <= {"m8n8k4" if slow else "m16n8k16"}, f"{label}: {shapes}"
            assert "tf32" not in found.ptx, label
            assert "mma.sync" not in re.sub(r"mma\.sync\.\S*\.f64\.f64\.f64\.f64", "", found.ptx), label
        else:
            assert bool(re.search(r"mma\S*\.tf32\.tf32", found.ptx)) == multiplies, label
            assert ".f64" not in found.ptx, f"{label}: float64 in a float32 kernel"
        assert found.metadata.enable_fp_fusion is True, label
        assert found.metadata.shared <= 160 * 1024, f"{label}: {found.metadata.shared} bytes of shared memory"
        if found.sass:
            assert re.search(r"\bSTACK:0\b", found.resources), f"{label}: {found.resources}"
            assert not re.search(r"\b(LDL|STL)\b", found.sass), f"{label}: registers spill"
            assert ("DMMA" in found.sass) == (products > 0), label


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_every_kernel_is_launched(dtype):
    """Also every one of the ways through the product."""
    found = launches("rbf", dtype)
    assert {launch.name for launch in found} == {name for names in KERNELS.values() for name in names}
    flags = {
        tuple(dict(launch.constants)[flag] for flag in ("STORED", "WHOLE", "KEEP"))
        for launch in found
        if launch.name == "product_kernel"
    }
    assert flags == {(0, 1, 0), (0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)}


def test_block_sizes_fit_together():
    """Scratch is padded to the blocks of the product; all that use it have blocks that divide them."""
    assert {kind for _, kind in posterior.TILES} == set(TOLERANCES)
    assert fit_together(posterior.TILES)
    for way, rows in {"gradient": 256, "covariance": 256, "few": 256, "stored": 24}.items():
        key = way, torch.float64
        assert not fit_together({**posterior.TILES, key: replace(posterior.TILES[key], rows=rows)})
