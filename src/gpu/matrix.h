/*------------------------------------------------------------------------------------------------------------
  >>gpu-matrix
  Matrix units. They take f64, f32, f16, bf16 and i8 tensors whose channels are dense and aligned to 16 bytes;
  tensors in any other order, type or number of channels are packed into workspace first. fp8 is exact in
  bf16, and in f16 next to an f16 operand. tf32 is rounded on its way into the unit (CDNA without xf32: while
  it is packed, and multiplied as f32), f32 is left to CDNA. These and f64 have tiles of their own and merge
  no groups: infinities and NaNs stay in theirs. bf16x3 is bf16 over three times the reduction (fwd, bwd_data:
  channels, bwd_weight: batches), [high, low, high] terms of one operand against [high, high, low] of the
  other.
*/
#pragma once
#include "gpu/depth_matrix.h"
#include "gpu/move.h"
#include "gpu/phases.h"

/* What packs weights: a kernel that converts, pads and merges, or the one of transforms, which does none of
   it and comes near a copy's bandwidth. */
enum { CKCI_PACK = 1, CKCI_PACK_MOVE };

/* A matrix plan of one convolution. */
typedef struct ckci_matrix {
    ckci_conv conv;    /* as the kernel sees it: groups merged, packed tensors */
    int64_t merge;     /* groups that are one here */
    int64_t bytes;     /* workspace so far: sums of parts, packed weights, packed tensors */
    int32_t split;     /* parts */
    int32_t fold;      /* bwd_weight: the sums of parts are added by a launch of its own */
    int32_t pack;      /* weights are packed: a CKCI_PACK, 0: no */
    int32_t data[3];   /* in, -, out: these tensors are packed */
    int32_t turned;    /* what is written lies in workspace first, channels last */
    int32_t beside;    /* and D tensors that lie as it does are turned before: one bit each */
    int32_t planes;    /* fwd, bwd_data: channels first is written as it lies (ckci_matrix_planes) */
    int32_t adds;      /* fwd, bwd_data: a launch adds the sums of parts */
    int32_t images;    /* conv is a product for each image (ckci_image_product) */
    int32_t layers;    /* bwd_weight: conv is a product summed over images (ckci_image_weights) */
    int32_t copied;    /* images, of planes that threads copy beside the TMA (ckci_image_copied) */
    int64_t plane;     /* TMA: channels first is written as planes of so many positions; 0: it is not */
    ckconv_dtype type; /* what is multiplied */
    int32_t terms;     /* 3: bf16x3, else 1 */
    int32_t whole;     /* bwd_weight of i8: integers in f16 */
    int32_t bias;      /* bwd_weight: tiles sum dbias, too */
    int32_t cluster;   /* TMA: blocks that have parts of a tile and add their sums, 0: none */
    int32_t shares;    /* TMA: blocks share the steps of tiles that are left over */
    int32_t turns;     /* TMA: a block's groups take tiles of half the rows in turns */
    int32_t multicast; /* TMA: pairs of blocks send columns' boxes to both */
    int32_t both;      /* TMA: both operands lie across the reduction */
    int32_t phased;    /* TMA: bwd_data with strides (ckci_phased) */
    unsigned char *slots;
    int32_t pairs,
        shift; /* a pixel is two neighbours along x; the first tap of all, 1: one before the filter */
    const ckci_gpu_tile *tile;
    double packing; /* cost */
    ckci_launch l;
} ckci_matrix;

/* Products of i8 are at most 2^14: as many of them are a sum below 2^23, which f32 holds in any order. */
enum { CKCI_WHOLE_PART = 512 };

/* options.split_k and ckconv_choice.split_k go so far. */
enum { CKCI_MOST_PARTS = 65536 };

/* What the unit multiplies; 0: it does not compute in these types. fp8 alone becomes bf16, since some units
   take subnormal f16 numbers as zeros. */
CKCI_FN ckconv_dtype ckci_matrix_type(ckconv_dtype a, ckconv_dtype b)
{
    if ((a == CKCONV_BF16 || ckci_is_fp8(a)) && (b == CKCONV_BF16 || ckci_is_fp8(b))) {
        return CKCONV_BF16;
    }
    if ((a == CKCONV_F16 || ckci_is_fp8(a)) && (b == CKCONV_F16 || ckci_is_fp8(b))) {
        return CKCONV_F16;
    }
    if (a == CKCONV_I8 && b == CKCONV_I8) {
        return CKCONV_I8;
    }
    if ((a == CKCONV_F64 || a == CKCONV_F32 || a == CKCONV_TF32) && a == b) {
        return a;
    }
    return a == CKCONV_BF16X3 && b == CKCONV_BF16X3 ? CKCONV_BF16 : 0;
}

/* Do the groups of a tensor lie side by side, so that several are one group with more channels? */
CKCI_FN int ckci_groups_touch(const ckci_tensor *t)
{
    return t->len[0] <= 1 || t->stride[0] == t->len[2] * t->stride[2];
}

CKCI_FN void ckci_merge_tensor(ckci_tensor *t, int64_t m)
{
    t->len[0] /= m;
    t->len[2] *= m;
    t->stride[0] *= m;
}

/* m groups as one; weights stay as they are. */
CKCI_FN void ckci_merge_groups(ckci_conv *p, int64_t m)
{
    p->g /= m;
    p->k *= m;
    p->c *= m;
    ckci_merge_tensor(&p->t[CKCI_IN], m);
    ckci_merge_tensor(&p->t[CKCI_OUT], m);
    for (int i = 0; i < p->num_d && p->op != CKCONV_BWD_WEIGHT; i++) {
        ckci_merge_tensor(&p->d[i], m);
    }
}

/* How many groups to merge: until both sides have 32 channels. */
CKCI_FN int64_t ckci_matrix_merge(const ckci_conv *p)
{
    int64_t m = 1;
    /* images share what OUT holds (ckci_image_product) */
    int touch = p->t[CKCI_IN].len[0] == p->t[CKCI_OUT].len[0] && ckci_groups_touch(&p->t[CKCI_IN]) &&
                ckci_groups_touch(&p->t[CKCI_OUT]);
    for (int i = 0; i < p->num_d && p->op != CKCONV_BWD_WEIGHT; i++) {
        touch = touch && ckci_groups_touch(&p->d[i]);
    }
    while (touch && p->g % (2 * m) == 0 && (m * p->c < 32 || m * p->k < 32)) {
        m *= 2;
    }
    return m;
}

/* How memory holds what is multiplied. */
CKCI_FN ckconv_dtype ckci_matrix_stored(ckconv_dtype type)
{
    return type == CKCONV_TF32 ? CKCONV_F32 : type;
}

/* Channels of a 16-byte chunk. */
CKCI_FN int64_t ckci_matrix_chunk(ckconv_dtype type)
{
    return 16 / (int64_t)ckci_size(ckci_matrix_stored(type));
}

/* May chunks of so many bytes along the channels be one load each? */
CKCI_FN ckconv_status ckci_matrix_reads_by(const ckci_tensor *t, const char *what, ckconv_dtype type,
                                           int64_t channels, int32_t bytes, ckconv_error *err)
{
    if (t->dtype != ckci_matrix_stored(type) || t->compute != type || t->op.kind != CKCONV_PASS) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "matrix tiles read %s as %s without an operation; here it is %s", what,
                         ckconv_dtype_name(type), ckconv_dtype_name(t->dtype));
    }
    int64_t chunk = bytes / (int64_t)ckci_size(t->dtype);
    int fits = t->stride[2] == 1 || channels == 1;
    for (int i = 0; i < 6; i++) {
        fits = fits && (i == 2 || t->len[i] <= 1 || t->stride[i] % chunk == 0);
    }
    if (!fits || channels % chunk != 0 || (uintptr_t)t->p % (size_t)bytes != 0) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "matrix tiles load %d bytes along the channels: %s needs channels last, a multiple of %d "
            "(here %lld) and alignment",
            (int)bytes, what, (int)chunk, CKCI_LL(channels));
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_matrix_reads(const ckci_tensor *t, const char *what, ckconv_dtype type,
                                        int64_t channels, ckconv_error *err)
{
    return ckci_matrix_reads_by(t, what, type, channels, 16, err);
}

