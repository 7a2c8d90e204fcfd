"""What the graphics processor runs for the posterior: Triton's programs, launched by ``triton.py``.

A pointer to a process's scaled points comes with the stride from point to point and the stride from dimension to
dimension. ``rows`` number the points to predict, ``columns`` the cached ones.
"""

# mypy: allow-untyped-defs

import triton
import triton.language as tl

SIZES = ["num_points", "num_inputs", "num_weights"]
"""What they are not compiled anew for. Strides are multiples of :data:`~mfbo_torch.ops.posterior.tiles.PAD`, or one."""


@triton.jit
def squared_distances(x, x_point, x_dim, rows, num_rows, z, z_point, z_dim, columns, num_columns, DIM: tl.constexpr):
    """Tile of squared distances, by differences."""
    total = tl.zeros([rows.shape[0], columns.shape[0]], x.dtype.element_ty)
    for k in range(DIM):
        a = tl.load(x + rows * x_point + k * x_dim, mask=rows < num_rows, other=0.0)
        b = tl.load(z + columns * z_point + k * z_dim, mask=columns < num_columns, other=0.0)
        difference = a[:, None] - b[None, :]
        total += difference * difference
    return total


@triton.jit
def correlation(square, KERNEL: tl.constexpr):
    """Correlation at a squared distance: ``mfbo_torch.ops.kernels.correlation``."""
    if KERNEL == "rbf":
        return tl.exp(-0.5 * square)
    elif KERNEL == "matern12":
        return tl.exp(-tl.sqrt(square))
    elif KERNEL == "matern32":
        r = 1.7320508075688772 * tl.sqrt(square)
        return (1.0 + r) * tl.exp(-r)
    else:
        r = 2.23606797749979 * tl.sqrt(square)
        return (1.0 + r + r * r * 0.3333333333333333) * tl.exp(-r)


@triton.jit
def times_slope(tile, square, KERNEL: tl.constexpr):
    """``tile f`` where ``dk / dx = f (x - z)`` in lengthscales; zero at ``x = z`` where it is not defined. Factor by
    factor, which leaves fewer numbers alive in registers."""
    if KERNEL == "rbf":
        return -tile * tl.exp(-0.5 * square)
    elif KERNEL == "matern12":
        r = tl.sqrt(square)
        tile = tile / tl.where(r > 0.0, -r, -float("inf"))
        return tile * tl.exp(-r)
    elif KERNEL == "matern32":
        return -3.0 * tile * tl.exp(-1.7320508075688772 * tl.sqrt(square))
    else:
        r = 2.23606797749979 * tl.sqrt(square)
        tile *= -1.6666666666666667 * (1.0 + r)
        return tile * tl.exp(-r)


@triton.jit
def last_point(mask, num_inputs, RAGGED: tl.constexpr):
    """Number of cached points up to the last one that is not padding."""
    if RAGGED:
        last = tl.zeros([512], tl.int32)
        for start in range(0, num_inputs, 512):
            at = start + tl.arange(0, 512)
            there = tl.load(mask + at, mask=at < num_inputs, other=0.0) > 0.0
            last = tl.where(there, at + 1, last)
        return tl.max(last, 0)
    else:
        return num_inputs


