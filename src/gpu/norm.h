/*------------------------------------------------------------------------------------------------------------
  >>gpu-norm
  Group norm (>>k-norm-common): how slabs are shared out to blocks, which of them stay in LDS, and the
  launches of a pass. A block owns a part of the positions of its groups; parts of a slab meet in workspace,
  or in a cluster's blocks on NVIDIA. Statistics, dx, dgamma and dbeta are kernels of their own only where one
  cannot do all of it. Without workspace there is a plan for every problem, a slower one.
*/
#pragma once
#include "gpu/conv.h"

/* Lanes for a block of `columns` x `positions` that waste least. fast: what neighbouring threads take. */
CKCI_FN void ckci_norm_lanes(int64_t fast, int64_t slow, int64_t *fast_lanes, int64_t *slow_lanes)
{
    int64_t best = INT64_MAX, most = 256;
    *fast_lanes = *slow_lanes = 1;
    for (int i = -1; i < 8; i++) {
        /* all, else 64, 32, 96, ... 256 */
        int64_t lanes = i < 0 ? ckci_min(fast, most) : i == 0 ? 64 : i == 1 ? 32 : 32 * (int64_t)(i + 1);
        int64_t others = ckci_min(256 / lanes, slow);
        int64_t time = ckci_saturating_mul(ckci_ceil_div(fast, lanes), ckci_ceil_div(slow, others));
        if (lanes <= fast && time < best) {
            best = time;
            *fast_lanes = lanes;
            *slow_lanes = others;
        }
    }
}

/* The same of wide blocks on AMD, channels first, where a column costs a lane as much as a place in it does.
   `least` lanes or more of a channel: whole lines of memory. */
CKCI_FN void ckci_norm_lanes_amd(int64_t fast, int64_t slow, int64_t least, int64_t *fast_lanes,
                                 int64_t *slow_lanes)
{
    int64_t best = INT64_MAX;
    *fast_lanes = *slow_lanes = 1;
    for (int64_t lanes = 256; lanes >= 1 && (lanes >= least || 2 * lanes > fast); lanes /= 2) {
        int64_t all = ckci_min(lanes, fast), others = ckci_min(256 / all, slow);
        int64_t time = ckci_saturating_mul(ckci_ceil_div(fast, all) + 1, ckci_ceil_div(slow, others));
        if (time < best) {
            best = time;
            *fast_lanes = all;
            *slow_lanes = others;
        }
    }
}

/* Bytes of the three workspace arrays. */
CKCI_FN int64_t ckci_norm_workspace(const ckci_groupnorm *p, int64_t parts, int64_t bytes[3])
{
    int64_t size = (int64_t)ckci_size(p->stat);
    int64_t slabs = ckci_saturating_mul(ckci_saturating_mul(p->n, p->g), parts);
    int back = p->op == CKCONV_GROUPNORM_BWD;
    bytes[0] = parts > 1 ? ckci_saturating_mul(slabs, 16) : 0;
    bytes[1] = parts > 1 && back ? ckci_saturating_mul(slabs, 2 * size) : 0;
    bytes[2] = back ? ckci_saturating_mul(ckci_saturating_mul(slabs, p->c), 2 * size) : 0;
    return ckci_saturating_add(ckci_saturating_add(bytes[0], bytes[1]), bytes[2]);
}

/* May lanes take eight numbers of every tensor? 2: with loads of 16 bytes, 1: one by one (channels first
   only). */
CKCI_FN int32_t ckci_norm_wide(const ckci_groupnorm *p, int along_x)
{
    const ckci_tensor *t[3] = {&p->in, &p->out, p->op == CKCONV_GROUPNORM_BWD ? &p->din : &p->out};
    int fits = p->stat != CKCONV_F64 && p->in.len[3] == 1 && p->in.len[4] == 1, aligned = 1,
        dim = along_x ? 5 : 2;
    for (int i = 0; i < 3; i++) {
        int64_t size = (int64_t)ckci_size(t[i]->dtype);
        fits = fits && (t[i]->stride[dim] == 1 || t[i]->len[dim] == 1) && size >= 2 && size <= 4;
        aligned = aligned && (uintptr_t)t[i]->p % 16 == 0 && p->in.len[5] % (along_x ? 8 : 1) == 0;
        for (int j = 0; j < 6; j++) {
            /* channels last: groups follow each other without a gap */
            int64_t stride = t[i]->stride[j];
            fits = fits && (along_x || j != 0 || t[i]->len[0] == 1 || stride == p->c);
            aligned = aligned && (j == dim || (j == 0 && !along_x) || t[i]->len[j] == 1 || stride % 8 == 0);
        }
    }
    aligned = aligned && (along_x || p->g * p->c % 8 == 0);
    return !fits ? 0 : aligned ? 2 : along_x ? 1 : 0;
}

