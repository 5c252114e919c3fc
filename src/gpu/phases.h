/*------------------------------------------------------------------------------------------------------------
  >>gpu-phases
  bwd_data with strides, for tiles that the TMA brings. Inputs fall into phases, those that are a stride apart
  along each axis: input q * stride + e gets what dout has at q + (e + pad - t * dilation) / stride by tap t,
  where that is a whole number. So a phase is a convolution of stride 1 with some of the taps. All phases read
  the same boxes of pixels, which begin where the first tap of any of them does.
*/
#pragma once
#include "gpu/conv.h"

CKCI_FN int64_t ckci_axis_phases(const ckci_conv *c, int axis)
{
    return ckci_max(ckci_min(c->stride[axis], c->input[axis]), 1);
}

/* Taps of the n-th phase as kernels take them (ckci_k_find_axes). */
CKCI_FN int64_t ckci_taps_in_turn(const ckci_conv *c, const ckci_gpu_dim dim[3], int64_t n)
{
    int64_t taps = 1;
    for (int i = 2; i >= 0; i--) {
        const int64_t phases = ckci_max(dim[i].phases, 1);
        taps *= ckci_map_axis(c, i, (n % phases + dim[i].turn) % phases).taps;
        n /= phases;
    }
    return taps;
}

/* Is c one whose phases the TMA's tiles take? */
CKCI_FN int ckci_phased(const ckci_conv *c)
{
    return c->op == CKCONV_BWD_DATA && !ckci_pointwise(c) &&
           (c->stride[0] > 1 || c->stride[1] > 1 || c->stride[2] > 1);
}

/* Of all phases of an axis: the first pixel that position 0 reads, and how far behind it the last one is. 0:
   no phase has a tap. */
CKCI_FN int ckci_phase_reach(const ckci_conv *c, int axis, int64_t *low, int64_t *span)
{
    int64_t high = 0;
    int some = 0;
    *low = 0;
    for (int64_t e = 0; e < ckci_axis_phases(c, axis); e++) {
        const ckci_axis a = ckci_map_axis(c, axis, e);
        if (a.taps > 0) { /* later taps read further down */
            const int64_t first = a.read0 + (a.taps - 1) * a.read_tap, last = a.read0;
            *low = some ? ckci_min(*low, first) : first;
            high = some ? ckci_max(high, last) : last;
            some = 1;
        }
    }
    *span = high - *low;
    return some;
}

/* Phase `which` of all behind those that are listed. low: where boxes begin. */
CKCI_FN void ckci_add_phase(const ckci_conv *c, const int64_t *low, int64_t which, int64_t blocks,
                            int64_t subs, ckci_gpu_phases *p)
{
    const int64_t wide = ckci_axis_phases(c, 2), high = ckci_axis_phases(c, 1);
    const int64_t e[3] = {which / wide / high, which / wide % high, which % wide};
    ckci_axis a[3];
    for (int i = 0; i < 3; i++) {
        a[i] = ckci_map_axis(c, i, e[i]);
    }
    const int64_t taps = a[0].taps * a[1].taps * a[2].taps;
    int32_t first = p->first[p->count];
    for (int64_t j = 0; j < taps; j++) {
        const int64_t at[3] = {j / a[2].taps / a[1].taps, j / a[2].taps % a[1].taps, j % a[2].taps};
        uint32_t pixel = 0;
        int64_t tap = 0;
        for (int i = 0; i < 3; i++) {
            const int64_t place = a[i].taps - 1 - at[i]; /* pixels go up, taps down */
            pixel |= (uint32_t)(a[i].read0 + place * a[i].read_tap - low[i]) << 8 * (2 - i);
            tap = tap * c->filter[i] + a[i].tap0 + place * a[i].tap_step;
        }
        p->tap[first++] = pixel | (uint32_t)tap << 24;
    }
    p->origin[p->count] = (uint32_t)(e[2] | e[1] << 8 | e[0] << 16);
    p->at[p->count + 1] = p->at[p->count] + (int32_t)ckci_max(ckci_ceil_div(taps * blocks, subs), 1);
    p->first[++p->count] = (unsigned char)first;
}

/* All phases, those with most taps first. `wide` channels are a box, 64 of them a step. 0: there are too many
   for the list, or they reach too far. */
CKCI_FN int ckci_make_phases(const ckci_conv *c, int32_t wide, ckci_gpu_phases *p)
{
    const int64_t blocks = ckci_ceil_div(c->k, wide), subs = CKCI_TMA_BOX / wide;
    int64_t phases = 1, all = 1, low[3];
    memset(p, 0, sizeof *p);
    for (int i = 0; i < 3; i++) {
        phases = ckci_saturating_mul(phases, ckci_axis_phases(c, i));
        all = ckci_saturating_mul(all, c->filter[i]);
    }
    if (phases > CKCI_TMA_PHASES || all > CKCI_TMA_TAPS ||
        ckci_saturating_mul(all + phases, blocks) > INT32_MAX) {
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        int64_t span;
        if (!ckci_phase_reach(c, i, &low[i], &span) || span > 255) {
            return 0;
        }
    }
    int64_t own[CKCI_TMA_PHASES];
    for (int64_t which = 0; which < phases; which++) {
        int64_t rest = which;
        own[which] = 1;
        for (int i = 2; i >= 0; i--) {
            own[which] *= ckci_map_axis(c, i, rest % ckci_axis_phases(c, i)).taps;
            rest /= ckci_axis_phases(c, i);
        }
    }
    for (int64_t n = 0; n < phases; n++) {
        int64_t most = 0;
        for (int64_t which = 1; which < phases; which++) {
            most = own[which] > own[most] ? which : most;
        }
        ckci_add_phase(c, low, most, blocks, subs, p);
        own[most] = -1;
    }
    return 1;
}