/* Offsets from the first position of a block have 31 bits; images: batches that a block can touch. */
CKCI_FN ckconv_status ckci_matrix_reach(const ckci_tensor *t, const char *what, int64_t images,
                                        const int64_t *beyond, ckconv_error *err)
{
    int64_t bytes =
        ckci_saturating_mul(ckci_reach(t, images, t->len[2], beyond), (int64_t)ckci_size(t->dtype));
    return bytes <= INT32_MAX ? CKCONV_OK
                              : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                                          "matrix tiles take 2^31 bytes of %s for a block's images; here it "
                                          "reaches over more",
                                          what);
}

/* The filter's size, of bwd_data that of a phase: see ckci_k_hole in kernels/matrix. */
enum { CKCI_MOST_TAPS = 128 };
CKCI_FN ckconv_status ckci_matrix_taps(const ckci_conv *p, int32_t *ranges, ckconv_error *err)
{
    int64_t taps = 1, sum = 0;
    int several = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t period =
            p->op == CKCONV_BWD_DATA ? p->stride[i] / ckci_gcd(p->stride[i], p->dilation[i]) : 1;
        const int64_t along = ckci_ceil_div(p->filter[i], period);
        taps = ckci_saturating_mul(taps, along);
        sum = ckci_saturating_add(sum, along);
        several += along > 1;
    }
    *ranges = sum > 31;
    return taps <= CKCI_MOST_TAPS && (sum <= 31 || several == 1)
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "tiles take filters of up to %d taps, along several axes of sizes whose sum is "
                           "31 or less (an axis without taps counts 1); here %lld taps, sum %lld",
                           (int)CKCI_MOST_TAPS, CKCI_LL(taps), CKCI_LL(sum));
}

/* Weights as gather kernels read them: [g][column][taps][channel of the reduction], dense; back: of bwd_data,
   whose columns are c. */
CKCI_FN void ckci_packed_weights(const ckci_conv *p, int back, ckconv_dtype type, unsigned char *ws,
                                 ckci_tensor *t)
{
    int64_t columns = back ? p->c : p->k, red = back ? p->k : p->c;
    memset(t, 0, sizeof *t);
    t->p = ws;
    t->dtype = ckci_matrix_stored(type);
    t->compute = type;
    t->plain = 1;
    t->len[0] = p->g;
    t->len[1] = p->k;
    t->len[2] = p->c;
    t->stride[back ? 1 : 2] = 1;
    t->stride[5] = red;
    for (int i = 5; i >= 3; i--) {
        t->len[i] = p->filter[i - 3];
        t->stride[i - 1 > 2 ? i - 1 : (back ? 2 : 1)] = t->stride[i] * t->len[i];
    }
    t->stride[0] = t->stride[back ? 2 : 1] * columns;
}

/* A piece of workspace. */
CKCI_FN ckconv_status ckci_matrix_take(ckci_matrix *m, int64_t bytes, int64_t limit, unsigned char *ws,
                                       unsigned char **piece, ckconv_error *err)
{
    *piece = ws ? ws + m->bytes : NULL;
    m->bytes = ckci_saturating_add(m->bytes, ckci_saturating_mul(ckci_ceil_div(bytes, 256), 256));
    return m->bytes <= limit ? CKCONV_OK : ckci_over_limit("packed tensors and sums", m->bytes, err);
}

/* What it costs to write `bytes` of packed values. */
CKCI_FN double ckci_pack_cost(const ckconv_device *device, double bytes)
{
    return ckci_cost_launch(device, 2500) + ckci_cost_bytes(device, 2 * bytes, 12);
}

/* What it costs to move `bytes`: the kernels of transforms come near a copy's bandwidth (H100: 2.2 TB/s of
   bytes read and written, where packing reaches a fifth of that). */
CKCI_FN double ckci_move_cost(const ckconv_device *device, double bytes)
{
    return ckci_cost_launch(device, 2500) + ckci_cost_bytes(device, 2 * bytes, 50);
}

/* Positions of a block of pack_data where all of t follow each other and channels are only padded, so that
   whole lines are read; 0: they do not. */
CKCI_FN int32_t ckci_data_rows(const ckci_matrix *m, const ckci_tensor *t, const ckci_tensor *packed)
{
    int64_t pitch = 0;
    if (t->dtype != packed->dtype || ckci_size(t->dtype) != 2 || !t->plain || m->terms != 1 || m->pairs ||
        t->len[0] != 1 || packed->len[0] != 1 || t->stride[2] != 1 || (uintptr_t)t->p % 16 != 0 ||
        8 * t->len[2] > CKCI_PACK_ROOM || !ckci_even_positions(t, &pitch) || pitch != t->len[2]) {
        return 0;
    }
    return (int32_t)ckci_max(CKCI_PACK_BLOCK / t->len[2] / 8 * 8, 8);
}

/* Does a kernel of transforms pack t? It pads nothing, and converts floats to halves alone. */
CKCI_FN int ckci_matrix_moves(const ckci_matrix *m, const ckci_tensor *t, const ckci_tensor *packed)
{
    const int halves = ckci_size(packed->dtype) == 2 && (t->dtype == CKCONV_F32 || t->dtype == CKCONV_F16 ||
                                                         t->dtype == CKCONV_BF16);
    return CKCI_KEEP_MOVE && m->terms == 1 && !m->pairs && (t->dtype == packed->dtype || halves) &&
           t->compute == packed->compute && t->op.kind == CKCONV_PASS && t->len[1] == packed->len[1] &&
           t->len[2] == packed->len[2];
}

/* A first layer: few channels, and a stride along x that lets two neighbours be one pixel of eight. */
CKCI_FN void ckci_matrix_pairs(ckci_matrix *m)
{
    ckci_conv *c = &m->conv;
    if (c->op == CKCONV_BWD_DATA || ckci_matrix_chunk(m->type) != 8 || c->c > 4 || m->merge > 1 ||
        c->g != 1 || c->stride[2] % 2 != 0 || c->dilation[2] != 1) {
        return;
    }
    m->pairs = 1;
    m->shift = c->pad[2] % 2 != 0;
    c->filter[2] = ckci_ceil_div(c->filter[2] + m->shift, 2);
    c->pad[2] = (c->pad[2] + m->shift) / 2;
    c->stride[2] /= 2;
    c->input[2] = ckci_ceil_div(c->input[2], 2);
}

/* `which` (in or out) as the kernels read it, or packed: [n][z][y][x][g][channels], whole chunks. */
CKCI_FN ckconv_status ckci_matrix_data(ckci_matrix *m, int which, const char *what,
                                       const ckconv_device *device, int64_t limit, unsigned char *ws,
                                       ckconv_error *err)
{
    ckci_conv *c = &m->conv;
    int weight = c->op == CKCONV_BWD_WEIGHT;
    int64_t chunk = ckci_matrix_chunk(m->type);
    int64_t *channels = which == CKCI_IN ? &c->c : &c->k;
    ckci_tensor *t = &c->t[which], packed;
    if (ckci_matrix_reads(t, what, m->type, *channels, NULL) == CKCONV_OK) {
        return CKCONV_OK;
    }
    if (which == CKCI_IN) {
        ckci_matrix_pairs(m);
    }
    *channels = which == CKCI_IN && m->pairs ? 8 : ckci_ceil_div(*channels, chunk) * chunk;
    *channels = ckci_saturating_mul(*channels, weight ? 1 : m->terms);
    m->data[which] = t->len[1] > 0;
    memset(&packed, 0, sizeof packed);
    packed.dtype = ckci_matrix_stored(m->type);
    packed.compute = m->type;
    packed.plain = 1;
    memcpy(packed.len, t->len, sizeof packed.len);
    packed.len[1] = ckci_saturating_mul(packed.len[1], weight ? m->terms : 1);
    packed.len[2] = *channels;
    packed.len[5] = which == CKCI_IN ? c->input[2] : c->output[2];
    packed.stride[2] = 1;
    packed.stride[0] = packed.len[2];
    packed.stride[5] = packed.stride[0] * packed.len[0];
    packed.stride[4] = ckci_saturating_mul(packed.stride[5], packed.len[5]);
    packed.stride[3] = ckci_saturating_mul(packed.stride[4], packed.len[4]);
    packed.stride[1] = ckci_saturating_mul(packed.stride[3], packed.len[3]);
    int64_t count = ckci_saturating_mul(packed.stride[1], packed.len[1]),
            bytes = ckci_saturating_mul(count, (int64_t)ckci_size(packed.dtype));
    if (count / packed.stride[5] > INT32_MAX / 2) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s has too many positions to be packed", what);
    }
    CKCI_TRY(ckci_matrix_take(m, bytes, limit, ws, &packed.p, err));
    m->packing += ckci_matrix_moves(m, t, &packed) || ckci_data_rows(m, t, &packed) > 0
                      ? ckci_move_cost(device, (double)bytes)
                      : ckci_pack_cost(device, (double)bytes);
    *t = packed;
    t->stride[0] *= t->len[0] > 1; /* images' products read one "group" again */
    return CKCONV_OK;
}

