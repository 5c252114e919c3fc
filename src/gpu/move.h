/*------------------------------------------------------------------------------------------------------------
  >>gpu-move
  Layout and type conversion (>>k-move): dimensions that are one dense dimension in both tensors are merged,
  then the kernel and its tile are chosen: pieces of rows that are copied, tiles that are turned in LDS, or
  single elements. Reads and writes should both be whole lines of memory; where only one of them can be, the
  tile says which. The planner of pairs takes it for copies of mid, too.
*/
#pragma once
#include "gpu/conv.h"

/* Merge dimension i into j where together they are one dense dimension in both tensors. */
CKCI_FN int ckci_merge_move(int64_t len[6], int64_t step[2][6], int i, int j)
{
    int dense = i != j && len[i] > 1 && len[j] > 1;
    for (int t = 0; t < 2; t++) {
        dense = dense && step[t][i] == step[t][j] * len[j];
    }
    if (dense) {
        len[j] *= len[i];
        len[i] = 1;
    }
    return dense;
}

/* The tile of a block where elements move one by one: 1024 in all, 32 x 32, or a short dimension whole and
   more of the other. */
CKCI_FN void ckci_move_tile(ckci_gpu_move *k)
{
    int least = k->transpose ? 2 : 0, half = k->transpose ? 5 : 10;
    for (k->log_x = least; k->log_x < half && ((int64_t)1 << k->log_x) < k->len_x;) {
        k->log_x++;
    }
    for (k->log_y = least; k->log_y < 10 - k->log_x && ((int64_t)1 << k->log_y) < k->len_y;) {
        k->log_y++;
    }
    k->log_x = 10 - k->log_y;
    k->log_x = k->transpose && k->log_x > 8 ? 8 : k->log_x;
    k->log_y = 10 - k->log_x;
    k->tile[0] = 1 << k->log_x;
    k->tile[1] = 1 << k->log_y;
}

/* Are all elements multiples of `bytes` from 0, but for steps along dimensions of the bits in `except`? */
CKCI_FN int32_t ckci_move_aligned(const unsigned char *p, const int64_t step[6], const int64_t len[6],
                                  unsigned except, int64_t bytes)
{
    int fits = (uintptr_t)p % (uintptr_t)bytes == 0;
    for (int i = 0; i < 6; i++) {
        fits = fits && (except >> i & 1 || len[i] <= 1 || step[i] % bytes == 0);
    }
    return fits;
}

/* Rows dense in both tensors, equal types: pieces of so many bytes; 0: there are none. Where rows follow each
   other they are whole pieces. */
CKCI_FN int32_t ckci_move_piece(const ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6])
{
    int64_t bytes = k->len_x * (int64_t)ckci_size(k->from), rows = 1;
    for (int i = 1; i < 6; i++) {
        rows = ckci_saturating_mul(rows, len[i]);
    }
    for (int32_t vec = 16; vec >= 4; vec /= 2) {
        if (bytes >= vec && (rows == 1 || bytes % vec == 0) &&
            ckci_move_aligned(k->src, step[0], len, 1, vec) &&
            ckci_move_aligned(k->dst, step[1], len, 1, vec)) {
            return vec;
        }
    }
    return 0;
}

/* The dimension from i on with the shortest steps comes first. */
CKCI_FN void ckci_move_first(const int64_t by[6], int64_t step[2][6], int64_t len[6], int i)
{
    int best = i;
    for (int j = i; j < 6; j++) {
        best = len[j] > 1 && (len[best] == 1 || by[j] < by[best]) ? j : best;
    }
    for (int t = 0; t < 3; t++) {
        int64_t *array = t < 2 ? step[t] : len, kept = array[i];
        array[i] = array[best];
        array[best] = kept;
    }
}

/* 2^log is at least n, but no more than 2^most. */
CKCI_FN int ckci_move_log(int64_t n, int most)
{
    int log = 0;
    while (log < most && ((int64_t)1 << log) < n) {
        log++;
    }
    return log;
}

/* move_copy: 1024 pieces. y follows x in dst, z in src, so that a block reads and writes long runs even where
   rows are short. */
