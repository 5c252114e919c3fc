/*------------------------------------------------------------------------------------------------------------
  >>k-map
  From rows, columns and places in the reduction to elements. A slice is what one (n, g) addresses; offsets
  inside it are 32-bit when the host found that enough ("narrow"). Phases, taps and coordinates of fwd and
  bwd_data follow from the same numbers (ckci_gpu_dim): kernels that gather do not ask which of both they
  compute.
*/
#pragma once
#include "kernels/prim.h"

struct ckci_k_axis {
    int32_t count, taps, read0, tap0, write0;
    ckci_divisor by_count, by_taps;
};

/* In vector registers: what only lanes use of it. */
CKCI_K_FN void ckci_k_hold(ckci_k_axis &a)
{
    ckci_k_hold(a.by_count);
    ckci_k_hold(a.by_taps);
    a.read0 = ckci_k_lane_afresh(a.read0);
    a.tap0 = ckci_k_lane_afresh(a.tap0);
    a.write0 = ckci_k_lane_afresh(a.write0);
}

CKCI_K_FN void ckci_k_hold(ckci_k_axis (&axis)[3])
{
    ckci_k_hold(axis[0]);
    ckci_k_hold(axis[1]);
    ckci_k_hold(axis[2]);
}

/* Of a fwd convolution. */
CKCI_K_FN ckci_k_axis ckci_k_forward(const ckci_gpu_dim &d)
{
    ckci_k_axis a;
    a.count = d.length;
    a.taps = d.filter;
    a.read0 = -d.pad;
    a.tap0 = a.write0 = 0;
    a.by_count = d.count[0];
    a.by_taps = d.taps[0];
    return a;
}

/* Taps t of a phase satisfy t * dilation = phase + pad (modulo stride): the first one by trying, the others a
   period apart. */
CKCI_K_FN ckci_k_axis ckci_k_phase(const ckci_gpu_dim &d, int32_t phase)
{
    ckci_k_axis a = ckci_k_forward(d);
    if (d.gather_back) {
        int32_t sum = phase + d.pad, rest = sum - ckci_k_divide(sum, d.by_stride) * d.stride, tap = 0;
        const int32_t most = d.period < d.filter ? d.period : d.filter;
        CKCI_K_UNROLL(1)
        while (rest != 0 && tap < most) {
            rest -= d.slip;
            rest += rest < 0 ? d.stride : 0;
            tap++;
        }
        bool some = rest == 0 && tap < most;
        int32_t read = sum - tap * d.dilation, up = ckci_k_divide(read < 0 ? -read : read, d.by_stride);
        a.tap0 = tap;
        a.taps = some ? ckci_k_divide(d.filter - tap - 1, d.by_period) + 1 : 0;
        a.read0 = !some ? 0 : read < 0 ? -up : up;
        a.write0 = phase;
        a.count = ckci_k_divide(d.length - phase - 1, d.by_stride) + 1;
        a.by_count = a.count == (int32_t)d.count[0].d ? d.count[0] : d.count[1];
        a.by_taps = a.taps == (int32_t)d.taps[0].d ? d.taps[0] : d.taps[1];
    }
    return a;
}

/* The n-th phase: along an axis one with most taps first, so that it is not the last one that blocks take. */
CKCI_K_FN ckci_k_axis ckci_k_phase_in_turn(const ckci_gpu_dim &d, int32_t n)
{
    n += d.turn;
    return ckci_k_phase(d, n - (n >= d.phases ? d.phases : 0));
}

CKCI_K_FN void ckci_k_find_axes(const ckci_gpu_dim dim[3], int32_t phase, ckci_k_axis axis[3])
{
    int32_t zy = ckci_k_divide(phase, dim[2].by_phases), z = ckci_k_divide(zy, dim[1].by_phases);
    axis[2] = ckci_k_phase_in_turn(dim[2], phase - zy * dim[2].phases);
    axis[1] = ckci_k_phase_in_turn(dim[1], zy - z * dim[1].phases);
    axis[0] = ckci_k_phase_in_turn(dim[0], z);
}

/* n, z, y, x */
struct ckci_k_place {
    int32_t n, z, y, x;
};