/* Workspace for what is written, as `dense` lies, which a move turns from there into *t; if that has room,
   and above a MiB: below, a second launch, of some microseconds, takes longer than numbers that are written
   one by one. */
CKCI_FN void ckci_matrix_turn_later(ckci_matrix *m, ckci_tensor *t, ckci_tensor *dense,
                                    const ckconv_device *device, int64_t limit, unsigned char *ws)
{
    int64_t bytes = ckci_saturating_mul(ckci_count(dense), (int64_t)ckci_size(dense->dtype)),
            before = m->bytes;
    if (bytes < 1 << 20) {
        return;
    }
    if (ckci_matrix_take(m, bytes, limit, ws, &dense->p, NULL) != CKCONV_OK) {
        m->bytes = before;
        return;
    }
    m->turned = 1;
    m->packing += ckci_move_cost(device, (double)bytes);
    *t = *dense;
}

/* What is written, channels first: by lines to workspace, channels last, and so are D tensors that lie as it
   does read. */
CKCI_FN void ckci_matrix_turned(ckci_matrix *m, const ckconv_device *device, int64_t limit, unsigned char *ws)
{
    ckci_conv *c = &m->conv;
    ckci_tensor *t = &c->t[ckci_written(c->op)], packed = *t;
    ckci_gpu_target target;
    ckci_set_target(c, &target);
    int fits = CKCI_KEEP_MOVE && target.form != CKCI_FORM_SINGLE && t->stride[2] != 1 && t->len[2] % 8 == 0 &&
               (t->stride[5] == 1 || t->len[5] == 1);
    packed.stride[2] = 1;
    packed.stride[0] = packed.len[2];
    packed.stride[5] = packed.stride[0] * packed.len[0];
    packed.stride[4] = ckci_saturating_mul(packed.stride[5], packed.len[5]);
    packed.stride[3] = ckci_saturating_mul(packed.stride[4], packed.len[4]);
    packed.stride[1] = ckci_saturating_mul(packed.stride[3], packed.len[3]);
    int64_t bytes[4], more = 0;
    for (int32_t j = 0; j < target.adds; j++) {
        const int output = target.d[j].line == CKCI_LINE_OUTPUT;
        bytes[j] = output ? ckci_saturating_mul(ckci_count(t), (int64_t)ckci_size(c->d[j].dtype)) : 0;
        more = ckci_saturating_add(more, ckci_saturating_mul(ckci_ceil_div(bytes[j], 256), 256));
    }
    if (fits) {
        ckci_matrix_turn_later(m, t, &packed, device, limit - more, ws);
    }
    for (int32_t j = 0; m->turned && j < target.adds; j++) {
        if (bytes[j] > 0 && ckci_matrix_take(m, bytes[j], limit, ws, &c->d[j].p, NULL) == CKCONV_OK) {
            memcpy(c->d[j].stride, packed.stride, sizeof packed.stride);
            m->beside |= 1 << j;
            m->packing += ckci_move_cost(device, (double)bytes[j]);
        }
    }
}

/* Positions of an image where t has them side by side, channels first; else 0. */
CKCI_FN int64_t ckci_dense_plane(const ckci_tensor *t)
{
    int64_t plane = 1;
    for (int i = 5; i >= 3; i--) {
        if (t->len[i] > 1 && t->stride[i] != plane) {
            return 0;
        }
        plane = ckci_saturating_mul(plane, t->len[i]);
    }
    return t->stride[2] != 1 && plane > 1 && plane <= INT32_MAX ? plane : 0;
}

/* dwei with taps side by side, as PyTorch has it: in the order of its sums to workspace. */
CKCI_FN void ckci_matrix_turned_weights(ckci_matrix *m, const ckconv_device *device, int64_t limit,
                                        unsigned char *ws)
{
    ckci_conv *c = &m->conv;
    ckci_tensor *t = &c->t[CKCI_WEI], dense = *t;
    ckci_gpu_target target;
    ckci_set_target(c, &target);
    if (CKCI_KEEP_MOVE && m->merge == 1 && target.form == CKCI_FORM_STORE && !ckci_weights_as_sums(t)) {
        ckci_packed_weights(c, 0, t->dtype, NULL, &dense);
        dense.compute = t->compute;
        dense.plain = t->plain;
        dense.op = t->op;
        if (ckci_weights_as_sums(&dense)) {
            ckci_matrix_turn_later(m, t, &dense, device, limit, ws);
        }
    }
}

/* A tile that CDNA alone has? (NVIDIA's of that size are others.) */
CKCI_FN int ckci_matrix_wide(const ckconv_device *device, int32_t tile_m, int32_t tile_n)
{
    return device->kind == CKCONV_DEVICE_AMD && tile_m * tile_n > 128 * 128;
}

/* Do waves fill such tiles of halves? */
CKCI_FN int ckci_matrix_direct(const ckconv_device *device, int32_t tile_m, int32_t tile_n)
{
    return ckci_matrix_unit(device) == CKCI_UNIT_CDNA4 && tile_m >= 64 && tile_n >= 64;
}

/* Do such tiles turn bwd_data's weights as they read them? */
CKCI_FN int ckci_matrix_turns(const ckconv_device *device, int32_t tile_m, int32_t tile_n)
{
    return ckci_matrix_direct(device, tile_m, tile_n) ||
           (ckci_matrix_unit(device) == CKCI_UNIT_RDNA4 && tile_m >= 64 && tile_n >= 64);
}

/* LDS of a tile's kernel, as in kernels/matrix: NVIDIA keeps three to five tiles of 128-byte rows there, AMD
   one of 64 bytes (several, where waves fill them), or the sums that pass through; tables of
   positions or of taps and rows. */
CKCI_FN int64_t ckci_matrix_lds(const ckconv_device *device, ckconv_op op, int32_t tile_m, int32_t tile_n)
{
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    int64_t rows = tile_m + tile_n, sums = (int64_t)tile_m * (tile_n + 4) * 4;
    int64_t tables = op == CKCONV_BWD_WEIGHT ? (nvidia ? 8200 : 4104) : 2064 + 8 * tile_m;
    tables +=
        nvidia && op != CKCONV_BWD_WEIGHT && tile_m >= 128 && tile_n >= 64 ? 96 + 8 * (tile_m + tile_n) : 0;
    int64_t stages = tile_m >= 64 && tile_n >= 64 ? CKCI_GROUP_STAGES(rows) : 3;
    if (nvidia) {
        return tables + ckci_max(stages * 128 * rows, sums);
    }
    const int wide = ckci_matrix_wide(device, tile_m, tile_n);
    stages = ckci_matrix_direct(device, tile_m, tile_n) ? CKCI_DIRECT_STAGES(rows) : 1;
    sums = (op == CKCONV_BWD_WEIGHT ? 64 : 72) * (wide ? CKCI_WIDE_THREADS(tile_m, tile_n) : 256);
    return tables + ckci_max(stages * 64 * rows, sums);
}

/* LDS that a launch asks for. Where operands are read across, rows come by 64. */
CKCI_FN int64_t ckci_matrix_asks(const ckconv_device *device, ckconv_op op, int32_t tile_m, int32_t tile_n)
{
    int64_t lds = ckci_matrix_lds(device, op, tile_m, tile_n);
    if (device->kind != CKCONV_DEVICE_NVIDIA) {
        return lds;
    }
    lds += op == CKCONV_FWD ? 0 : 3 * 128 * ckci_max(64 - ckci_min(tile_m, tile_n), 0);
    return ckci_ceil_div(lds, 1024) * 1024;
}

/* The form of an epilogue in the launch that adds sums: curves' gradients act by lines there, too, where D
   lies as the output. */
CKCI_FN int32_t ckci_sums_form(const ckci_gpu_target *o)
{
    return o->form == CKCI_FORM_SINGLE && !o->compute && ckci_curved_gradient(&o->t.op) &&
                   o->d[0].line == CKCI_LINE_OUTPUT
               ? (int32_t)CKCI_FORM_SLOPED
               : o->form;
}