CKCI_FN void ckci_move_copy(ckci_gpu_move *k, int64_t step[2][6], int64_t len[6])
{
    k->tail = (int32_t)(len[0] * (int64_t)ckci_size(k->from) % k->vec);
    len[0] = len[0] * (int64_t)ckci_size(k->from) / k->vec;
    step[0][0] = step[1][0] = k->vec;
    ckci_move_first(step[1], step, len, 1);
    ckci_move_first(step[0], step, len, 2);
    k->len_x = len[0];
    k->len_y = len[1];
    k->len_z = len[2];
    int log_x = ckci_move_log(len[0], 10), log_z = 0;
    if (step[0][2] < step[0][1]) {
        log_z = ckci_move_log(len[2], (11 - log_x) / 2);
    }
    int log_y = ckci_move_log(len[1], 10 - log_x - log_z);
    log_z = ckci_move_log(len[2], 10 - log_x - log_y);
    k->log_x = 10 - log_y - log_z;
    k->log_y = log_y;
    k->tile[0] = 1 << k->log_x;
    k->tile[1] = 1 << log_y;
    k->tile[2] = 1 << log_z;
}

/* A length in equal parts of at most `most`, multiples of `unit` as that is. */
CKCI_FN int32_t ckci_move_part(int64_t length, int64_t most, int64_t unit)
{
    most = most < unit ? unit : most - most % unit;
    int64_t part = ckci_ceil_div(length, ckci_ceil_div(length, most));
    return (int32_t)(ckci_ceil_div(part, unit) * unit);
}

/* Tiles in LDS: pieces, of 2^log rows, `bytes` apart. 128 bytes are all banks; where eight neighbouring
   pieces do not meet them all, 16 bytes more after as many of them as do: an odd multiple of 128 bytes, so
   that what follows each other in LDS does not lie in one bank either. (NVIDIA: after each.) */
CKCI_FN void ckci_move_pad(ckci_gpu_move *k, int64_t bytes, int log, int each)
{
    for (int64_t part = bytes; part % 128 != 0 && !each; part *= 2) {
        log++;
    }
    k->pad = bytes / 16 % 2 || bytes % 16 != 0 ? 0 : 16;
    k->pad_log = log;
}

/* Both tensors of a turned tile: lengths along x and y; bytes of an element of src and of dst; elements of
   dst in 16 bytes, of src in a load; bytes of the device's lines; elements of a tile that are wanted, and
   that LDS holds; how many along a side are whole lines of 128 bytes, and whole lines of the device; whether
   rows of dst (x) and of src (y) begin at 16 bytes and loads, and at lines of the device. */
typedef struct ckci_turn {
    int64_t x, y, from, to, v, unit, line, want, most;
    int64_t least_x, least_y, unit_x, unit_y;
    int rows_x, rows_y, lines_x, lines_y;
    int amd; /* lines of 64 bytes; parts of rows that begin inside them are as long as LDS allows */
    int log_v;
} ckci_turn;

CKCI_FN ckci_turn ckci_start_turn(const ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6],
                                  int64_t unit, int64_t line)
{
    ckci_turn t;
    t.x = k->len_x;
    t.y = k->len_y;
    t.from = (int64_t)ckci_size(k->from);
    t.to = (int64_t)ckci_size(k->to);
    t.v = 16 / t.to;
    t.unit = unit;
    t.line = line;
    t.want = 16384 / t.to;
    t.amd = line > 32;
    t.most = t.amd ? (CKCI_MOVE_LDS - 32) / 9 * 8 / t.to : t.want;
    t.least_x = ckci_max(t.v, 128 / t.to);
    t.least_y = ckci_max(t.v, 128 / t.from);
    t.unit_x = ckci_max(t.v, line / t.to);
    t.unit_y = ckci_max(t.v, line / t.from);
    t.rows_x = ckci_move_aligned(k->dst, step[1], len, 1, 16);
    t.rows_y = ckci_move_aligned(k->src, step[0], len, 2, unit * t.from);
    t.lines_x = ckci_move_aligned(k->dst, step[1], len, 1, line);
    t.lines_y = ckci_move_aligned(k->src, step[0], len, 2, line);
    t.log_v = ckci_move_log(t.v, 4);
    return t;
}