/* Groups of a wide block; 0: none fit. Channels last, so many channels or more, whole eights, each with a
   lane of its own; channels first, one that fills a block. */
CKCI_FN int64_t ckci_norm_wide_set(const ckci_groupnorm *p, int along_x, int64_t channels)
{
    int64_t set = 1;
    while (!along_x && set < p->g && set < 256 && set * p->c < 1024 &&
           (set * p->c < channels || set * p->c % 8 != 0 || set * p->c / 8 * p->space < 256)) {
        set++;
    }
    while (!along_x && set > 1 && set * p->c % 8 != 0) {
        set--;
    }
    int fits = along_x ? ckci_saturating_mul(p->c, p->space) >= 256
                       : set * p->c % 8 == 0 && (set == 1 || (set * p->c <= 2048 && set <= 256));
    return fits ? set : 0;
}

/* Channels first, forward: a group's planes that follow each other without a gap are one row. Where eights
   of a plane are not aligned but those of the row are, *p becomes such a problem of one channel. Returns how
   many channels a row has; 0: *p is as it was. Eight numbers of a row are of two channels at most. */
CKCI_FN int32_t ckci_norm_join(ckci_groupnorm *p)
{
    ckci_groupnorm row = *p;
    ckci_tensor *t[2] = {&row.in, &row.out};
    row.space = ckci_saturating_mul(p->c, p->space);
    row.c = 1;
    int joins = p->op == CKCONV_GROUPNORM_FWD && p->c > 1 && p->c <= CKCI_NORM_JOINED && p->space >= 8 &&
                row.space <= INT32_MAX / 2 && ckci_norm_wide(p, 1) == 1;
    for (int i = 0; i < 2; i++) {
        joins = joins && t[i]->stride[2] == p->space;
        t[i]->len[5] = row.space;
        t[i]->len[2] = 1;
    }
    if (!joins || ckci_norm_wide(&row, 1) < 2 || ckci_norm_wide_set(&row, 1, 0) == 0) {
        return 0;
    }
    const int32_t channels = (int32_t)p->c;
    *p = row;
    return channels;
}

/* Lanes of wide blocks, which have k->part positions. */
CKCI_FN void ckci_norm_wide_lanes(const ckci_groupnorm *p, const ckconv_device *device, ckci_gpu_norm *k)
{
    int64_t lanes_c, lanes_p, positions = ckci_max(k->part + (k->part_rest > 0), 1);
    if (k->along_x && device->kind != CKCONV_DEVICE_NVIDIA) {
        /* 16 lanes take 256 bytes at least, of which a fifth is wasted where rows begin inside of lines */
        const int64_t least = p->space % 32 == 0 ? 16 : 32;
        ckci_norm_lanes_amd(ckci_ceil_div(positions, 8), p->c, least, &lanes_p, &lanes_c);
    } else if (k->along_x) {
        ckci_norm_lanes(ckci_ceil_div(positions, 8), p->c, &lanes_p, &lanes_c);
    } else {
        lanes_c = ckci_min(k->set * p->c / 8, 256);
        lanes_p = ckci_min(256 / lanes_c, positions);
    }
    k->lanes_c = (int32_t)lanes_c;
    k->lanes_p = (int32_t)lanes_p;
}

/* Lanes of blocks that keep x and dy. Channels first, of a channel: a power of two, a wave or all that it
   needs at least, so that sums of channels are few shuffles. */
CKCI_FN void ckci_norm_kept_lanes(const ckci_groupnorm *p, const ckconv_device *device, ckci_gpu_norm *k)
{
    const int64_t positions = ckci_max(k->part + (k->part_rest > 0), 1), eights = ckci_ceil_div(positions, 8);
    int64_t best = INT64_MAX;
    ckci_norm_wide_lanes(p, device, k);
    for (int32_t lanes = 256; k->along_x && lanes >= 1 && (lanes >= 32 || 2 * lanes > eights); lanes /= 2) {
        int64_t time = ckci_ceil_div(p->c, 256 / lanes) * ckci_ceil_div(eights, lanes);
        if (time < best && p->c * ckci_max(lanes / 32, 1) <= 768) {
            best = time;
            k->lanes_p = lanes;
            k->lanes_c = 256 / lanes;
        }
    }
}