/* The launch that adds sums of parts: blocks take eights of columns that follow each other; where columns are
   not written together, rows of some of them. */
CKCI_FN void ckci_gather_reduce(ckci_launch *l)
{
    ckci_gpu_conv *k = &l->a.conv;
    const int64_t eights = ckci_ceil_div(k->columns, 8);
    ckci_set_kernel(l, CKCI_KERNEL_gather_reduce);
    k->o.form = ckci_sums_form(&k->o);
    k->by_columns = ckci_make_divisor(eights);
    k->tiles_m = (int32_t)ckci_ceil_div(k->rows, CKCI_SUMS_ROWS);
    k->tiles_n = (int32_t)ckci_ceil_div(eights, CKCI_SUMS_EIGHTS);
    k->by_tiles_m = ckci_make_divisor(k->o_vec ? k->rows : k->tiles_m);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    l->grid = k->o_vec ? ckci_ceil_div((int64_t)k->g * k->rows * eights, 256)
                       : (int64_t)k->g * k->tiles_m * k->tiles_n;
}

/* Are there tiles that the TMA brings? */
CKCI_FN int ckci_tma_there(const ckconv_device *device)
{
    return ckci_matrix_unit(device) == CKCI_UNIT_WGMMA && (device->features & CKCONV_GPU_NO_SM90A) == 0;
}

/* What all matrix plans share: groups merged, types and alignment checked. */
CKCI_FN ckconv_status ckci_matrix_start(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                        const ckci_gpu_tile *tile, ckci_matrix *m, ckconv_error *err)
{
    ckconv_dtype a = p->t[p->op == CKCONV_BWD_DATA ? CKCI_OUT : CKCI_IN].compute,
                 b = p->t[p->op == CKCONV_BWD_WEIGHT ? CKCI_OUT : CKCI_WEI].compute,
                 type = ckci_matrix_type(a, b);
    int32_t ranges;
    CKCI_TRY(ckci_need_unit(device, family, err));
    int mfma = family == CKCONV_FAMILY_MFMA;
    int32_t own = type == CKCONV_F64                          ? CKCI_TILE_DOUBLE
                  : type == CKCONV_F32 || type == CKCONV_TF32 ? CKCI_TILE_SINGLE
                  : type == CKCONV_I8                         ? CKCI_TILE_WHOLE
                                                              : CKCI_TILE_HALF;
    const int tma = tile->form == CKCI_TILE_TMA;
    if (type == 0 || (tma ? CKCI_TILE_HALF : tile->form) != own || (type == CKCONV_F32 && !mfma)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "these matrix tiles compute in %s, not in %s and %s",
                         tile->form == CKCI_TILE_DOUBLE  ? "f64"
                         : tile->form == CKCI_TILE_WHOLE ? "i8"
                         : tile->form == CKCI_TILE_HALF  ? "f16, bf16, bf16x3 and fp8"
                         : mfma                          ? "f32 and tf32"
                                                         : "tf32",
                         ckconv_dtype_name(a), ckconv_dtype_name(b));
    }
    const int one = p->g == 1 || p->t[CKCI_OUT].len[0] == 1; /* images share it (ckci_image_product) */
    if (tma && (!ckci_tma_there(device) || !one)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "tiles that the TMA brings are for sm_90a and one group; here it is %s%s and %lld",
                         device->arch, device->features ? " (without the a)" : "", CKCI_LL(p->g));
    }
    if (type == CKCONV_F64 && ckci_matrix_unit(device) == CKCI_UNIT_CDNA1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "the matrix unit of %s has no f64", device->arch);
    }
    const ckci_tensor *written = &p->t[ckci_written(p->op)];
    if (type == CKCONV_F64 && device->kind == CKCONV_DEVICE_AMD && !ckci_few(&written->op, 0)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "f64 tiles on AMD do not compute the epilogue %s",
                         ckconv_element_name(written->op.kind));
    }
    CKCI_TRY(ckci_gpu_takes(p, err));
    if (p->g > 1 || p->c > 4) { /* else two taps may become one (ckci_matrix_pairs): asked again, later */
        CKCI_TRY(ckci_matrix_taps(p, &ranges, err));
    }
    memset(m, 0, sizeof *m);
    m->conv = *p;
    m->type = type == CKCONV_TF32 && mfma && ckci_matrix_unit(device) != CKCI_UNIT_CDNA3 ? CKCONV_F32 : type;
    /* To transpose bytes costs more than f16's half rate. f16 holds them, f32 the sums of a short part. */
    m->whole = type == CKCONV_I8 && p->op == CKCONV_BWD_WEIGHT;
    m->type = m->whole ? CKCONV_F16 : m->type;
    m->terms = a == CKCONV_BF16X3 ? 3 : 1;
    m->merge = own == CKCI_TILE_SINGLE || own == CKCI_TILE_DOUBLE ? 1 : ckci_matrix_merge(p);
    m->tile = tile;
    int64_t lds = tma ? CKCI_TMA_ROOM + CKCI_TMA_TABLES
                      : ckci_matrix_asks(device, p->op, m->tile->rows, m->tile->columns);
    if (lds > device->lds_bytes) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "this tile needs %lld bytes of LDS, %s has %d",
                         CKCI_LL(lds), device->arch, (int)device->lds_bytes);
    }
    ckci_merge_groups(&m->conv, m->merge);
    return CKCONV_OK;
}

/* Blocks that a compute unit holds at a time: by LDS, and of 128 x 128 two (AMD: three, of wide tiles as many
   as have two waves on a SIMD) by registers. */
CKCI_FN int64_t ckci_matrix_blocks(const ckconv_device *device, ckconv_op op, int32_t tile_m, int32_t tile_n)
{
    int64_t lds = device->lds_bytes / ckci_matrix_lds(device, op, tile_m, tile_n),
            sums = (device->kind == CKCONV_DEVICE_NVIDIA       ? 32768
                    : ckci_matrix_wide(device, tile_m, tile_n) ? 65536
                                                               : 49152) /
                   (tile_m * tile_n);
    return ckci_max(ckci_min(ckci_min(lds, sums), 3), 1);
}

/* The same of m's tile. */
CKCI_FN int64_t ckci_matrix_side(const ckconv_device *device, const ckci_matrix *m)
{
    return m->tile->form == CKCI_TILE_TMA
               ? 1
               : ckci_matrix_blocks(device, m->conv.op, m->tile->rows, m->tile->columns);
}

/* Can groups of waves multiply there (wgmma)? In types of two bytes. */
CKCI_FN int ckci_matrix_groups(const ckconv_device *device, const ckci_matrix *m)
{
    return ckci_matrix_unit(device) == CKCI_UNIT_WGMMA && ckci_size(ckci_matrix_stored(m->type)) == 2;
}

/* Do they multiply these tiles? */
CKCI_FN int ckci_matrix_grouped(const ckconv_device *device, const ckci_matrix *m)
{
    int weight = m->conv.op == CKCONV_BWD_WEIGHT;
    return ckci_matrix_groups(device, m) && m->tile->rows >= (weight ? 64 : 128) &&
           m->tile->columns >= (weight ? 128 : 64);
}

/* Are `count` neighbouring positions of t's planes one aligned load or store, or several of 16 bytes,
   wherever a plane begins? */
CKCI_FN int ckci_aligned_planes(const ckci_tensor *t, int64_t plane, int64_t count)
{
    int fits = plane % count == 0 &&
               (uintptr_t)t->p % (uintptr_t)ckci_min(count * (int64_t)ckci_size(t->dtype), 16) == 0;
    for (int i = 0; i < 3; i++) {
        fits = fits && (t->len[i] <= 1 || t->stride[i] % count == 0);
    }
    return fits;
}

/* What groups of waves store as lines: f16 or bf16 and epilogues of a number or two for each channel, a
   residual of halves, and two bounds. Kernels ask again (takes() in kernels/matrix/groups.h), since pairs put
   other epilogues into planned launches. */