CKCI_K_FN ckci_k_place ckci_k_decode(int32_t m, const ckci_divisor &dz, const ckci_divisor &dy,
                                     const ckci_divisor &dx)
{
    ckci_k_place q;
    int32_t rest = ckci_k_divide(m, dx);
    q.x = m - rest * (int32_t)dx.d;
    int32_t up = ckci_k_divide(rest, dy);
    q.y = rest - up * (int32_t)dy.d;
    q.n = ckci_k_divide(up, dz);
    q.z = up - q.n * (int32_t)dz.d;
    return q;
}

/* Neighbouring positions a to b along an axis (0: z): false if others, along those before it, are between. */
CKCI_K_FN bool ckci_k_along(const ckci_k_place &a, const ckci_k_place &b, int32_t axis, int32_t &first,
                            int32_t &last)
{
    first = axis == 0 ? a.z : axis == 1 ? a.y : a.x;
    last = axis == 0 ? b.z : axis == 1 ? b.y : b.x;
    return a.n == b.n && (axis == 0 || a.z == b.z) && (axis < 2 || a.y == b.y);
}

/* Taps low to high - 1 of an axis, one at least: at no others does any of its positions that read from
   `first` to `last` on at tap 0 find one of `len` places. step: from tap to tap. */
CKCI_K_FN void ckci_k_taps_met(int32_t first, int32_t last, int32_t taps, int32_t step, int32_t len,
                               int32_t &low, int32_t &high)
{
    const int32_t size = step < 0 ? -step : step;
    const int32_t before = step < 0 ? first - (len - 1) : -last, past = step < 0 ? last : len - 1 - first;
    low = before > 0 ? (before + size - 1) / size : 0;
    low = low < taps ? low : taps - 1;
    high = past < 0 ? 0 : past / size + 1;
    high = high > taps ? taps : high > low ? high : low + 1;
}

/* Of a tile's `count` taps those at which its rows, row0 to row0 + many - 1, read more than padding along
   p.trim's axis: the first one, and how many from there on (>>gpu-conv, ckci_trim). All, if the rows lie in
   two images. */
CKCI_K_FN int32_t ckci_k_trim(const ckci_gpu_conv &p, int32_t row0, int32_t many, int32_t &count)
{
    if (!p.trim) {
        return 0;
    }
    const int32_t axis = p.trim - 1, end = (row0 + many < p.rows ? row0 + many : p.rows) - 1;
    const ckci_gpu_dim *dim = p.dim, &d = dim[axis];
    const int32_t inner = (axis < 1 ? dim[1].filter : 1) * (axis < 2 ? dim[2].filter : 1);
    const int32_t read0 = d.gather_back ? d.pad : -d.pad;
    int32_t first, last, low, high;
    if (!ckci_k_along(ckci_k_decode(row0, dim[0].count[0], dim[1].count[0], dim[2].count[0]),
                      ckci_k_decode(end, dim[0].count[0], dim[1].count[0], dim[2].count[0]), axis, first,
                      last)) {
        return 0;
    }
    ckci_k_taps_met(first * d.read_step + read0, last * d.read_step + read0, d.filter, d.read_tap, d.read_len,
                    low, high);
    count = (high - low) * inner;
    return low * inner;
}

/* Offset of (c, z, y, x) inside a slice, in elements. */
CKCI_K_FN int64_t ckci_k_inside(const ckci_tensor &t, int32_t narrow, int32_t c, int32_t z, int32_t y,
                                int32_t x)
{
    if (narrow) {
        return (int32_t)((uint32_t)c * (uint32_t)t.stride[2] + (uint32_t)z * (uint32_t)t.stride[3] +
                         (uint32_t)y * (uint32_t)t.stride[4] + (uint32_t)x * (uint32_t)t.stride[5]);
    }
    const ckci_tensor &u = ckci_k_late(t);
    return c * u.stride[2] + z * u.stride[3] + y * u.stride[4] + x * u.stride[5];
}

/* Which work block `block` takes. Blocks go to dies in turns, of which each has an L2 cache of its own:
   neighbours, which read the same rows or the same weights, belong on one. So a die's blocks take a stretch
   of the work of each phase, one after the other, and every piece of work has one block. */
CKCI_K_FN int32_t ckci_k_in_order(const ckci_gpu_order &order, int32_t block)
{
    const int32_t first = ckci_k_divide(block, order.by_phase) * (int32_t)order.by_phase.d;
    const int32_t turn = ckci_k_divide(block - first, order.by_dies),
                  die = block - first - turn * (int32_t)order.by_dies.d;
    return first + die * order.each + (die < order.rest ? die : order.rest) + turn;
}