/* Positions of the parts, and lanes of wide blocks. Those with channels first have whole eights, on AMD whole
   lines of memory if they are long: there may be fewer parts. */
CKCI_FN void ckci_norm_parts(const ckci_groupnorm *p, const ckconv_device *device, int64_t parts,
                             ckci_gpu_norm *k)
{
    k->parts = (int32_t)parts;
    k->part = (int32_t)(p->space / parts);
    k->part_rest = (int32_t)(p->space % parts);
    if (!k->wide) {
        return;
    }
    if (k->along_x) {
        const int64_t each = ckci_ceil_div(p->space, parts);
        const int64_t whole = parts > 1 && each >= 1024 && device->kind != CKCONV_DEVICE_NVIDIA ? 64 : 8;
        k->part = (int32_t)(ckci_ceil_div(each, whole) * whole);
        k->part_rest = 0;
        k->parts = (int32_t)ckci_max(ckci_ceil_div(p->space, k->part), 1);
    }
    if (k->kept && p->op == CKCONV_GROUPNORM_BWD) {
        ckci_norm_kept_lanes(p, device, k);
    } else {
        ckci_norm_wide_lanes(p, device, k);
    }
}

/* Does a part fit into LDS? bwd: but for three eighths, channels last seven fifteenths, which are read again
   from the caches. */
CKCI_FN int ckci_norm_fits(const ckci_groupnorm *p, const ckci_gpu_norm *k)
{
    const int64_t size = (int64_t)ckci_size(p->in.dtype);
    if (p->op == CKCONV_GROUPNORM_BWD) {
        return 2 * size * k->set * p->c * (k->part + (k->part_rest > 0)) <=
               (k->along_x ? CKCI_NORM_BACK / 5 * 8 : CKCI_NORM_BACK / 8 * 15);
    }
    const int64_t columns = ckci_ceil_div(p->c, k->lanes_c), place = 8 * 256 * size;
    const int64_t places = ckci_ceil_div(ckci_ceil_div(k->part, 8), k->lanes_p);
    return ckci_min(ckci_saturating_mul(columns, places), CKCI_NORM_KEPT) * place <= CKCI_NORM_KEPT;
}

/* Time of clusters that keep x and dy, channels last, in elements of one block; fitted to an H100. What does
   not stay costs six times as much again. Two blocks run on a unit; a cluster stays among 16 units that share
   a part of the chip (NVIDIA: GPC), so that half a cluster's room is lost there. */
CKCI_FN double ckci_norm_kept_time(const ckci_groupnorm *p, const ckconv_device *device, int64_t slabs,
                                   const ckci_gpu_norm *k)
{
    const int64_t units = device->compute_units, lost = ckci_ceil_div(units, 16) * (k->parts - 1) / 2;
    const int64_t room = ckci_max((2 * units - lost) / k->parts, 1);
    const double all = (double)k->set * (double)p->c * (double)(k->part + (k->part_rest > 0));
    const double past = all - (double)CKCI_NORM_BACK / (2 * (double)ckci_size(p->in.dtype));
    const double rounds = (double)slabs / (double)room / 2 + (double)ckci_ceil_div(slabs, room) / 2;
    return (rounds < 1 ? 1 : rounds) * (16384 + all + (past > 0 ? 6 * past : 0));
}

/* Parts where the blocks of a pass keep what they read in LDS, 0: they do not. Those of one slab are a
   cluster. Channels last: those of the least ckci_norm_kept_time. First: the fewest, a power of two, that
   fit; more while two blocks for each compute unit have 8192 elements. */