CKCI_FN int ckci_group_lines(const ckci_matrix *m, const ckci_gpu_target *o)
{
    int outputs = 0, good = ckci_size(o->t.dtype) == 2 &&
                            (o->form == CKCI_FORM_STORE ||
                             (o->form == CKCI_FORM_LINEAR && !o->scale && !o->shift &&
                              (!ckci_multiplies(o) || (CKCI_GROUP_FACTORS(m->tile->columns) &&
                                                       o->residual == CKCI_RESIDUAL_FACTORS))));
    for (int32_t j = 0; j < o->adds; j++) {
        outputs += o->d[j].line == CKCI_LINE_OUTPUT;
        good = good && (o->d[j].line == CKCI_LINE_CHANNELS || o->d[j].dtype != CKCONV_F32);
    }
    return good && outputs < 2;
}

/* Do all offsets of a tile's rows from its first image fit 31 bits? */
CKCI_FN int ckci_matrix_near_rows(const ckci_matrix *m, const ckci_tensor *t)
{
    int64_t space = 1, reach = 0;
    for (int i = 3; i < 6; i++) {
        space = ckci_saturating_mul(space, ckci_max(t->len[i], 1));
        reach = ckci_saturating_add(reach, ckci_saturating_mul(t->len[i], t->stride[i]));
    }
    return ckci_saturating_add(reach, ckci_saturating_mul(m->tile->rows / space + 2, t->stride[1])) <=
           INT32_MAX;
}

/* Channels first: do tiles write planes, eight rows of a column at a time? (Not fragments on sm_90, whose
   kernels have no registers for that.) Rows are positions of one image after the other; those of bwd_data
   with strides are not neighbours. NVIDIA stores 16 bytes that are aligned, AMD at any number but of i8.
   Eights that lie in two images are stored number by number: a fifth at most where planes are no eights. */
CKCI_FN int ckci_matrix_planes(const ckconv_device *device, const ckci_matrix *m)
{
    const ckci_conv *c = &m->conv;
    const ckci_tensor *t = &c->t[ckci_written(c->op)];
    const ckconv_dtype type = t->dtype;
    const int back = c->op == CKCONV_BWD_DATA, amd = device->kind != CKCONV_DEVICE_NVIDIA;
    const int strides = back && (c->stride[0] > 1 || c->stride[1] > 1 || c->stride[2] > 1);
    const int known = type == CKCONV_F32 || type == CKCONV_F16 || type == CKCONV_BF16 || type == CKCONV_I32 ||
                      type == CKCONV_I8;
    const int64_t plane = ckci_dense_plane(t);
    ckci_gpu_target o;
    ckci_set_target(c, &o);
    const int fits =
        amd && type != CKCONV_I8 ? plane % 8 == 0 || plane >= 32 : ckci_aligned_planes(t, plane, 8);
    const int good = plane > 0 && fits && known && !strides && !m->images && m->tile->form != CKCI_TILE_TMA &&
                     m->tile->form != CKCI_TILE_DOUBLE && o.form != CKCI_FORM_SINGLE;
    const int groups =
        ckci_matrix_grouped(device, m) && ckci_group_lines(m, &o) && ckci_matrix_near_rows(m, t);
    return good && (groups || ckci_matrix_unit(device) != CKCI_UNIT_WGMMA);
}

/* A line of them has one channel: so have D tensors with a number for each. */
CKCI_FN void ckci_write_planes(ckci_gpu_conv *k, int64_t plane)
{
    ckci_gpu_target *o = &k->o;
    k->o_vec = ckci_aligned_planes(&o->t, plane, 8);
    o->across = CKCI_ACROSS_PLANES;
    for (int32_t j = 0; j < o->adds; j++) {
        if (o->d[j].line == CKCI_LINE_CHANNELS) {
            o->d[j].stride[5] = o->d[j].stride[2];
        }
    }
}

/* How much slower than .022 ns an output a tile takes 64 places of the reduction. AMD: by the bytes that it
   takes from memory and LDS in that time, for want of measurements. */
CKCI_FN double ckci_matrix_slow(const ckconv_device *device, const ckci_matrix *m, double thirst)
{
    return device->kind != CKCONV_DEVICE_NVIDIA
               ? 0.6 + thirst * (36. / m->tile->rows + 36. / m->tile->columns)
               : m->tile->slow[!ckci_matrix_groups(device, m)];
}

/* How much longer it takes on AMD where a compute unit has only `side` blocks, since few waves wait often:
   for wide tiles, where waves fill tiles, and for small ones of bwd_weight on CDNA 3, by what four waves
   alone, one on each SIMD, fill of the unit's time, as llvm-mca has it of the loops that compilers make (of
   the last, .12 of two thirds, which is what ckci_matrix_slow says); for the others by a rule of thumb. */
CKCI_FN double ckci_matrix_waits(const ckconv_device *device, const ckci_matrix *m, double side)
{
    const int size = m->tile->rows * m->tile->columns, weight = m->conv.op == CKCONV_BWD_WEIGHT;
    const int wide = ckci_matrix_wide(device, m->tile->rows, m->tile->columns), square = size == 128 * 128;
    const int late = ckci_matrix_unit(device) == CKCI_UNIT_CDNA4, half = m->tile->form == CKCI_TILE_HALF;
    double alone = 0;
    if (wide) {
        alone = late ? .6 : .85;
    } else if (half && ckci_matrix_direct(device, m->tile->rows, m->tile->columns)) {
        alone = square ? (weight ? .45 : .5) : (weight ? .18 : .28);
    } else if (half && weight && !square && ckci_matrix_unit(device) == CKCI_UNIT_CDNA3) {
        alone = .18;
    } else {
        return (side * size < 2 * 128 * 128 ? 1.5 : 1) * (late && half ? 2 : 1);
    }
    const double filled = alone * (wide ? side * size / (256 * 128) : side);
    return filled < 1 ? 1 / filled : 1;
}

/* Channels of a box of fwd and bwd_data: 64, or 32 where those that there are not would be an eighth of all
   or more. 16 if there are no others: more boxes of short rows take longer than what they save (H200). 64 of
   a single tap: two boxes would have what lies in one row, and the TMA takes as long for a row of either. */
CKCI_FN int32_t ckci_tma_wide(const ckci_gpu_conv *k)
{
    const int64_t red = k->red, all = ckci_ceil_div(red, 64) * 64, less = all - ckci_ceil_div(red, 32) * 32;
    const int32_t taps = k->dim[0].filter * k->dim[1].filter * k->dim[2].filter;
    return taps == 1 ? 64 : red <= 16 ? 16 : 8 * less >= all ? 32 : 64;
}

/* Places of the reduction, those with them. */
CKCI_FN int64_t ckci_tma_places(const ckci_conv *c, const ckci_gpu_conv *k)
{
    const int32_t wide = ckci_tma_wide(k);
    return ckci_saturating_mul(c->filter[0] * c->filter[1] * c->filter[2],
                               ckci_ceil_div(k->red, wide) * wide);
}

/* Nanoseconds that the TMA takes for 128 bytes of a pixel (H200), where a space has one or two axes, and
   where it has three; for a row of a tensor, whatever its width. */
#define CKCI_TMA_PIXEL_NS 1.7
#define CKCI_TMA_VOXEL_NS 2
#define CKCI_TMA_ROW_NS 1.27

/* Do rows of t begin at lines of 128 bytes, 0; at sectors of 32, 1; or within those, 2? */
CKCI_FN int ckci_row_begins(const ckci_tensor *t)
{
    int64_t any = 0;
    for (int i = 0; i < 6; i++) {
        any |= t->len[i] > 1 && t->stride[i] != 1 ? t->stride[i] : 0;
    }
    return any % 64 == 0 ? 0 : any % 16 == 0 ? 1 : 2;
}

/* The same of a row of t, of 1x1 layers (H200, 132 units that read from L2): those that do not begin with a
   line are in two of them, those that begin within a sector in a fifth one. */
CKCI_FN double ckci_tma_row_ns(const ckci_conv *c, const ckci_tensor *t)
{
    static const double ns[3] = {CKCI_TMA_ROW_NS, 1.4, 2.1};
    return ns[ckci_pointwise(c) ? ckci_row_begins(t) : 0];
}

/* Nanoseconds that threads take to copy a step of columns' operand, where the TMA does not: of 64 columns
   they wait for memory, more are instructions, those of 256 in each other's way (H200, 56 entries of two
   waves that copied; whole launches of four take .91 to .96, and half of this chooses worse). */