@triton.jit(do_not_specialize=SIZES)
def covariance_kernel(
    x, inputs, mask, alpha, outputscale,
    covariance, means,
    num_points, num_inputs, num_weights, padded_points, width, x_point, x_dim, z_point, z_dim,
    KERNEL: tl.constexpr, DIM: tl.constexpr, RAGGED: tl.constexpr,
    POINTS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """One tile ``POINTS x ROWS`` of the covariances, ``B x padded_points x width``, and its part of the mean,
    ``width / ROWS x B x num_points``."""
    process = tl.program_id(1).to(tl.int64)
    blocks = width // ROWS
    block = tl.program_id(0) % blocks
    first = (tl.program_id(0) // blocks) * POINTS
    rows = first + tl.arange(0, POINTS)
    columns = block * ROWS + tl.arange(0, ROWS)
    x += process * x_dim * DIM
    inputs += process * num_inputs * DIM
    mask += process * num_inputs
    alpha += process * num_weights
    mean = tl.zeros([POINTS], x.dtype.element_ty)
    if block * ROWS < last_point(mask, num_inputs, RAGGED):
        square = squared_distances(
            x, x_point, x_dim, rows, num_points, inputs, z_point, z_dim, columns, num_inputs, DIM
        )
        there = tl.load(mask + columns, mask=columns < num_inputs, other=0.0)
        tile = correlation(square, KERNEL) * (there * tl.load(outputscale + process))[None, :]
        out = covariance + (process * padded_points + first) * width + block * ROWS
        tl.store(out + tl.arange(0, POINTS)[:, None] * width + tl.arange(0, ROWS)[None, :], tile)
        weights = tl.load(alpha + columns, mask=columns < num_weights, other=0.0)
        mean = tl.sum(tile * weights[None, :], 1)
    out = means + (block * tl.num_programs(1) + process) * num_points
    tl.store(out + rows, mean, mask=rows < num_points)


@triton.jit(do_not_specialize=[*SIZES, "v_process", "v_points", "v_rows"])
def product_kernel(
    x, inputs, mask, alpha, outputscale, constant, inverse,
    covariance, means, squares, mean, variance, V,
    num_points, num_inputs, num_weights, padded_points, width, x_point, x_dim, z_point, z_dim,
    v_process, v_point, v_row, v_points, v_rows,
    KERNEL: tl.constexpr, DIM: tl.constexpr, RAGGED: tl.constexpr,
    STORED: tl.constexpr, WHOLE: tl.constexpr, KEEP: tl.constexpr,
    POINTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """``ROWS`` rows of ``v`` at ``POINTS`` points, and the sum of their squares.

    ``inverse`` is padded to ``width x width``. With ``STORED`` the covariances are read, otherwise they are recomputed
    and the part of the mean that belongs to these columns comes along. With ``WHOLE`` there is one block of rows, whose
    sums are the mean and the variance. With ``KEEP``, ``v`` is written to ``V`` too.
    """
    process = tl.program_id(1).to(tl.int64)
    blocks = tl.cdiv(num_inputs, ROWS)
    block = blocks - 1 - tl.program_id(0) % blocks  # the longest first
    first = (tl.program_id(0) // blocks) * POINTS
    rows = first + tl.arange(0, POINTS)
    outputs = block * ROWS + tl.arange(0, ROWS)
    x += process * x_dim * DIM
    inputs += process * num_inputs * DIM
    mask += process * num_inputs
    alpha += process * num_weights
    count = last_point(mask, num_inputs, RAGGED)
    scale = tl.load(outputscale + process)
    dtype: tl.constexpr = inverse.dtype.element_ty
    v = tl.zeros([POINTS, ROWS], dtype)
    weighted = tl.zeros([POINTS, COLUMNS], dtype)
    end = tl.minimum(count, (block + 1) * ROWS)
    if block * ROWS >= count:
        end = 0
    if STORED:
        columns = tl.arange(0, COLUMNS)
        k = covariance + (process * padded_points + first) * width
        k += tl.arange(0, POINTS)[:, None] * width + columns[None, :]
        factor = inverse + (process * width + block * ROWS) * width
        factor += tl.arange(0, ROWS)[None, :] * width + columns[:, None]
        for _ in range(0, end, COLUMNS):
            v = tl.dot(tl.load(k), tl.load(factor), v, input_precision="tf32x3", out_dtype=dtype)
            k += COLUMNS
            factor += COLUMNS
    else:
        factor = inverse + process * width * width
        for start in range(0, end, COLUMNS):
            columns = start + tl.arange(0, COLUMNS)
            inside = columns < num_inputs
            # first, so that it arrives while the covariances are computed
            part = tl.load(factor + outputs.to(tl.int64)[None, :] * width + columns[:, None])
            there = tl.load(mask + columns, mask=inside, other=0.0)
            # each column has its part in the mean where it meets the diagonal
            own = (columns >= block * ROWS) & (columns < num_weights)
            weights = tl.load(alpha + columns, mask=own, other=0.0)
            square = squared_distances(
                x, x_point, x_dim, rows, num_points, inputs, z_point, z_dim, columns, num_inputs, DIM
            )
            k = correlation(square, KERNEL) * (there * scale)[None, :]
            weighted += k * weights[None, :]
            v = tl.dot(k, part, v, input_precision="tf32x3", out_dtype=dtype)
    explained = tl.sum(v * v, 1)
    if WHOLE:
        posterior = tl.load(constant + process) + tl.sum(weighted, 1)
        tl.store(mean + process * num_points + rows, posterior, mask=rows < num_points)
        left = scale - explained
        left = tl.where(left < 0.0, 0.0, left)
        tl.store(variance + process * num_points + rows, left, mask=rows < num_points)
    else:
        out = (block * tl.num_programs(1) + process) * num_points + rows
        tl.store(squares + out, explained, mask=rows < num_points)
        if not STORED:
            tl.store(means + out, tl.sum(weighted, 1), mask=rows < num_points)
    if KEEP:
        at = V + process * v_process + rows.to(tl.int64)[:, None] * v_point + outputs.to(tl.int64)[None, :] * v_row
        tl.store(at, v, mask=(rows < v_points)[:, None] & (outputs < v_rows)[None, :])


@triton.jit(do_not_specialize=["num_points", "mean_blocks", "blocks"])
def finish_kernel(
    means, squares, constant, outputscale, mean, variance, num_points, mean_blocks, blocks, POINTS: tl.constexpr
):
    """Mean and variance from the parts of each block, added in the order of the blocks."""
    process = tl.program_id(1).to(tl.int64)
    processes = tl.num_programs(1)
    rows = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    inside = rows < num_points
    total = tl.zeros([POINTS], means.dtype.element_ty)
    explained = tl.zeros([POINTS], means.dtype.element_ty)
    for block in range(mean_blocks):
        total += tl.load(means + (block * processes + process) * num_points + rows, mask=inside, other=0.0)
    for block in range(blocks):
        explained += tl.load(squares + (block * processes + process) * num_points + rows, mask=inside, other=0.0)
    tl.store(mean + process * num_points + rows, tl.load(constant + process) + total, mask=inside)
    left = tl.load(outputscale + process) - explained
    tl.store(variance + process * num_points + rows, tl.where(left < 0.0, 0.0, left), mask=inside)


@triton.jit
def pull_back(
    w, by_mean, by_variance, scale, out,
    x, x_point, x_dim, rows, num_rows, z, z_point, z_dim, columns, num_columns,
    mask, alpha, num_weights, lengthscale, KERNEL: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """The part of some cached points in the gradient; ``by_variance`` carries its factor -2."""
    weights = tl.load(alpha + columns, mask=columns < num_weights, other=0.0)
    tile = by_mean[:, None] * weights[None, :] + by_variance[:, None] * w
    tile *= (scale * tl.load(mask + columns, mask=columns < num_columns, other=0.0))[None, :]
    square = squared_distances(x, x_point, x_dim, rows, num_rows, z, z_point, z_dim, columns, num_columns, DIM)
    tile = times_slope(tile, square, KERNEL)
    for k in range(DIM):
        a = tl.load(x + rows * x_point + k * x_dim, mask=rows < num_rows, other=0.0)
        b = tl.load(z + columns * z_point + k * z_dim, mask=columns < num_columns, other=0.0)
        total = tl.sum(tile * (a[:, None] - b[None, :]), 1) / tl.load(lengthscale + k)
        tl.store(out + rows * DIM + k, total, mask=rows < num_rows)


@triton.jit(do_not_specialize=[*SIZES, "parts"])
def gradient_kernel(
    x, inputs, mask, alpha, lengthscale, outputscale, inverse,
    V, squares, grad_mean, grad_variance, gradients,
    parts, num_points, num_inputs, num_weights, padded_points, width, x_point, x_dim, z_point, z_dim,
    KERNEL: tl.constexpr, DIM: tl.constexpr, RAGGED: tl.constexpr,
    POINTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    r"""The part of ``ROWS`` cached points in the gradient at ``POINTS`` points.

    :math:`w = L^{-\top} v` for these columns, then
    :math:`\sum_j (g_\mu \alpha_j - 2 g_{\sigma^2} w_j) \, \partial k_j / \partial x`. ``V`` is
    ``B x padded_points x width``, ``gradients`` is ``2 blocks x B x num_points x DIM``.
    """
    process = tl.program_id(1).to(tl.int64)
    processes = tl.num_programs(1)
    blocks = tl.cdiv(num_inputs, ROWS)
    block = tl.program_id(0) % blocks  # the longest first
    first = (tl.program_id(0) // blocks) * POINTS
    rows = first + tl.arange(0, POINTS)
    inside = rows < num_points
    columns = block * ROWS + tl.arange(0, ROWS)
    x += process * x_dim * DIM
    inputs += process * num_inputs * DIM
    mask += process * num_inputs
    alpha += process * num_weights
    lengthscale += process * DIM
    dtype: tl.constexpr = inverse.dtype.element_ty
    w = tl.zeros([POINTS, ROWS], dtype)
    steps = tl.arange(0, COLUMNS)
    v = V + (process * padded_points + first) * width + block * ROWS
    v += tl.arange(0, POINTS)[:, None] * width + steps[None, :]
    factor = inverse + process * width * width + steps[:, None] * width + columns[None, :]
    factor += block.to(tl.int64) * ROWS * width
    for _ in range(block * ROWS, last_point(mask, num_inputs, RAGGED), COLUMNS):
        w = tl.dot(tl.load(v), tl.load(factor), w, input_precision="tf32x3", out_dtype=dtype)
        v += COLUMNS
        factor += COLUMNS * width
    explained = tl.zeros([POINTS], dtype)
    for part in range(parts):
        explained += tl.load(squares + (part * processes + process) * num_points + rows, mask=inside, other=0.0)
    scale = tl.load(outputscale + process)
    by_mean = tl.load(grad_mean + process * num_points + rows, mask=inside, other=0.0)
    by_variance = tl.load(grad_variance + process * num_points + rows, mask=inside, other=0.0)
    by_variance = tl.where(scale - explained < 0.0, 0.0, -2.0 * by_variance)
    # by halves, the even columns and the odd ones, which fits into the registers
    even, odd = tl.split(tl.reshape(w, [POINTS, ROWS // 2, 2]))
    evens = block * ROWS + 2 * tl.arange(0, ROWS // 2)
    out = gradients + (2 * block * processes + process) * num_points * DIM
    pull_back(
        even, by_mean, by_variance, scale, out,
        x, x_point, x_dim, rows, num_points, inputs, z_point, z_dim, evens, num_inputs,
        mask, alpha, num_weights, lengthscale, KERNEL, DIM,
    )  # fmt: skip
    out += processes * num_points * DIM
    pull_back(
        odd, by_mean, by_variance, scale, out,
        x, x_point, x_dim, rows, num_points, inputs, z_point, z_dim, evens + 1, num_inputs,
        mask, alpha, num_weights, lengthscale, KERNEL, DIM,
    )  # fmt: skip