CKCI_FN int64_t ckci_norm_keep(const ckci_groupnorm *p, const ckconv_device *device, int64_t limit,
                               ckci_gpu_norm *k)
{
    const int sm = ckci_sm(device), back = p->op == CKCONV_GROUPNORM_BWD;
    const int64_t most = sm >= 90 ? 8 : 1, sets = ckci_ceil_div(p->g, k->set);
    const int64_t slabs = ckci_max(ckci_saturating_mul(p->n, sets), 1);
    const int64_t lds = back ? (int64_t)CKCI_NORM_BACK_LDS : (int64_t)CKCI_NORM_KEPT_LDS;
    int64_t array[3], best = 0;
    k->kept = 0;
    if ((!back && !k->along_x) || sm < 80 || device->lds_bytes < lds ||
        (back && (k->set * p->c > 256 || k->set > CKCI_NORM_BACK_SET || p->out.dtype != p->in.dtype ||
                  p->din.dtype != p->in.dtype))) {
        return 0;
    }
    k->kept = 1;
    if (back && !k->along_x) {
        double least = 0;
        for (int64_t parts = 1; parts <= most && parts <= p->space; parts++) {
            ckci_norm_parts(p, device, parts, k);
            if (best > 0 && k->set * p->c * k->part < 8192) {
                break;
            }
            if (ckci_norm_workspace(p, parts, array) <= limit && ckci_norm_fits(p, k)) {
                const double time = ckci_norm_kept_time(p, device, slabs, k);
                if (best == 0 || time < least) {
                    best = parts;
                    least = time;
                }
            }
        }
        k->kept = best > 0;
        return best;
    }
    for (int64_t parts = 1; parts <= most && parts <= p->space; parts *= 2) {
        ckci_norm_parts(p, device, parts, k);
        if (k->parts == parts && ckci_norm_workspace(p, parts, array) <= limit && ckci_norm_fits(p, k)) {
            best = parts;
        }
        if (best > 0 && (ckci_saturating_mul(slabs, parts) > (int64_t)device->compute_units ||
                         k->set * p->c * (p->space / parts) < 16384)) {
            break;
        }
    }
    k->kept = best > 0;
    k->bulk = best > 0 && back && sm >= 90 && k->aligned && k->along_x;
    k->late = device->compute_units;
    return best;
}

/* Parts of a slab of wide blocks at most: each thread of a block adds up to eight parts' statistics of a
   group. Parts have 8192 elements or more. */
CKCI_FN int64_t ckci_norm_most_parts(const ckci_groupnorm *p, int64_t set)
{
    return ckci_min(ckci_min(256, 2048 / set), ckci_saturating_mul(set * p->c, p->space) / 8192);
}

/* Wide blocks of `set` groups at most. */
CKCI_FN int64_t ckci_norm_most_blocks(const ckci_groupnorm *p, int64_t set)
{
    const int64_t parts = ckci_max(ckci_norm_most_parts(p, set), 1);
    return ckci_saturating_mul(p->n, ckci_ceil_div(p->g, set) * parts);
}

/* Makes blocks wide where they can be. Returns the parts of ckci_norm_keep. Sums of channels need workspace.
   Channels last, a row of a block is 64 channels where a slab of them fits into LDS or is large, else 32;
   fewer where these are so many groups (instance norm) that blocks would be fewer than compute units, but for
   what memory reads together: 32 bytes (AMD: 64). */
CKCI_FN int64_t ckci_norm_widen(const ckci_groupnorm *p, const ckconv_device *device, int64_t limit, int keep,
                                ckci_gpu_norm *k)
{
    int64_t array[3];
    const int32_t wide = ckci_norm_wide(p, k->along_x), any = k->set;
    if (!wide || ckci_norm_workspace(p, 1, array) > limit ||
        (!k->along_x && device->kind == CKCONV_DEVICE_NVIDIA && device->lds_bytes < CKCI_NORM_RING_LDS)) {
        return 0;
    }
    const int broad = p->op == CKCONV_GROUPNORM_BWD && !k->along_x;
    k->wide = 1;
    k->aligned = wide == 2;
    for (int64_t channels = broad ? 64 : 32; keep && channels >= 32; channels /= 2) {
        k->set = (int32_t)ckci_norm_wide_set(p, k->along_x, channels);
        const int64_t kept = k->set > 0 ? ckci_norm_keep(p, device, limit, k) : 0;
        if (kept > 0) {
            return kept;
        }
    }
    int64_t set = ckci_norm_wide_set(p, k->along_x, 64);
    set = ckci_saturating_mul(set * p->c, p->space) < 65536 ? ckci_norm_wide_set(p, k->along_x, 32) : set;
    const int64_t line = (device->kind == CKCONV_DEVICE_NVIDIA ? 32 : 64) / (int64_t)ckci_size(p->in.dtype);
    for (int64_t channels = 32; channels >= line && set > 1 && !k->along_x; channels /= 2) {
        const int64_t next = ckci_norm_wide_set(p, 0, channels);
        set = next > 0 && ckci_norm_most_blocks(p, set) < device->compute_units ? next : set;
    }
    k->wide = set > 0;
    k->set = set > 0 ? (int32_t)set : any;
    return 0;
}