CKCI_FN double ckci_tma_copy(const ckci_matrix *m)
{
    const int64_t columns = ckci_min(m->tile->columns, m->l.a.conv.columns);
    const double boxes = (double)ckci_ceil_div(columns, CKCI_TMA_BOX), each = boxes * (250 + 75 * boxes);
    return !m->copied ? 0 : each > 700 ? each : 700;
}

/* Nanoseconds that the TMA takes to bring 64 places of the reduction of so many of a tile's rows, and of its
   columns, of whose boxes each of a pair of blocks brings half. bwd_weight: where an operand's rows begin
   within sectors; else its products hide them. */
CKCI_FN double ckci_tma_brings(const ckci_matrix *m, int64_t tile_rows, int multicast)
{
    const ckci_conv *c = &m->conv;
    const ckci_gpu_conv *k = &m->l.a.conv;
    const int weight = c->op == CKCONV_BWD_WEIGHT, back = c->op == CKCONV_BWD_DATA;
    const double part = weight ? 1 : (double)ckci_tma_wide(k) / 64, /* of 128 bytes */
        pixel = (c->input[0] > 1 ? CKCI_TMA_VOXEL_NS : CKCI_TMA_PIXEL_NS) * part;
    const ckci_tensor *a = &c->t[weight || back ? CKCI_OUT : CKCI_IN],
                      *b = &c->t[weight ? CKCI_IN : CKCI_WEI];
    const int64_t columns = ckci_min(m->tile->columns, k->columns),
                  pairs = ckci_ceil_div(columns, 2 * CKCI_TMA_BOX) * CKCI_TMA_BOX;
    double row = ckci_tma_row_ns(c, a);
    if (weight && ckci_row_begins(a) < 2 && ckci_row_begins(b) < 2) {
        return 0;
    }
    row = !weight && !ckci_pointwise(c) && pixel > row ? pixel : row;
    return ((double)ckci_min(tile_rows, k->rows) * row +
            (double)(multicast ? pairs : columns) * ckci_tma_row_ns(c, b)) /
           part;
}

/* And those of the products. */
CKCI_FN double ckci_tma_products(const ckci_matrix *m, int64_t rows)
{
    return (double)rows * m->tile->columns * .022 * m->tile->slow[!ckci_pointwise(&m->conv)];
}

/* Nanoseconds that so many of a tile's rows take for 64 places of the reduction: as long as its products,
   `slow` times what those of whole tiles take, or its rows, or copies. */
CKCI_FN double ckci_tma_step_of(const ckconv_device *device, const ckci_matrix *m, int64_t rows, double slow)
{
    const double products = ckci_tma_products(m, rows) * slow,
                 brings = ckci_tma_brings(m, rows, m->multicast), copies = ckci_tma_copy(m),
                 most = products > brings ? products : brings;
    return (most > copies ? most : copies) * ckci_device_rates(device, m->type).matrix;
}

CKCI_FN double ckci_tma_step(const ckconv_device *device, const ckci_matrix *m)
{
    return ckci_tma_step_of(device, m, m->tile->rows, 1);
}

/* Blocks, or pairs of them, that run at a time; and what they take of so many tiles, which may be parts of
   them, too. */
CKCI_FN int64_t ckci_tma_units(const ckconv_device *device, const ckci_matrix *m)
{
    return ckci_max(device->compute_units >> m->multicast, 1);
}

CKCI_FN int64_t ckci_tma_pieces(const ckci_matrix *m, int64_t tiles)
{
    const int64_t rows = m->l.a.conv.tiles_m;
    return m->multicast ? tiles / rows * ((rows + 1) / 2) : tiles;
}

/* Do pairs of blocks have tiles of neighbouring rows, and each sends half of columns' boxes to both? Where
   steps wait for rows without that, and all tiles have the same. The blocks of a pair wait for each other,
   too: pixels, and rows that are lines, take 2 to 5 % longer (H200, 50 layers), as columns would that are
   little more than a box. */
CKCI_FN int ckci_tma_pairs(const ckconv_device *device, const ckci_matrix *m)
{
    const ckci_gpu_conv *k = &m->l.a.conv;
    const ckci_gpu_tile *t = m->tile;
    const double alone = ckci_tma_brings(m, t->rows, 0);
    return t->form == CKCI_TILE_TMA && device->compute_units > 1 && t->columns > CKCI_TMA_BOX &&
           k->columns > CKCI_TMA_BOX && k->tiles_m > 1 && ckci_pointwise(&m->conv) && !m->phased &&
           !m->copied && alone > ckci_tma_products(m, t->rows) &&
           alone > 1.05 * ckci_tma_brings(m, t->rows, 1);
}

/* Do threads store planes of a 1x1 layer, four positions at a time? A lane has 8 bytes where the TMA stores
   rows of 128, which takes three times as long (H200, 56 entries). Layers of more taps hide it behind their
   products; odd planes choose no better with a factor of their own (65 x 65, 7 x 7). */
CKCI_FN int ckci_tma_by_fours(const ckci_matrix *m)
{
    return m->plane % 8 == 4 && ckci_pointwise(&m->conv);
}

/* Time of tiles that the TMA brings: a block takes one after the other, and sends for the next while it
   stores what it has. */
CKCI_FN double ckci_tma_cost(const ckconv_device *device, const ckci_matrix *m, int64_t blocks, double red)
{
    const ckci_rates rates = ckci_device_rates(device, m->type);
    const int weight = m->conv.op == CKCONV_BWD_WEIGHT;
    const double share = (double)ckci_tma_pieces(m, blocks) / (double)ckci_tma_units(device, m);
    const double size = (double)m->tile->rows * m->tile->columns, rounds = share > 16 ? share : ceil(share);
    const int64_t tiles = (int64_t)m->l.a.conv.tiles_m * m->l.a.conv.tiles_n;
    double once = size * rates.bytes; /* parts are f32 */
    once *= ckci_tma_by_fours(m) ? .18 : m->copied ? .11 : weight && blocks > tiles ? .09 : .06;
    if (weight && red > (double)CKCI_SUM_WHOLE) { /* pieces are read, too */
        once *= 2 * ceil(red / (double)ckci_sum_chain(device)) - 1;
    }
    return 1700 * rates.round + rounds * (once + red / 64 * ckci_tma_step(device, m));
}

/* The same where its groups take tiles of half the rows in turns, `tiles` of them: one multiplies while the
   other stores. Steps read a third more for each product, and take a seventh more time; those
   whose halves have 64 rows or columns so much more that it did not pay (H200, 310 layers). A group stores
   its tile alone: each box takes as long as two groups' two. */
CKCI_FN double ckci_tma_turns_cost(const ckconv_device *device, const ckci_matrix *m, int64_t tiles,
                                   double red)
{
    const ckci_rates rates = ckci_device_rates(device, m->type);
    const double units = (double)ckci_max(device->compute_units, 1), share = (double)tiles / units;
    const double by = m->copied ? .27 : ckci_tma_by_fours(m) ? .24 : .09;
    const double store = (double)m->tile->rows / 2 * m->tile->columns * by * rates.bytes;
    const double products = red / 64 * ckci_tma_step_of(device, m, m->tile->rows / 2, 1.15);
    const double all = share > 16 ? share : ceil(share), pairs = share > 16 ? share / 2 : ceil(share / 2);
    if (m->tile->rows < 256 || m->tile->columns < 128 || share <= 1) { /* 1: a group would have none */
        return 1e300;
    }
    const double one = all * products + store, two = pairs * (products + store);
    const double taps = (double)(m->conv.filter[0] * m->conv.filter[1] * m->conv.filter[2]);
    const double rows = (double)m->l.a.conv.rows, columns = (double)m->l.a.conv.columns;
    const double bytes =
        2 * (m->images ? (double)m->conv.g * columns * (rows + red) : rows * (columns + red / taps));
    const double moved = ckci_cost_bytes(device, bytes, 24), most = one > two ? one : two;
    return 1700 * rates.round + (most > moved ? most : moved);
}

/* Is what has to become of sums a number or two for each channel, a residual, and two bounds? */
CKCI_FN int ckci_tma_epilogue(const ckci_matrix *m, int weight)
{
    const ckci_gpu_target *o = &m->l.a.conv.o;
    int good =
        o->form == CKCI_FORM_STORE || (o->form == CKCI_FORM_LINEAR && !weight && !o->scale && !o->shift);
    for (int32_t j = 0; j < o->adds; j++) {
        good = good && (o->d[j].line == CKCI_LINE_CHANNELS || j + 1 == o->residual);
    }
    good = good && (!ckci_multiplies(o) || CKCI_TMA_FACTORS(m->tile->columns));
    return good && (o->t.dtype == CKCONV_F16 || o->t.dtype == CKCONV_BF16);
}