/* Rows of dst are whole and follow each other; each element of src goes to its place in LDS. Does it fit? */
CKCI_FN int ckci_turn_scatter(ckci_gpu_move *k, int64_t step[2][6], const ckci_turn *t)
{
    const int64_t x = t->x, to = t->to, unit = t->unit;
    k->scatter = 1;
    k->tile[0] = (int32_t)x;
    const int64_t rows = ckci_max((t->lines_y ? t->want : t->most) / x / t->least_y, 1) * t->least_y;
    const int whole = t->amd && !t->lines_y && t->y <= t->most / x;
    k->tile[1] = ckci_move_part(t->y, whole ? t->y + t->unit_y : rows, t->unit_y);
    ckci_move_pad(k, t->amd ? unit * to * x : 16 * x, t->amd ? ckci_move_log(unit, 4) : t->log_v, !t->amd);
    k->load_step = step[0][0];
    k->shifted = !t->rows_y;
    /* eight pieces, or so many that with them all banks are met */
    k->lanes = 3;
    while (t->amd && ((unit * to * x) << k->lanes & 127) != 0 && /* unit * to >= 4: five lanes at most */
           (to > 1 || unit << k->lanes < 2 * k->tile[1])) {
        k->lanes++;
    }
    int64_t high = ckci_ceil_div(x, 32 >> k->lanes);
    k->by_load = ckci_make_divisor(high);
    k->loads = (int32_t)(32 * high * ckci_ceil_div(k->tile[1], unit << k->lanes));
    k->by_store = ckci_make_divisor((x * to << k->pad_log) / 16); /* pieces between padding */
    k->stores = (int32_t)ckci_ceil_div(k->tile[1] * x + t->v - 1, t->v);
    high = ckci_min(k->tile[1], t->y);
    return high * x * to + (high >> k->pad_log) * k->pad + 16 <= CKCI_MOVE_LDS;
}

/* Rows of src are whole and follow each other. */
CKCI_FN void ckci_turn_merge(ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6], const ckci_turn *t)
{
    const int64_t y = t->y, v = t->v, row = v / t->unit * y;
    k->merged = 1;
    k->tile[0] = ckci_move_part(
        t->x, ckci_max((t->lines_x ? t->want : t->most) / y / t->least_x, 1) * t->least_x, t->unit_x);
    k->tile[1] = (int32_t)y;
    k->pitch = (int32_t)(y * t->to);
    ckci_move_pad(k, 16 * y, t->log_v, !t->amd);
    k->load_pitch = (int32_t)(16 * y) + (t->amd ? 0 : k->pad);
    k->load_pad = t->amd ? k->pad : 0;
    k->load_log = k->pad_log - t->log_v;
    k->load_step = v * y * t->from;
    k->row_run = (int32_t)(v * y);
    k->shifted = !ckci_move_aligned(k->src, step[0], len, 3, t->unit * t->from);
    k->by_load = ckci_make_divisor(row);
    k->loads = (int32_t)((k->tile[0] + k->before) / v * row);
}

/* Parts of rows of both. */
CKCI_FN void ckci_turn_gather(ckci_gpu_move *k, int64_t step[2][6], const ckci_turn *t)
{
    const int64_t x = t->x, y = t->y, from = t->from, to = t->to, v = t->v, unit = t->unit, want = t->want;
    int64_t side = to == 1 ? 128 : 64;
    side = t->rows_x ? side : want / side;
    side = x > side && x <= side * 3 / 2 ? x : side;
    int64_t room = want, grain_x = ckci_min(t->unit_x, side), grain_y = ckci_max(unit, t->line / from);
    if (t->amd && t->lines_x != t->lines_y) {
        /* rows of one tensor begin inside lines: 640 bytes of each, or all there is */
        const int64_t long_x = ckci_min(ckci_max(ckci_min(x, 640 / to), side), want / t->unit_y),
                      long_y = want / ckci_min(y, 640 / from) / t->unit_x * t->unit_x;
        side = t->lines_y ? long_x : ckci_max(ckci_min(long_y, side), t->unit_x);
        grain_x = ckci_min(t->unit_x, side);
    } else if (t->amd && !t->lines_x) {
        /* of both: as many bytes of each, or rows of src that are one run, and more along x */
        const int64_t long_x = t->most / (ckci_ceil_div(y, v) * v);
        int64_t bytes = 16;
        while ((bytes + 16) * (bytes + 16) <= t->most * to * from) {
            bytes += 16;
        }
        side = step[0][0] == y * from && long_x * to > bytes ? long_x - long_x % v : bytes / to;
        room = t->most;
        grain_x = v;
        grain_y = ckci_max(unit, v);
    }
    k->tile[0] = ckci_move_part(x, ckci_ceil_div(side, v) * v, grain_x);
    k->tile[1] = ckci_move_part(y, ckci_min(room / k->tile[0], 512), grain_y);
    k->pitch = (int32_t)ckci_ceil_div(k->tile[1] * to, 16) * 16;
    ckci_move_pad(k, k->pitch * v, t->log_v, !t->amd);
    k->load_pitch = k->pitch;
    k->load_pad = k->pad;
    k->load_log = k->pad_log;
    k->load_step = step[0][0];
    k->shifted = !t->rows_y;
    k->by_load = ckci_make_divisor(ckci_ceil_div(k->tile[1], unit));
    k->loads = (k->tile[0] + k->before) * (int32_t)k->by_load.d;
}