/* Geometry, within `limit` bytes of workspace. *blocks is the grid of all kernels but norm_param. keep: a
   pass may keep what it reads in LDS. */
CKCI_FN ckconv_status ckci_make_gpu_norm(const ckci_groupnorm *problem, const ckconv_device *device,
                                         int64_t limit, int keep, ckci_gpu_norm *k, int64_t *bytes,
                                         int64_t *blocks, ckconv_error *err)
{
    ckci_groupnorm p = ckci_flatten_norm(problem);
    int64_t most = INT32_MAX / 2, array[3], lanes_c, lanes_p, units = ckci_max(device->compute_units, 1);
    if (p.param_step > 0 && ckci_param_count(&p) > most) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "GPU kernels take 2^30 numbers of gamma for each image (N*G*C); here they are %lld",
                         CKCI_LL(ckci_param_count(&p)));
    }
    if (p.space > most || ckci_saturating_mul(p.g, p.c) > most || p.n > most) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "GPU kernels take 2^30 positions, channels (G*C) and batches; here they are %lld, "
                         "%lld and %lld",
                         CKCI_LL(p.space), CKCI_LL(ckci_saturating_mul(p.g, p.c)), CKCI_LL(p.n));
    }
    memset(k, 0, sizeof *k);
    k->along_x = CKCI_HAS_CHANNELS_FIRST && p.in.len[5] > 1 && p.in.stride[5] < p.in.stride[2];
    k->by_row = ckci_make_divisor(p.space);
    k->joined = k->along_x ? ckci_norm_join(&p) : 0;
    k->x = p.in;
    k->y = p.out;
    k->dx = p.din;
    k->eps = p.eps;
    k->param = p.param;
    k->act = p.act;
    k->n = (int32_t)p.n;
    k->g = (int32_t)p.g;
    k->c = (int32_t)p.c;
    k->space = (int32_t)p.space;
    k->param_step = (int32_t)p.param_step;
    k->flat = p.in.len[3] == 1 && p.in.len[4] == 1;
    /* several groups: where they lie side by side in memory, up to 32 channels; and where they are tiny */
    int64_t set = p.in.stride[0] < p.in.stride[5] && !k->along_x ? ckci_ceil_div(32, p.c) : 1;
    set = ckci_min(ckci_max(set, 256 / ckci_saturating_mul(p.c, p.space)), p.g);
    int64_t columns = set * p.c;
    if (k->along_x) {
        ckci_norm_lanes(p.space, columns, &lanes_p, &lanes_c);
    } else {
        ckci_norm_lanes(columns, p.space, &lanes_c, &lanes_p);
    }
    if (set > 1) {
        lanes_c = columns;
        lanes_p = ckci_min(256 / columns, p.space);
    }
    k->set = (int32_t)set;
    k->lanes_c = (int32_t)lanes_c;
    k->lanes_p = (int32_t)lanes_p;
    const int64_t kept = ckci_norm_widen(&p, device, limit, keep, k);
    set = k->set;
    columns = set * p.c;
    k->sets = (int32_t)ckci_ceil_div(p.g, set);
    /* parts: eight blocks for each compute unit where there would be fewer than four; of 8192 elements or
       more */
    int64_t slabs = ckci_max(ckci_saturating_mul(p.n, k->sets), 1), parts = 1;
    if (k->kept) {
        parts = kept;
    } else if (k->wide) {
        /* one round of two or three blocks for each compute unit, as LDS and registers allow */
        const int64_t each = k->along_x && device->kind == CKCONV_DEVICE_NVIDIA ? 3 : 2;
        parts = ckci_min(each * units / slabs, ckci_norm_most_parts(&p, set));
        parts = ckci_max(ckci_min(parts, p.space), 1);
    } else if (slabs < 4 * units) {
        parts = ckci_min(ckci_ceil_div(8 * units, slabs), ckci_saturating_mul(columns, p.space) / 8192);
        parts = ckci_max(ckci_min(ckci_min(parts, 256 / set), p.space), 1);
    }
    while (parts > 1 && ckci_norm_workspace(&p, parts, array) > limit) {
        parts /= 2;
    }
    *bytes = ckci_norm_workspace(&p, parts, array);
    *bytes = *bytes <= limit && *bytes < CKCI_MAX_BYTES ? *bytes : 0;
    ckci_norm_parts(&p, device, parts, k);
    parts = k->parts;
    lanes_c = k->lanes_c;
    lanes_p = k->lanes_p;
    k->chunks = (int32_t)ckci_ceil_div(columns, lanes_c);
    k->by_sets = ckci_make_divisor(k->sets);
    k->by_parts = ckci_make_divisor(parts);
    k->by_few = ckci_make_divisor(ckci_min(parts, 256 / set));
    k->by_channels = ckci_make_divisor(p.g * p.c);
    k->by_c = ckci_make_divisor(p.c);
    k->by_fast = ckci_make_divisor(k->along_x ? lanes_p : lanes_c);
    k->by_lanes_p = ckci_make_divisor(lanes_p);
    k->by_segment = ckci_make_divisor(lanes_c * lanes_p / set);
    k->by_chunks = ckci_make_divisor(k->chunks);
    k->by_y = ckci_make_divisor(p.in.len[4]);
    k->by_x = ckci_make_divisor(p.in.len[5]);
    *blocks = ckci_saturating_mul(ckci_saturating_mul(p.n, k->sets), parts);
    /* dgamma and dbeta: 16 threads add one, with param_step as many as there are parts, no more than 16 */
    for (k->param_log = 4; p.param_step > 0 && k->param_log < 8 && parts <= 128 >> k->param_log;) {
        k->param_log++;
    }
    const int64_t walks = ckci_saturating_mul(p.param_step > 0 ? p.n : 1, (int64_t)k->sets * k->chunks);
    return ckci_too_many_blocks(ckci_max(*blocks, walks), err);
}