/* bwd_weight: does the L2 cache keep both tensors, so that blocks may be at different positions at a time? */
CKCI_FN int ckci_matrix_cached(const ckci_matrix *m)
{
    const ckci_conv *c = &m->conv;
    return ckci_saturating_mul(2, ckci_count(&c->t[CKCI_IN]) + ckci_count(&c->t[CKCI_OUT])) <= 32000000;
}

/* Tiles that blocks of the TMA take whole, where they share the steps of others: of those there are between
   one and two rounds, so that few have sums from more than two blocks. */
CKCI_FN int64_t ckci_tma_whole(int64_t units, int64_t tiles)
{
    return ckci_max(tiles / units - 1, 0) * units;
}

/* The same where they do; `steps`: of a tile. More than anything where that cannot be, or one sum would come
   from many blocks. */
CKCI_FN double ckci_tma_shares_cost(const ckconv_device *device, const ckci_matrix *m, int64_t tiles,
                                    int64_t steps)
{
    tiles = ckci_tma_pieces(m, tiles);
    const int64_t units = ckci_tma_units(device, m), whole = ckci_tma_whole(units, tiles);
    const int64_t all = (tiles - whole) * steps, share = ckci_max(ckci_ceil_div(all, units), 1);
    const int64_t others = share < steps ? ckci_ceil_div(steps, share) : 1; /* that have a part of a tile */
    const double size = (double)m->tile->rows * m->tile->columns;
    if (tiles % units == 0 || all / units < 4 || others > 3 || all > INT32_MAX) {
        return 1e300;
    }
    if (m->conv.op == CKCONV_BWD_WEIGHT &&
        (!ckci_matrix_cached(m) || ckci_min(steps, share) * CKCI_TMA_BOX > CKCI_SUM_WHOLE)) {
        return 1e300;
    }
    const ckci_rates rates = ckci_device_rates(device, m->type);
    /* Blocks at different places do not take what they read from each other's requests: pixels above all. */
    const double apart = m->conv.op == CKCONV_BWD_WEIGHT || !ckci_pointwise(&m->conv) ? 1.3 : 1.1;
    const double step = ckci_tma_step(device, m), once = size * .06 * rates.bytes;
    return 1700 * rates.round + (double)(whole / units) * (once + (double)steps * step) +
           (double)share * step * apart + ceil((double)share / (double)steps) * once + 500 * rates.round +
           size * .09 * (double)(1 + others) * rates.bytes;
}

/* bwd_data with strides: blocks share the steps of all tiles in all phases. `others` have steps of the tile
   with most of them, which one block adds; threads store what the TMA stores elsewhere (H200, 80 tiles of 38
   layers and sizes: 6 % off in the mean). */
CKCI_FN double ckci_tma_phases_cost(const ckconv_device *device, const ckci_matrix *m,
                                    const ckci_gpu_phases *p)
{
    const ckci_rates rates = ckci_device_rates(device, m->type);
    const ckci_gpu_conv *k = &m->l.a.conv;
    const double units = (double)ckci_max(device->compute_units, 1), tiles = (double)k->tiles_m * k->tiles_n;
    const double columns = (double)ckci_min(m->tile->columns, k->columns); /* no others are stored */
    const double share = ceil(tiles * p->at[p->count] / units), stored = tiles * p->count / units;
    const double others = share < p->at[1] ? ceil(p->at[1] / share) : 1;
    return 4200 * rates.round + share * ckci_tma_step(device, m) * 1.05 +
           (stored > 1 ? stored : 1) * m->tile->rows * columns * .1 * rates.bytes +
           (1 + others) * m->tile->rows * m->tile->columns * .063 * rates.bytes;
}

/* A tile's kernel for phases; -1: it has none. */
CKCI_FN int32_t ckci_tma_phase_kernel(const ckci_gpu_tile *t)
{
#define CKCI_ROW(X, ROWS, COLUMNS, PART)                                                                     \
    if (t->rows == ROWS && t->columns == COLUMNS) {                                                          \
        return CKCI_KERNEL_matrix_tma_phase_##ROWS##x##COLUMNS;                                              \
    }
    CKCI_TMA_PHASE_TILES(CKCI_ROW, 0)
#undef CKCI_ROW
    return -1;
}

/* If the TMA can, and slots have room. */
CKCI_FN ckconv_status ckci_tma_take_phases(const ckconv_device *device, ckci_matrix *m, int across,
                                           int64_t limit, unsigned char *ws, double *cost, ckconv_error *err)
{
    const ckci_gpu_conv *k = &m->l.a.conv;
    ckci_gpu_phases p;
    const int32_t kernel = ckci_tma_phase_kernel(m->tile);
    if (kernel < 0 || !across || !k->o_vec || k->o.form != CKCI_FORM_STORE || !ckci_tma_epilogue(m, 0) ||
        !ckci_make_phases(&m->conv, ckci_tma_wide(k), &p) || ckci_span(&k->o.t) / 16 > INT32_MAX ||
        ckci_saturating_mul((int64_t)k->tiles_m * k->tiles_n, p.at[p.count]) > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "of bwd_data with strides tiles of the TMA of 128 x 128 and 256 x 64 take 16 "
                         "phases, 64 taps within 256 pixels, channels last, C in multiples of 8, weights as "
                         "they lie, 32 GiB and no epilogue");
    }
    ckci_set_kernel(&m->l, kernel);
    m->shares = 1;
    *cost = ckci_tma_phases_cost(device, m, &p);
    return ckci_matrix_take(
        m, device->compute_units * (CKCI_TMA_SLOT(m->tile->rows, m->tile->columns) + (int64_t)16), limit, ws,
        &m->slots, err);
}

/* Blocks of a cluster that have parts of a tile each, two, four or eight, if that takes less time: where all
   clusters run at a time and the TMA stores what they add, a box of 64 x 64 after the other, of which each
   takes those that are its turn. Pairs fill all units; others stay among the units that share a part of the
   chip, 14 to 18, where two of 16 may be left over (H200: 32 fours of 132 units do not run at a time; they
   begin later than pairs by a microsecond or two, eights by four). */
CKCI_FN void ckci_tma_clusters(const ckconv_device *device, ckci_matrix *m, int64_t tiles, int64_t steps,
                               double *cost)
{
    const ckci_rates rates = ckci_device_rates(device, m->type);
    const int weight = m->conv.op == CKCONV_BWD_WEIGHT;
    const double size = (double)m->tile->rows * m->tile->columns;
    const int64_t boxes = ckci_ceil_div((int64_t)m->tile->rows * m->tile->columns, 2 * 64 * 64);
    for (int32_t blocks = 2; blocks <= 8; blocks *= 2) {
        const int64_t part = ckci_ceil_div(steps, blocks);
        const double added = (double)(ckci_ceil_div(boxes, blocks) * blocks) * 2 * 64 * 64;
        const double time = (1700 + 650 * blocks - 300) * rates.round + (size + added) * .06 * rates.bytes +
                            (double)part * ckci_tma_step(device, m);
        const int64_t units = device->compute_units, room = (blocks > 2 ? units - units / 8 : units) / blocks;
        if (time < *cost && tiles <= room && part >= 2 &&
            (!weight || part * CKCI_TMA_BOX <= CKCI_SUM_WHOLE)) {
            m->cluster = blocks;
            *cost = time;
        }
    }
}

/* If that takes less time, and slots have room. */
CKCI_FN int ckci_tma_shares(const ckconv_device *device, ckci_matrix *m, int64_t tiles, int64_t steps,
                            int64_t limit, unsigned char *ws, double *cost)
{
    const int64_t units = ckci_max(device->compute_units, 1), before = m->bytes;
    const double time = ckci_tma_shares_cost(device, m, tiles, steps);
    if (!(time < *cost)) {
        return 0;
    }
    if (ckci_matrix_take(m, units * (CKCI_TMA_SLOT(m->tile->rows, m->tile->columns) + 16), limit, ws,
                         &m->slots, NULL) != CKCONV_OK) {
        m->bytes = before;
        return 0;
    }
    m->shares = 1;
    *cost = time;
    return 1;
}