/* Tensors that are turned: in which way, and the tile. unit: elements of a load; line: bytes that memory
   reads and writes together. 0: not so. */
CKCI_FN int ckci_move_turn(ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6], int64_t unit,
                           int64_t line)
{
    const ckci_turn t = ckci_start_turn(k, step, len, unit, line);
    const int64_t x = t.x, y = t.y, to = t.to, v = t.v;
    /* 16 bytes of dst for each element of V rows, and what pads them */
    const int can_scatter = step[1][1] == x * to && y >= t.least_y / 2 && x < 4096 &&
                            ckci_ceil_div(t.least_y, v) * (16 * x + 16) + 32 <= CKCI_MOVE_LDS;
    const int can_merge = step[0][0] == y * t.from && x >= t.least_x / 2 && y < 4096 &&
                          (ckci_ceil_div(t.least_x, v) + 1) * (16 * y + 16) <= CKCI_MOVE_LDS;
    k->anywhere = t.amd;
    /* also where a row of dst would be several parts that are not whole lines */
    if (can_scatter && (!t.rows_x || x < 128 / to || (t.rows_y && x > 96 && x * to % 128 != 0))) {
        return ckci_turn_scatter(k, step, &t);
    }
    k->before = t.rows_x || k->anywhere ? 0 : (int32_t)v;
    if (can_merge && (!t.rows_y || y < 128 / t.from)) {
        ckci_turn_merge(k, step, len, &t);
    } else {
        ckci_turn_gather(k, step, &t);
        if (x * to < 32 || y * t.from < 32) {
            return 0;
        }
    }
    k->words = to < 4 && t.rows_x && k->pitch % 4 == 0 && x % v == 0;
    int64_t apart = k->before && to < 4 ? 4 / to : 1;
    int64_t high = ckci_ceil_div(k->tile[1], 4 * apart * (k->words ? 4 / to : 1)) * apart;
    k->by_store = ckci_make_divisor(high);
    k->stores = (int32_t)(32 * high * ckci_ceil_div(k->tile[0], 8 * v));
    const int64_t rows = k->tile[0] + k->before;
    return rows * k->pitch + (rows >> k->pad_log) * k->pad <= CKCI_MOVE_LDS;
}

/* Other types, x dense in both: rows, or parts of them. */
CKCI_FN int ckci_move_straight(ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6], int64_t unit)
{
    k->straight = 1;
    k->tile[0] = ckci_move_part(k->len_x, 8192, unit);
    k->tile[1] = (int32_t)ckci_min(8192 / k->tile[0], k->len_y);
    k->load_step = step[0][1];
    k->shifted = !ckci_move_aligned(k->src, step[0], len, 1, unit * (int64_t)ckci_size(k->from));
    k->dst_vec = ckci_move_aligned(k->dst, step[1], len, 1, unit * (int64_t)ckci_size(k->to));
    k->by_load = ckci_make_divisor(k->tile[0] / unit);
    k->loads = k->tile[1] * (int32_t)k->by_load.d;
    return k->len_x >= 4;
}

/* Which kernel, its tile; dimensions in the kernel's order, x first. */
CKCI_FN void ckci_move_kernel(ckci_gpu_move *k, ckci_launch *l, int64_t step[2][6], int64_t len[6],
                              int64_t line)
{
    int64_t from = (int64_t)ckci_size(k->from), to = (int64_t)ckci_size(k->to);
    int same = k->from == k->to, dense = step[0][k->transpose ? 1 : 0] == from && step[1][0] == to;
    const int alike = same || (k->transpose && from == 2 && to == 2); /* f16 and bf16 */
    int64_t unit = alike ? 16 / to : 4;
    static const int32_t turn[2][3] = {
        {CKCI_KERNEL_move_convert_1, CKCI_KERNEL_move_convert_2, CKCI_KERNEL_move_convert_4},
        {CKCI_KERNEL_move_turn_1, CKCI_KERNEL_move_turn_2, CKCI_KERNEL_move_turn_4},
    };
    for (int i = 0; i < 6; i++) {
        k->tile[i] = 1;
    }
    int64_t bytes = from;
    for (int i = 0; i < 6; i++) {
        bytes += (len[i] - 1) * step[0][i];
    }
    k->src_end = (const unsigned char *)((uintptr_t)k->src + (uintptr_t)bytes); /* plans have none yet */
    ckci_set_kernel(l, CKCI_KERNEL_move);
    if (dense && same && !k->transpose) {
        k->vec = ckci_move_piece(k, step, len);
        if (k->vec) {
            ckci_set_kernel(l, CKCI_KERNEL_move_copy);
            ckci_move_copy(k, step, len);
            return;
        }
    } else if (dense && to < 8 && (same || (k->from != CKCONV_I32 && k->to != CKCONV_I32)) &&
               (k->transpose ? ckci_move_turn(k, step, len, unit, line)
                             : ckci_move_straight(k, step, len, unit))) {
        ckci_set_kernel(l, turn[alike][to / 2]);
        return;
    }
    k->before = 0;
    ckci_move_tile(k);
}