CKCI_FN ckconv_status ckci_fit_gpu_norm(ckci_fit *f, ckconv_error *err)
{
    ckci_gpu_norm k;
    int64_t bytes, blocks;
    const ckci_groupnorm *p = &f->p->norm;
    int back = p->op == CKCONV_GROUPNORM_BWD;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: group norms do not split",
                         (int)f->split_k);
    }
    /* a backward pass keeps nothing without saved statistics, or where dx is not wanted: room for either */
    int64_t other = 0;
    if (back) {
        CKCI_TRY(ckci_make_gpu_norm(p, &f->plan->device, f->limit, 0, &k, &other, &blocks, err));
    }
    CKCI_TRY(ckci_make_gpu_norm(p, &f->plan->device, f->limit, 1, &k, &bytes, &blocks, err));
    f->plan->workspace_bytes = ckci_max(bytes, other);
    f->plan->grid[0] = blocks;
    f->plan->block[0] = 256;
    f->plan->launches = (k.parts > 1 && !k.kept ? 2 : 1) * (back ? 2 : 1);
    f->plan->tune[CKCI_TUNE_KEPT] = k.kept ? k.parts : 0;
    const double bytes_moved = (double)ckci_count(&p->in) * (double)ckci_size(p->in.dtype) * (back ? 3 : 2) *
                               (k.kept || !back ? 1 : 1.5);
    f->cost = ckci_cost_launch(&f->plan->device, 3000 * f->plan->launches) +
              ckci_cost_bytes(&f->plan->device, bytes_moved, 20);
    return CKCONV_OK;
}

/* base: the kernel of f32 sums for any layout; those for wide blocks and f64 follow it. */
CKCI_FN ckconv_status ckci_emit_norm(const ckci_emitter *e, ckci_launch *l, int f64, int32_t base,
                                     int64_t grid, ckconv_error *err)
{
    const ckci_gpu_norm *k = &l->a.norm;
    ckci_set_kernel(l, base + (f64 ? 3 : !k->wide ? 0 : k->along_x ? 2 : 1));
    l->grid = grid;
    return grid == 0 ? CKCONV_OK : e->emit(e->context, l, err);
}