/* Tiles of bwd_data with strides have as many steps as their phase has taps, on average as many as take `red`
   nanoseconds; each takes `once` more, or `none` where there is nothing to wait for. Workers take them in
   turns, there and back (ckci_k_stream): the time of the one that has most, of those where phases meet; of
   many rounds the mean. */
CKCI_FN double ckci_matrix_phases(const ckci_matrix *m, int64_t workers, int64_t tiles, double once,
                                  double none, double red)
{
    const ckci_gpu_conv *k = &m->l.a.conv;
    const int64_t phases = k->phases, each = ckci_max(tiles / phases / ckci_max(k->g, 1), 1);
    double time[CKCI_TMA_PHASES], mean = 0, most = 0;
    const double share = (double)tiles / (double)workers, one = red / ckci_reduction(k, 1);
    if (phases > CKCI_TMA_PHASES) {
        return (share > 16 ? share : ceil(share)) * (once + red);
    }
    for (int64_t n = 0; n < phases; n++) {
        const int64_t taps = ckci_taps_in_turn(&m->conv, k->dim, n);
        time[n] = taps > 0 ? once + (double)taps * one : none;
        mean += time[n] / (double)phases;
    }
    if (share > 8) {
        return (share > 16 ? share : ceil(share)) * mean;
    }
    for (int64_t n = 0; n < 2 * phases; n++) {
        const int64_t worker = (n / 2 * each + workers - n % 2) % workers;
        double all = 0;
        for (int64_t first = 0, back = 0; first < tiles; first += workers, back ^= 1) {
            const int64_t tile = first + (back ? workers - 1 - worker : worker);
            all += tile < tiles ? time[tile / each % phases] : 0;
        }
        most = all > most ? all : most;
    }
    return most;
}

/* Time on m's matrix unit. Rounds of blocks that run side by side; each takes nanoseconds to begin and write
   its sums, fewer where a block goes from one tile into the next, and for 64 places of the reduction: what
   ckci_matrix_slow says for two bytes each. NVIDIA multiplies f64 at the rate of eight bytes; AMD's rates are
   in the table of figures. */
CKCI_FN double ckci_matrix_cost(const ckconv_device *device, const ckci_matrix *m, int64_t blocks, double red)
{
    if (m->tile->form == CKCI_TILE_TMA) {
        return ckci_tma_cost(device, m, blocks, red);
    }
    int amd = device->kind != CKCONV_DEVICE_NVIDIA;
    ckconv_op op = m->conv.op;
    double side = (double)ckci_matrix_side(device, m), units = device->compute_units;
    const ckci_rates rates = ckci_device_rates(device, m->type);
    double slow = ckci_matrix_slow(device, m, rates.thirst), size = (double)m->tile->rows * m->tile->columns;
    units = units < 1 ? 1 : units;
    if (amd) { /* no more side by side than there are */
        double most = ceil((double)blocks / units);
        side = most < 1 ? 1 : side < most ? side : most;
        slow *= ckci_matrix_waits(device, m, side);
    } else if (side > 1 && (double)blocks <= units) {
        side = 1;
        slow *= 1.4;
    }
    slow *= amd ? 1 : 8 / (double)ckci_matrix_chunk(m->type);
    const ckci_tensor *read = &m->conv.t[op == CKCONV_FWD ? CKCI_IN : CKCI_OUT];
    if (ckci_matrix_unit(device) == CKCI_UNIT_WGMMA && m->conv.g == 1 && read->stride[2] == 1 &&
        ckci_pointwise(&m->conv)) {
        slow *= 1 + .1 * ckci_row_begins(read); /* loads are of sectors (H200, 1512 and 1520 channels) */
    }
    double area = side * size, share = (double)blocks / (side * units);
    double rounds = share > (amd ? 6 : 16) ? share : ceil(share),
           once = 1700 * rates.round + area * .125 * rates.bytes;
    if (op == CKCONV_BWD_WEIGHT && red > (double)CKCI_SUM_WHOLE) { /* pieces are read, too */
        once *= 2 * ceil(red / (double)ckci_sum_chain(device)) - 1;
    }
    double first = 0;
    const int phased = op == CKCONV_BWD_DATA && m->l.a.conv.phases > 1;
    if (op != CKCONV_BWD_WEIGHT && ckci_matrix_grouped(device, m)) {
        once = (m->l.a.conv.stream ? 1300 : 3800) * rates.round + area * .038 * rates.bytes;
        first =
            1500 * rates.round; /* until threads have copied, beside tiles of the TMA (H200, 102 layers) */
    } else if (ckci_matrix_groups(device, m)) { /* the same; waves that multiply alone (57 layers) */
        first = (ckci_matrix_grouped(device, m) ? 1000 : 3500) * rates.round;
    }
    /* columns of eight rows, 128 bytes at most (H200, groups of waves; fragments for want of measurements) */
    if (!amd && m->planes) {
        once += size * .05 * rates.bytes;
    } else if (!amd && op != CKCONV_BWD_WEIGHT && !m->l.a.conv.o_vec) { /* by numbers (H200, K 21, 255) */
        once += size * .5 * rates.bytes;
    }
    if (phased && ckci_matrix_grouped(device, m)) {
        return first + ckci_matrix_phases(m, (int64_t)(side * units), blocks, once, once - first,
                                          red / 64 * area * .022 * slow * rates.matrix);
    }
    if (phased && share <= 1) { /* nobody has more than one: that of most taps */
        for (int i = 0; i < 3; i++) {
            red *= m->l.a.conv.dim[i].taps[0].d;
        }
        red /= ckci_reduction(&m->l.a.conv, 1);
    }
    if (amd) { /* a last round of fewer blocks than fit is shorter */
        const double most = share > 6 ? share * side : ceil((double)blocks / units);
        return rounds * once + most * size * red / 64 * .022 * slow * rates.matrix;
    }
    return first + rounds * (once + red / 64 * area * .022 * slow * rates.matrix);
}

/* May groups of waves go from one tile into the next? If all have as many steps; or where phases differ, if
   each has three steps at least, and taps that fit half of a table. */
CKCI_FN int32_t ckci_matrix_streams(const ckci_gpu_conv *k)
{
    int64_t least = 1, most = 1;
    if (k->phases == 1) {
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        const ckci_gpu_dim *d = &k->dim[i];
        int64_t few = INT32_MAX, many = 0;
        if (d->stride > 64) {
            return 0;
        }
        for (int64_t phase = 0; phase < ckci_max(d->phases, 1); phase++) {
            int64_t taps = 0;
            for (int64_t t = 0; t < d->filter; t++) {
                taps += (phase + d->pad - t * d->dilation) % d->stride == 0;
            }
            few = ckci_min(few, taps);
            many = ckci_max(many, taps);
        }
        least *= few;
        most *= many;
    }
    return least * k->red > 128 && most < CKCI_STREAM_TAPS;
}

/* Blocks of a device of AMD's take tiles in an order by its dies; it may be a part of one that its row means,
   with fewer of them. */
CKCI_FN void ckci_matrix_order(const ckconv_device *device, ckci_matrix *m)
{
    const ckci_architecture *row = ckci_find_architecture(device->arch);
    if (row && device->kind == CKCONV_DEVICE_AMD) {
        const int64_t units = ckci_max(device->compute_units, 1);
        const int64_t dies = (units * row->dies + row->units / 2) / row->units;
        const int64_t pieces = m->l.a.conv.phases > 1 ? (int64_t)m->l.a.conv.phases * m->l.a.conv.g : 1;
        m->l.a.conv.as.order = ckci_make_order(m->l.grid / pieces, ckci_max(dies, 1));
    }
}

/* Tiles that groups of waves multiply (sm_90): as many blocks as run side by side take them. Plain stores of
   a tile are at most 2^31 elements apart. */
CKCI_FN void ckci_matrix_workers(const ckconv_device *device, ckci_matrix *m)
{
    ckci_gpu_conv *k = &m->l.a.conv;
    const int64_t side = ckci_matrix_side(device, m) * device->compute_units;
    k->work = k->workers = (int32_t)m->l.grid;
    ckci_matrix_order(device, m);
    if (ckci_matrix_grouped(device, m) && side > 0) {
        k->o_vec = k->o_vec && ckci_matrix_near_rows(m, &k->o.t);
        m->l.grid = ckci_min(m->l.grid, side);
        k->workers = (int32_t)m->l.grid;
    }
}