CKCI_FN ckconv_status ckci_make_move(const ckconv_device *device, const ckci_tensor *src,
                                     const ckci_tensor *dst, ckci_launch *l, ckconv_error *err)
{
    ckci_gpu_move *k = &l->a.move;
    int64_t all[6], steps[2][6], len[6], step[2][6];
    int x = -1, y = -1, dense = -1, order[6], count = 2;
    memset(&l->a.moves, 0, sizeof l->a.moves);
    l->a.moves.job[1].first = INT32_MAX;
    k->src = src->p;
    k->dst = dst->p;
    k->from = src->dtype;
    k->to = dst->dtype;
    for (int i = 0; i < 6; i++) {
        all[i] = src->len[i];
        steps[0][i] = src->stride[i] * (int64_t)ckci_size(src->dtype);
        steps[1][i] = dst->stride[i] * (int64_t)ckci_size(dst->dtype);
    }
    for (int merged = 1; merged;) {
        merged = 0;
        for (int i = 0; i < 36; i++) {
            merged = merged || ckci_merge_move(all, steps, i / 6, i % 6);
        }
    }
    for (int i = 0; i < 6; i++) {
        if (all[i] != 1) {
            x = x < 0 || steps[1][i] < steps[1][x] ? i : x;
            dense = dense < 0 || steps[0][i] < steps[0][dense] ? i : dense;
        }
    }
    x = x < 0 ? 5 : x;
    k->transpose = dense >= 0 && dense != x;
    y = k->transpose ? dense : -1;
    for (int i = 0; i < 6 && !k->transpose; i++) {
        y = i != x && (y < 0 || all[i] > all[y]) ? i : y;
    }
    order[0] = x;
    order[1] = y;
    for (int i = 0; i < 6; i++) {
        if (i != x && i != y) {
            order[count++] = i;
        }
    }
    for (int i = 0; i < 6; i++) {
        len[i] = all[order[i]];
        step[0][i] = steps[0][order[i]];
        step[1][i] = steps[1][order[i]];
    }
    k->len_x = len[0];
    k->len_y = len[1];
    k->len_z = len[2];
    ckci_move_kernel(k, l, step, len, device->kind == CKCONV_DEVICE_NVIDIA ? 32 : 64);
    len[0] = ckci_ceil_div(len[0] + (k->before ? k->before - 1 : 0), k->tile[0]);
    len[1] = ckci_ceil_div(len[1], k->tile[1]);
    len[2] = ckci_ceil_div(len[2], k->tile[2]);
    l->grid = 1;
    for (int i = 0; i < 6; i++) {
        k->src_step[i] = step[0][i];
        k->dst_step[i] = step[1][i];
        l->grid = ckci_saturating_mul(l->grid, len[i]);
    }
    CKCI_TRY(ckci_too_many_blocks(l->grid, err)); /* divisors have 31 bits */
    for (int i = 0; i < 6; i++) {
        k->blocks[i] = ckci_make_divisor(len[i]);
    }
    return CKCONV_OK;
}

/* *l moves what `more` does, too, where both are turned by the same kernel; neither reads what the other
   writes. */
CKCI_FN int ckci_join_moves(ckci_launch *l, const ckci_launch *more)
{
    ckci_gpu_move *second = &l->a.moves.job[1];
    if (l->takes != CKCI_ARGS_ckci_gpu_moves || l->kernel != more->kernel || second->first != INT32_MAX ||
        l->grid + more->grid >= INT32_MAX) {
        return 0;
    }
    *second = more->a.move;
    second->first = (int32_t)l->grid;
    l->grid += more->grid;
    return 1;
}