/* dgamma and dbeta, if wanted. */
CKCI_FN ckconv_status ckci_emit_norm_param(const ckci_emitter *e, ckci_launch *l, int f64, int wanted,
                                           ckconv_error *err)
{
    const ckci_gpu_norm *k = &l->a.norm;
    ckci_set_kernel(l, f64 ? CKCI_KERNEL_norm_param_f64 : CKCI_KERNEL_norm_param_f32);
    const int64_t entries = k->param_step > 0 ? k->n : 1;
    l->grid = k->sums ? ckci_ceil_div(entries * k->g * k->c, (int64_t)1 << k->param_log)
                      : entries * k->sets * k->chunks;
    return wanted && l->grid > 0 ? e->emit(e->context, l, err) : CKCONV_OK;
}

/* fwd: one kernel; with parts that are no cluster, statistics before it. bwd: those too, a kernel that mostly
   has nothing to do where there are saved ones; sums of dgamma and dbeta for each n come from the kernel of
   dx; where there are parts or no dx, from a pass of it for sums alone; without workspace norm_param computes
   all. */
CKCI_FN ckconv_status ckci_list_gpu_norm(const ckconv_plan *plan, const ckci_problem *p,
                                         const ckconv_args *args, unsigned char *ws,
                                         const ckci_gpu_tile *tile, const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    (void)tile;
    ckci_gpu_norm *k = &l.a.norm;
    int64_t limit = ckci_run_limit(plan), bytes, blocks, array[3];
    int f64 = p->norm.stat == CKCONV_F64, params = args->dgamma || args->dbeta;
    const int back = p->norm.op == CKCONV_GROUPNORM_BWD;
    CKCI_TRY(ckci_make_gpu_norm(&p->norm, &plan->device, limit, !back || (args->din && args->saved_mean), k,
                                &bytes, &blocks, err));
    ckci_norm_workspace(&p->norm, k->parts, array);
    k->gamma = (const unsigned char *)args->gamma;
    k->beta = (const unsigned char *)args->beta;
    if (p->norm.op == CKCONV_GROUPNORM_BWD) {
        k->saved_mean = (const unsigned char *)args->saved_mean;
        k->saved_inv_std = (const unsigned char *)args->saved_inv_std;
    }
    if (p->norm.op == CKCONV_GROUPNORM_FWD) {
        k->mean = (unsigned char *)args->mean;
        k->inv_std = (unsigned char *)args->inv_std;
    }
    k->dgamma = (unsigned char *)args->dgamma;
    k->dbeta = (unsigned char *)args->dbeta;
    k->stats = k->parts > 1 ? ws : NULL; /* with saved ones, of the groups whose mean is too coarse */
    k->slab_sums = back && k->parts > 1 && args->din ? ws + array[0] : NULL;
    k->sums = back && bytes > 0 && params ? ws + array[0] + array[1] : NULL;
    if (k->kept) {
        ckci_set_kernel(&l, k->joined    ? CKCI_KERNEL_norm_fwd_kept_joined
                            : !back      ? CKCI_KERNEL_norm_fwd_kept
                            : k->along_x ? CKCI_KERNEL_norm_bwd_kept_planes
                                         : CKCI_KERNEL_norm_bwd_kept_last);
        l.cluster = k->parts;
        l.grid = blocks;
        if (blocks > 0) {
            CKCI_TRY(e->emit(e->context, &l, err));
        }
        return back ? ckci_emit_norm_param(e, &l, 0, params, err) : CKCONV_OK;
    }
    if (k->stats) {
        CKCI_TRY(ckci_emit_norm(e, &l, f64, CKCI_KERNEL_norm_stats_f32, blocks, err));
    }
    if (k->joined) {
        ckci_set_kernel(&l, CKCI_KERNEL_norm_fwd_joined);
        l.grid = blocks;
        return blocks == 0 ? CKCONV_OK : e->emit(e->context, &l, err);
    }
    if (!back) {
        return ckci_emit_norm(e, &l, f64, CKCI_KERNEL_norm_fwd_f32, blocks, err);
    }
    if (k->parts > 1 || (k->sums && !args->din)) {
        k->summing = 1;
        CKCI_TRY(ckci_emit_norm(e, &l, f64, CKCI_KERNEL_norm_din_f32, blocks, err));
        k->summing = 0;
    }
    if (args->din) {
        CKCI_TRY(ckci_emit_norm(e, &l, f64, CKCI_KERNEL_norm_din_f32, blocks, err));
    }
    return ckci_emit_norm_param(e, &l, f64, params, err);
}
