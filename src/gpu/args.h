/*------------------------------------------------------------------------------------------------------------
  >>gpu-args
  What a kernel is told: one struct of plain numbers for each family, filled by the planner on the host and
  read by kernels/. The contract between both: whatever one needs to know of the other stands here, sizes in
  LDS too. Divisions are prepared on the host (ckci_divisor), since GPUs have none for integers. Structs go by
  value, so that a launch needs no memory, and every member has the same size on both sides.
*/
#pragma once
#include "core/target.h"
#include "core/math.h"
#include "core/tensor.h"

/* What a block of matrix_near holds: bytes of a region (NVIDIA: of each of two), its pixels and positions;
   from a pixel to the next one in LDS. */
#define CKCI_NEAR_NVIDIA_BYTES 54272
#define CKCI_NEAR_NVIDIA_PIXELS 384
#define CKCI_NEAR_NVIDIA_POSITIONS 256
#define CKCI_NEAR_AMD_BYTES 27648
#define CKCI_NEAR_AMD_PIXELS 192
#define CKCI_NEAR_AMD_POSITIONS 128
#define CKCI_NEAR_PITCH 144
enum { CKCI_NEAR_NVIDIA_LDS = 111104 }; /* of a block, both regions and tables */

/* What blocks of matrix_stem hold: pairs of a reduction in fwd, bytes of weights and columns in bwd_data,
   bytes of pixels (on NVIDIA or not), positions of bwd_weight. */
#define CKCI_STEM_PAIRS 128
#define CKCI_STEM_WEIGHTS 33024
#define CKCI_STEM_COLUMNS 64
#define CKCI_STEM_PIXELS(NVIDIA) ((NVIDIA) ? 38912 : 29696)
#define CKCI_STEM_BACK_PIXELS(NVIDIA) ((NVIDIA) ? 79872 : 31232)
#define CKCI_STEM_PLANES(NVIDIA) ((NVIDIA) ? 81920 : 20480)
#define CKCI_STEM_POSITIONS(NVIDIA) ((NVIDIA) ? 112 : 64)
/* Threads of a block of tiles that CDNA alone has: each of its waves owns 128 x 64 sums, or 64 x 128. So it
   takes three bytes from LDS where waves of 64 x 64 take four, and two waves share a SIMD. */
#define CKCI_WIDE_THREADS(ROWS, COLUMNS) ((ROWS) * (COLUMNS) / 128)
/* Steps of a tile that LDS holds where waves fill it (CDNA 4), of a first and a second operand with so many
   rows: blocks share 160 KB, or one has it. */
#define CKCI_DIRECT_STAGES(ROWS) ((ROWS) <= 384 ? 3 : 4)
/* Tiles in LDS where groups of four waves multiply: of a first and a second operand with so many rows. */
#define CKCI_GROUP_STAGES(ROWS) ((ROWS) <= 256 || (ROWS) > 384 ? 3 : (ROWS) <= 320 ? 5 : 4)
/* Tiles of bwd_data on NVIDIA that read weights across memory whatever the number of channels: smaller ones
   have no registers for steps of several taps. */
#define CKCI_BACK_ANY(COLUMNS) ((COLUMNS) >= 128)
/* Tiles of bwd_weight that add up the pieces of a long sum in registers, of which they have some to spare. */
#define CKCI_MATRIX_FAR(SIZE, ROWS, COLUMNS) ((SIZE) == 2 && (ROWS) == 32 && (COLUMNS) == 128)
/* Steps of a tile that LDS holds where the TMA brings them (sm_90a), of operands with so many rows together;
   beside them, bytes of what else a block has there. */
#define CKCI_TMA_STAGES(ROWS) (CKCI_TMA_ROOM / 128 / (ROWS))
/* bytes of a block's sums, and of its sums of rows, that another finishes */
#define CKCI_TMA_SLOT(ROWS, COLUMNS) ((ROWS) * (COLUMNS)*4 + ((ROWS) < 128 ? 128 : (ROWS)) * 32)
/* Do D tensors multiply sums of tiles of so many columns? LDS has room for two numbers of a channel; and of
   tiles whose groups copy for themselves? Narrow ones have no registers for it. */
#define CKCI_TMA_FACTORS(COLUMNS) ((COLUMNS) <= 128)
/* Tiles of bwd_weight that read dout as it lies, channels first: others have few positions to read, and twice
   the code, which every launch fetches. */
#define CKCI_TMA_DOUT(COLUMNS) ((COLUMNS) == 256)
#define CKCI_GROUP_FACTORS(COLUMNS) ((COLUMNS) > 64)
#define CKCI_TMA_DONE 0x6b636f6e763a3031ull /* nobody else leaves that in workspace, nor do kernels */
enum { CKCI_TMA_TABLES = 35840, CKCI_TMA_ROOM = 232448 - CKCI_TMA_TABLES, CKCI_TMA_MOST = 8 };
enum { CKCI_TMA_BOX = 64, CKCI_TMA_BOX_BYTES = 8192, CKCI_TMA_RESIDUALS = 3 };
enum { CKCI_TMA_PHASES = 16, CKCI_TMA_TAPS = 64 }; /* of strides, and of a filter that has some, at most */
/* Room for the taps of a phase in half of a table; one stands for none. */
#define CKCI_STREAM_TAPS 64

/* Channels of mid that a block of pair_matrix holds; LDS of blocks of pair_depth (two share NVIDIA's 228 KiB,
   with a KiB each; pair_depth_wide and pair_strips have it alone), and loads that a thread holds (AMD). */
#define CKCI_PAIR_POINT_NVIDIA 512
#define CKCI_PAIR_POINT_AMD 352
#define CKCI_PAIR_NVIDIA 115712
#define CKCI_PAIR_NVIDIA_WIDE 232448
#define CKCI_PAIR_AMD 65536
#define CKCI_PAIR_COPIES 8
#define CKCI_PAIR_LIST 24 /* regions whose places a block lists at a time */

/* Products that a thread of bwd_weight adds to one sum of f32 one after the other, at most, where its
   registers have no room for long sums (kernels/prim.h, CKCI_K_STRETCH). Their roundings add up to
   sqrt(4096) / 4 = 16 units in the mean; parts that fill a GPU are hardly ever longer, so that ordinary
   layers do not pause (H200: at 1024 they took 5 to 10 % longer). NORM: numbers of a sum of a group norm's
   gradients, likewise. */
enum { CKCI_GPU_CHAIN = 4096, CKCI_NORM_CHAIN = 1024 };

/* n / d for n < 2^31 without a division: (mulhi(n, mul) + n) >> shift */
typedef struct ckci_divisor {
    uint32_t d, mul, shift;
} ckci_divisor;

CKCI_FN ckci_divisor ckci_make_divisor(int64_t d)
{
    ckci_divisor r;
    r.d = (uint32_t)ckci_max(d, 1);
    r.shift = 0;
    uint32_t rest = r.d - 1; /* bits of d - 1: 2^shift is the first power that is not below d */
    for (uint32_t bits = 16; bits > 0; bits /= 2) {
        uint32_t half = rest >> bits ? bits : 0;
        rest >>= half;
        r.shift += half;
    }
    r.shift += rest;
    r.mul = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << r.shift) - r.d)) / r.d + 1);
    return r;
}

/* One spatial dimension in all its phases: what ckci_map_axis computes on the host, kernels compute from
   this. Counts and taps of two phases differ by one at most, so both have two divisors: the larger value,
   the smaller one. */
typedef struct ckci_gpu_dim {
    int32_t phases; /* bwd_data: input positions modulo the stride that exist; else 1 */
    int32_t turn;   /* of them the first, which begins with tap 0, so that none has more taps; 0 where an axis
                       is shorter than the stride */
    int32_t length; /* of the written dimension (of the output for bwd_weight) */
    int32_t stride, dilation, pad, filter;
    int32_t write_step, period;            /* written positions and taps of a phase are these apart */
    int32_t slip;                          /* dilation modulo stride */
    int32_t read_step, read_tap, read_len; /* as in ckci_axis */
    int32_t gather_back;                   /* bwd_data */
    ckci_divisor count[2], taps[2], by_stride, by_period, by_phases;
} ckci_gpu_dim;

/* How an epilogue is computed; the host decides it once (ckci_set_form). The closed form of operations that
   are linear but for a limit is: alpha * sum, times what multiplies, + beta * (D tensors that are added),
   then no less than low and no more than high. */
enum {
    CKCI_FORM_STORE,  /* sums are rounded and stored */
    CKCI_FORM_LINEAR, /* the closed form */
    CKCI_FORM_CURVED, /* a sigmoid, silu or gelu of the closed form */
    CKCI_FORM_SLOPED, /* times a curve's derivative where a D tensor says that lies as the output: sums from
                         workspace alone, whose kernel has registers for it */
    CKCI_FORM_SINGLE  /* element by element: a D tensor lies otherwise or has another type, or such a curve */
};

/* How a D tensor lies, in any form but SINGLE. */
enum {
    CKCI_LINE_CHANNELS, /* one number for each channel of all groups, d.stride[2] apart (0: one for all);
                           o.across: a line has one channel; they are d.stride[5] apart */
    CKCI_LINE_OUTPUT    /* as the written tensor; eight neighbours are aligned together if there they are */
};

/* What becomes of a D tensor's numbers. Element by element, ADD and MULTIPLY are done before the operation,
   which gets all others as they are. By lines what does not MULTIPLY is added, but for the gates, the last
   two: MASK lets sums pass where D lies between gate_low and gate_high, AFTER is added to sums that are no
   less than gate_low. */
enum { CKCI_EXTRA_KEEP, CKCI_EXTRA_ADD, CKCI_EXTRA_MULTIPLY, CKCI_EXTRA_MASK, CKCI_EXTRA_AFTER };

/* What D tensors are, where an epilogue is LINEAR without scale and shift. From 0 on: each has a number for
   each channel that is added, but for D tensor `residual` - 1, which lies as the output and has its type (0:
   none does); FACTORS: each has a number for each channel, and the first multiplies; ANY: else. */
enum { CKCI_RESIDUAL_ANY = -1, CKCI_RESIDUAL_FACTORS = -2 };

/* A D tensor: its logical sizes are those of the written tensor. */
typedef struct ckci_gpu_extra {
    unsigned char *p;
    ckconv_dtype dtype;
    int32_t line, how; /* CKCI_LINE_, CKCI_EXTRA_ */
    int64_t stride[6];
} ckci_gpu_extra;

/* Lines of one channel, whose numbers are neighbouring positions. ROWS: channels are the target's rows (x),
   its columns positions (ckci_image_product). PLANES: lines run along the rows, which are positions
   (ckci_matrix_planes). */
enum { CKCI_ACROSS_ROWS = 1, CKCI_ACROSS_PLANES };

/* The written tensor with all that its epilogue needs. */
typedef struct ckci_gpu_target {
    ckci_tensor t;
    ckci_gpu_extra d[4];
    const unsigned char *scale, *shift; /* mid only */
    unsigned char *partial;             /* split reductions: sums go here, part after part */
    int32_t num_d;
    ckconv_dtype compute;         /* mid only: rounded to this before it is stored; else 0 */
    int32_t form, adds;           /* D tensors of any form but SINGLE */
    int32_t residual;             /* CKCI_RESIDUAL_ */
    int32_t gate;                 /* d[residual - 1].how, where an instruction finds it (H200: 8 %) */
    int32_t across;               /* CKCI_ACROSS_, or 0 */
    int32_t bounds;               /* 0: low and high are infinite, 1: high is, 2: neither may be */
    float alpha, beta, low, high; /* of the closed form */
    float gate_low, gate_high;    /* NaN: no gate */
    double alpha_d, beta_d, low_d, high_d, gate_low_d, gate_high_d; /* of f64: GPUs convert slowly */
} ckci_gpu_target;

/* near: regions of so many images, rows and columns of positions, of one plane of the output. */
typedef struct ckci_gpu_near {
    int32_t images, rows, columns, tiles; /* positions; a tile has 16 of them */
    int32_t rolled, lines;          /* waves walk down rows; rows of positions that tiles hold, then 1 */
    int32_t chunk;                  /* rows of positions that are in LDS at a time (rolled, NVIDIA) */
    int32_t high, wide;             /* pixels of one image of a region, halo and all */
    int32_t image_pitch, row_pitch; /* in LDS, bytes */
    int32_t bytes;                  /* of all pixels there; bwd_weight: dout lies behind them */
    int32_t first_y, first_x;       /* the first pixel of position 0 */
    int32_t regions, parts;         /* block i of a slice of channels takes regions i, i + parts, ... */
    int32_t channels, taps, whole;  /* of all groups; of the filter; stored together, in the compute type */
    int32_t channels_in, less_in, less_out; /* bwd_weight: in's; log2 of K / C, of C / K */
    int32_t back, packed;                   /* taps are turned round; weights lie in order */
    int32_t eights;                         /* eight neighbours along C of weights that do not are one load */
    int32_t planes, first_z; /* of the filter, each with so many taps; the first one of output 0 */
    int32_t tap[9];          /* from a position's first pixel to a tap's in LDS, bytes */
    ckci_divisor by_wide, by_high, by_columns, by_rows, by_regions_x, by_regions_y; /* by_rows: lines */
    ckci_divisor by_regions_z, by_planes;
    ckci_divisor by_taps, by_filter_x;
    int32_t log_sides; /* deep: waves for the 16s of a slice's channels: 1, 2, 4 */
    int32_t residual;  /* o.residual, which, if there is one, lies in LDS behind the pixels; AMD, deep: ANY */
} ckci_gpu_near;

/* Tiles on AMD: which of them a block takes (ckci_k_in_order), where several dies take blocks in turns; the
   first `rest` dies have one more than `each`, of each phase of each group: its tiles have as many steps. */
typedef struct ckci_gpu_order {
    int32_t each, rest;
    ckci_divisor by_dies, by_phase;
} ckci_gpu_order;

CKCI_FN ckci_gpu_order ckci_make_order(int64_t blocks, int64_t dies)
{
    ckci_gpu_order order;
    order.each = (int32_t)(blocks / dies);
    order.rest = (int32_t)(blocks % dies);
    order.by_dies = ckci_make_divisor(dies);
    order.by_phase = ckci_make_divisor(blocks);
    return order;
}

/* pointwise: bytes of a column of weights in LDS, and its chunks of eight places. planes: columns of a block,
   parts that the columns have; fours of positions of an image; eights: planes are of whole ones, aligned.
   added: where in LDS lies what D tensors of one number a channel add; 0: sums go through ckci_k_epilogue;
   factors: where those lie that they multiply with, or 0. residual: o.residual, where that is f16 or bf16
   beside `added`; else 0. pairs: rows of what is written are an odd number of 16 bytes, and no tensor is
   added that lies alike. */
typedef struct ckci_gpu_point {
    int32_t pitch, width, fours, eights, added, factors, residual, pairs;
    ckci_divisor by_chunks, by_parts, by_fours;
} ckci_gpu_point;

/* pair_depth: regions of the result, their windows of the input, and where all that lies in LDS, in bytes. */
typedef struct ckci_gpu_patch {
    int32_t work;                       /* regions, times parts of the columns */
    int32_t images, lines, columns;     /* of a region, 4 * by_strips.d */
    int32_t pixels;                     /* of a window */
    int32_t spans, held;                /* of channels; of which weights of taps lie in LDS */
    int32_t group;                      /* taps of a row that share inputs: 3, 5, or 1 if none do */
    int32_t step, step_y;               /* pixels between positions */
    int32_t next_group, next_y, next_z; /* bytes from taps to taps in a window */
    int32_t padded;                     /* mid may not exist where the result does */
    int32_t resident;                   /* its weights stay in LDS */
    int32_t single;                     /* one window */
    int32_t overlap;                    /* 0: none, 1: the second window, 2: all share the weights' place */
    int32_t at_taps, at_output, at_regions, at_pixels, at_tiles, at_room, at_window[2];
    /* strips of a line, lines of an image; regions along x and y, planes; pixels, rows, planes of a window */
    ckci_divisor by_strips, by_lines, by_wide, by_high, by_planes, by_window, by_rows, by_deep;
} ckci_gpu_patch;

/* pair_strips: a tile is a line of so many strips, eight positions along x of the result each; tiles follow
   each other line after line. */
typedef struct ckci_gpu_strips {
    int32_t all;                                 /* strips of a line of all planes and images */
    int32_t strips;                              /* of a tile */
    int32_t part, part_rest;                     /* tiles of a block; blocks with one more */
    int32_t wide, log_wide, parts;               /* 64s of columns, 64s of rows of a tile */
    int32_t turns;                               /* of four groups, each with 64 columns of 64 rows */
    int32_t slabs;                               /* of 64 channels */
    int32_t packed;                              /* results are of mid's type, stored as they are */
    int32_t at_mid, at_room, at_taps, at_strips; /* in LDS; the second weights come first */
    ckci_divisor by_line, by_high, by_planes;    /* strips and lines of a plane; planes of an image */
    ckci_divisor by_quads;                       /* fours of channels */
} ckci_gpu_strips;

/* matrix bwd_weight in groups of waves: all blocks have equal shares of the steps of all tiles, tile by tile.
   A tile's parts are those of the blocks that have a share in it. */
typedef struct ckci_gpu_share {
    int32_t steps;      /* of a tile, 64 positions each; 0: not so */
    int32_t part, rest; /* steps of a block; blocks with one more */
    int32_t positions;
    ckci_divisor by_steps, by_part, by_more; /* more: part + 1 */
    ckci_divisor by_rows, by_columns;        /* of a tile */
} ckci_gpu_share;

/* dbias of bwd_weight: sums of dout's channels, [part][channel], and the vector that they go to; adds: to
   what it holds. Of matrix bwd_weight's parts each column of tiles that takes turns has its own. */
typedef struct ckci_gpu_vector {
    unsigned char *sums, *out; /* sums NULL: there are no parts */
    ckconv_dtype dtype;
    int32_t adds, channels, parts;
} ckci_gpu_vector;

/* The pass that sums them, where no tile of bwd_weight does (kernels/bias.h). */
typedef struct ckci_gpu_bias {
    ckci_tensor t; /* dout: axis 5 is what lies closest of positions, channels of a group are axis 2 */
    ckci_gpu_vector o;
    int32_t vec;   /* numbers of a load */
    int32_t along; /* which are positions, not channels */
    int32_t log_c; /* of a block's threads that take channels (`vec` each, unless along); others: positions */
    int32_t tiles; /* blocks for all channels of a group */
    int32_t part, part_rest; /* loads of positions of a part; the first part_rest parts have one more */
    ckci_divisor by_tiles, by_g;
    ckci_divisor count[3]; /* positions along axes 3, 4; loads along axis 5 */
} ckci_gpu_bias;

/* Steps of a tile that leaves out some of them: 31 bits hold their square. */
enum { CKCI_TRIM_STEPS = 46340 };

/* A convolution for the kernels. gather and direct: a is the tensor that is read (in; dout for bwd_data), b
   the weights, a row is a position of a phase, a column a channel of the written tensor, and the reduction
   runs over taps and, fastest, channels of a. bwd_weight: a is dout, b is in, a row is an output channel, a
   column a tap and, fastest, an input channel, and the reduction runs over positions of dout.
   Divisors divide by the member of their name, with these exceptions:
     weight, matrix_weight   by_phases: g
     direct_weight           by_tiles_m: taps; by_channels: K
     reduce                  by_tiles_m: rows
     gather_reduce           by_tiles_m: rows where o_vec is set; by_columns: eights of them */
typedef struct ckci_gpu_conv {
    ckci_tensor a, b;
    ckci_gpu_target o;
    ckci_gpu_dim dim[3];
    union {
        ckci_gpu_near region;
        ckci_gpu_patch patch; /* of a pair's second convolution */
        ckci_gpu_strips strips;
        ckci_gpu_point point;
        ckci_gpu_order order;
    } as;
    int64_t b_column, b_red; /* gather: strides of the weights */
    int32_t g, n, rows, columns, red;
    int32_t phases, tiles_m, tiles_n;
    int32_t split, part, part_rest; /* bwd_weight: parts, positions of a part, parts with one more; matrix and
                                       tile fwd, bwd_data: parts of the steps of a tile */
    int32_t a_vec, b_vec;           /* four neighbours along the reduction are one aligned load */
    int32_t a_along, b_along;   /* neighbouring threads load along the reduction, not along rows or columns */
    int32_t a_narrow, b_narrow; /* offsets inside a slice fit 32 bits */
    int32_t o_vec;              /* neighbouring columns are one aligned store; matrix: eight (of planes
                                   rows, all of which exist), tile: four that need no epilogue */
    int32_t float_parts;        /* reduce to i32: sums of parts are f32 */
    int32_t ranges;             /* matrix, tile: padding as ranges of taps, not as masks */
    int32_t b_mode;             /* tile: a chunk of the weights is 0: along the reduction, 1: along columns,
                                   2: single elements along the reduction */
    int32_t taps_inside;        /* matrix fwd, bwd_data: taps are the inner loop, channels the outer one */
    int32_t trim; /* matrix, tile fwd, bwd_data: tiles leave out taps at which their rows read padding alone,
                     those along axis trim - 1, the outermost that has several; 0: none */
    int32_t work, workers;      /* matrix fwd, bwd_data on NVIDIA: tiles, blocks that take them in turns */
    int32_t stream;             /* and: from one tile into the next, if stores are plain */
    int32_t merge; /* matrix bwd_weight: groups that are one here, 0: rows and columns are weights */
    int32_t shift, filter_x; /* and taps along x: those of the filter, if two are one here, and the first */
    int32_t chain;           /* matrix, near bwd_weight: positions (regions) of a block that are summed at a
                                time, 0: all; see ckci_sum_chain */
    int32_t lanes;           /* direct, grouped: neighbouring threads that take channels (groups), the
                                   others positions; narrow: that take positions of a row; reduce: log2 of
                                   threads for the same weights; pixel: log2 of those
                                   that take columns */
    ckci_divisor by_red, by_columns, by_tiles_n, by_tiles_m, by_phases, by_channels;
    ckci_divisor by_split, by_work;  /* matrix and tile fwd, bwd_data: parts; tiles of one part */
    ckci_divisor by_one_k, by_one_c; /* matrix bwd_weight, near: channels of one group */
    ckci_gpu_share share;
    ckci_gpu_vector bias; /* matrix_weight: sums not NULL: blocks sum dout's rows there, and go on to out, if
                             that is not NULL; reduce: blocks from bias_at on add them */
    int64_t part_step;    /* tile fwd, bwd_data: bytes from a part's sums to the next one's */
    int32_t bias_turns;   /* columns of tiles whose blocks take turns at that, a power of two */
    int64_t bias_at;
} ckci_gpu_conv;

/* A tensor of two-byte numbers whose boxes, `rows` of `wide` numbers (64, 32 or 16), the tensor memory
   accelerator (TMA, sm_90a) moves, zeros where it ends. rank 2: numbers along a row, rows; 3: numbers, taps,
   rows. pixels:
   channels, up to three axes of a space (x first), images; rows of a box are those that neighbouring
   positions of a convolution read at its first tap, along each axis from `low` on (negative: padding) in
   steps of `step`; `high`: of the last one less the size of the axis, less 1 (CUDA's im2col mode). */
typedef struct ckci_gpu_box {
    int32_t rank, pixels, rows, wide;
    const unsigned char *p;
    int64_t len[5], stride[5]; /* in numbers; stride[0] is 1 */
    int32_t low[3], high[3], step[3];
} ckci_gpu_box;

/* Phases of bwd_data with strides, whose positions are inputs so many apart: position q of each axis is input
   q * stride + origin, and reads dout at q and what its taps say. A tile has the steps of all phases one
   phase after the other, those with most taps first; one without taps has a step that is not taken. */
typedef struct ckci_gpu_phases {
    int32_t count;                            /* 0: no strides */
    int32_t at[CKCI_TMA_PHASES + 1];          /* steps of those before */
    uint32_t origin[CKCI_TMA_PHASES];         /* x, y, z, a byte each */
    unsigned char first[CKCI_TMA_PHASES + 4]; /* where a phase's taps begin, and the next one's */
    uint32_t tap[CKCI_TMA_TAPS + 1];          /* pixels along x, y, z from box[0].low on; the filter's tap */
} ckci_gpu_phases;

/* A convolution whose tiles the TMA brings: kernels/matrix/tma.h. map: what the TMA has of the boxes, made
   when it is launched. */
typedef struct ckci_gpu_tma {
    ckci_gpu_conv conv;
    /* What a block finds its tiles by: together, as each cache line of arguments is awaited once. */
    int32_t share, share_rest;    /* steps of a block; blocks with one more; 0, 0: none are shared */
    int32_t tiles, workers;       /* tiles of one part; blocks that take those of all parts in turns */
    int32_t whole;                /* tiles that blocks take whole; the others' steps they share */
    int32_t cluster;              /* blocks that have a part of a tile each, and add their sums; 1: none do */
    int32_t multicast;            /* 1: pairs of blocks have tiles of neighbouring rows, and each sends half
                                     of columns' boxes to both; tiles, workers, by_rows count pairs; 0: no */
    int32_t steps;                /* of all parts, or phases, of a tile */
    int32_t images;               /* products, whose tiles follow each other, row by row */
    int32_t full, across;         /* tiles of rows' first `across` columns; behind them, the last one's */
    int32_t trim;                 /* conv's */
    ckci_divisor by_tiles, by_parts, by_across;
    int32_t rows;         /* of a tile */
    int32_t stages;       /* steps that LDS holds */
    int32_t turns, skip;  /* 1: groups take tiles in turns; stages that a tile leaves behind, modulo all */
    int32_t subs;         /* fwd, bwd_data: boxes of a step, each of another tap or other channels */
    int32_t turned;       /* taps of weights are in the opposite order */
    int32_t taps, blocks; /* 64s of channels of a tap: of the reduction; bwd_weight: of columns */
    int32_t layers;       /* GATHER: taps are layers of rows' operand, and come one after the other */
    int32_t both;         /* BACK: both operands lie across the reduction, rows in boxes of 64, too */
    int32_t plane;        /* what is written (bwd_weight: dout) are planes of so many positions; 0: rows */
    int32_t residual;     /* bytes from the stages to its boxes; 0: none */
    int32_t places;       /* for boxes of it, of a group: CKCI_TMA_RESIDUALS at most */
    ckci_divisor by_all_taps, by_blocks, by_taps[2], by_steps, by_plane;
    ckci_divisor by_rows; /* of an image's tiles */
    /* sums of a block that another finishes; behind all slots a word for each group of waves, CKCI_TMA_DONE
       when they are there */
    unsigned char *slots;
    /* rows' operand, columns' (rank 0: BACK's threads copy it; stride[1], [2]: of images and channels), what
       is written (rank 0: by threads; stride[1]: from row to row; of planes, and of products for each image:
       strides of images and channels, rows: positions of a store), the residual, which lies as that does */
    ckci_gpu_box box[4];
    ckci_gpu_phases phases; /* PHASE */
#if defined(__CUDACC__) && !defined(__HIP__) && !defined(CKCI_SIMULATOR)
    alignas(64) uint64_t map[4][16];
#endif
} ckci_gpu_tma;

/* Rows of halves in LDS: where the first plane lies, bytes from row to row and from channel to channel. vec:
   16: a piece is eight channels of two positions, else so many positions of a row. */
typedef struct ckci_gpu_depth_rows {
    int32_t at, pitch, plane, vec, pieces;
    ckci_divisor by_pieces;
} ckci_gpu_depth_rows;

/* Depthwise on matrix units: what lies in LDS and which products are taken (ckci_k_depth_bands). b: the
   tensor whose rows are multiplied, t: filters (dout) as bands, o: results on their way out, over b. */
typedef struct ckci_gpu_depth_box {
    ckci_gpu_depth_rows b, t, o;
    int32_t channels, skew;         /* of a block; bytes after each eight planes */
    int32_t tile_y, tile_x, tiles;  /* positions (bwd_weight: rows of dout, inputs) of a tile; all tiles */
    int32_t pad_y, back, lead;      /* inputs and numbers of a band that lie before the first position */
    int32_t wide, fold, step;       /* groups side by side; rows are stretches; bytes from row to row */
    int32_t skip, chunks, from, to; /* 16 places each: of the padded row not in LDS, in LDS; those taken */
    int32_t some, origin;           /* chunks at a time; number 0 of the band of chunk 0 */
    int32_t high;                   /* fold: rows of a tile */
    ckci_divisor by_groups, by_rows, by_z, by_tiles_y, by_tiles_x;
} ckci_gpu_depth_box;

/* LDS that they take, and the zeros at its beginning, which stand for rows of padding. */
enum { CKCI_DEPTH_BOX_BYTES = 65536, CKCI_DEPTH_BOX_ZEROS = 256 };

/* LDS of bwd_weight that walks down planes of f32 with filters of 3 x 3 (NVIDIA). */
enum { CKCI_DEPTH_WALK_LDS = 106528 };

/* narrow: bytes of LDS of a block. */
enum { CKCI_NARROW_LDS = 55296 };
/* pointwise: bytes of weights that a block holds (AMD: two blocks on a compute unit). */
#define CKCI_POINTWISE_LDS(NVIDIA) ((NVIDIA) ? 49152 : 32768)
/* And tiles of positions that a wave takes at a time, of so many steps of 32 channels. */
#define CKCI_POINTWISE_TILES(STEPS) ((STEPS) == 1 ? 2 : 1)
/* planes of up to STEPS times 32 channels: likewise, threads of a block, and blocks on a unit (NVIDIA). */
#define CKCI_PLANES_LDS(NVIDIA, STEPS)                                                                       \
    ((NVIDIA) ? ((STEPS) > 2 ? 98304 : (STEPS) > 1 ? 65536 : 49152) : (STEPS) > 2 ? 32768 : 16384)
#define CKCI_PLANES_THREADS(STEPS) ((STEPS) > 2 ? 256 : 128)
#define CKCI_PLANES_BLOCKS(STEPS) ((STEPS) > 2 ? 1 : 3)
/* pixel: rows of a block. */
enum { CKCI_PIXEL_ROWS = 4 };
/* gather_reduce: rows and eights of columns of a block, where columns are not written together. */
enum { CKCI_SUMS_ROWS = 64, CKCI_SUMS_EIGHTS = 4 };

/* Rows through LDS: what a row takes there at most, outputs of a thread's strip (SIZE: bytes of an element),
   words of channels of a block. fwd and bwd_data of 5 x 5 and 2 bytes have a second kernel, with short
   strips. */
enum {
    CKCI_DEPTH_DOWN_POSITIONS = 128,
    CKCI_DEPTH_DOWN_BYTES = 8192,
    CKCI_DEPTH_DOWN_MORE = 12288,
    CKCI_DEPTH_DOWN_SHORT = 4
};
#define CKCI_DEPTH_DOWN_STRIP(SIZE, F, WEIGHT)                                                               \
    ((SIZE) == 4 ? 7 : (F) == 3 ? ((WEIGHT) ? 8 : 7) : (WEIGHT) ? 4 : (F) == 5 ? 7 : 5)
#define CKCI_DEPTH_DOWN_LANES(F) ((F) == 3 ? 128 : (F) == 5 ? 64 : 16)
/* AMD: those whose weights are in registers and leave LDS to rows, of MORE bytes, with up to 128 lanes. */
#define CKCI_DEPTH_DOWN_FREE(SIZE, F) ((SIZE) == 2 && (F) == 5)

/* The same of planes, for filters of 3 x 3 x 3. AMD (ALONE, MOST): bytes of the one plane in LDS, and words
   of channels, whose weights leave room for two blocks on a compute unit. */
enum { CKCI_DEPTH_DEEP_BYTES = 12288, CKCI_DEPTH_DEEP_LANES = 32 };
#define CKCI_DEPTH_DEEP_ALONE(SIZE) ((SIZE) == 2 ? 12288 : 16384)
#define CKCI_DEPTH_DEEP_MOST(SIZE) ((SIZE) == 2 ? 56 : 112)
#define CKCI_DEPTH_DEEP_STRIP(SIZE, WEIGHT) ((SIZE) == 2 && (WEIGHT) ? 5 : 7)

/* Planes of channels-first tensors as they lie in memory (kernels/depth, ckci_k_sheet), y before x. */
enum { CKCI_DEPTH_SHEET_BYTES = 30720 };
enum { CKCI_DEPTH_SHEET_THREADS = 128 };
/* Columns of a thread. */
#define CKCI_DEPTH_SHEET_COLUMNS(SIZE, STRIDE, BACK, WEIGHT)                                                 \
    ((STRIDE) == 1 ? 8 / (SIZE) : (BACK) ? 2 : (WEIGHT) ? 1 : 4 / (SIZE))
typedef struct ckci_gpu_depth_sheet {
    int32_t count, high, bands;    /* planes of a block, rows of what is written (of dout) of a block,
                                            blocks that share a plane */
    int32_t planes;                /* all that are written */
    int32_t pad[2], in[2], out[2]; /* `in` is what is read: dout for bwd_data; bwd_weight: out is dout */
    int32_t pairs;                 /* two columns are one load */
    int32_t acts;                  /* an epilogue has numbers, behind the weights in LDS: its residual is not
                                            ANY, which kernels would take more registers to ask */
    int32_t slack;                 /* bytes between bands in LDS, for the rest of 16 beside them; 0: there is
                                            none, rows are aligned; < 0: planes are spread */
    int32_t a_room, o_room;        /* bytes of LDS from plane to plane of what is read, written */
    int32_t o_at, w_at;            /* where what is written, weights begin */
    ckci_divisor by_bands, by_wide, by_g; /* by_wide: threads for all columns of it, and some without */
    ckci_divisor by_a, by_o;              /* copies of what lies together in memory */
} ckci_gpu_depth_sheet;

/* A depthwise convolution. fwd, bwd_data: a is the tensor that is read, b the weights. bwd_weight: a is dout,
   b is in. A strip is 8 neighbouring positions of the written tensor (of dout) along dimension 2. For planes
   dimensions 1 and 2 are exchanged, in tensors too, and the lanes are positions along dimension 1. */
typedef struct ckci_gpu_depth {
    ckci_tensor a, b;
    ckci_gpu_target o;
    ckci_gpu_dim dim[3];
    int32_t g, n, phases, taps;
    int32_t red;              /* fwd, bwd_data: channels that are summed, for kernels that load single ones */
    int64_t a_red, b_red;     /* from one to the next: bytes of a, elements of b */
    int32_t lanes_c, lanes_p; /* threads of a block: channels (x for planes) and strips side by side */
    int32_t tiles_c, tiles_x; /* blocks for all channels; planes: groups of lanes for all x */
    int32_t strips;           /* along dimension 2 */
    int32_t parts, part;      /* strips of a block */
    int32_t rows, row_taps;   /* rows of the filter that lie in LDS together; room for one */
    int32_t a_vec;            /* rows: windows are read in aligned pieces of 4; down: bytes of a load */
    int32_t walk;             /* walk: rows of a column; tiles_x: columns one above the other */
    /* down: positions of an image in LDS, pieces of a row there (of a_vec bytes), rows of all columns; a
       block has lanes_p strips of a row and `walk` rows */
    int32_t pitch, pieces, all;
    /* deep: a tile has tile_y rows of `strips` strips, an image tiles_y x tiles_x of them and tiles_z pieces
       of `walk` planes; pitch: positions of a row in LDS, pieces: those of a tile, all: tiles and pieces */
    int32_t tile_y, tiles_y, tiles_z;
    int32_t o_same, o_vec; /* results lie in the type of `a`, any form but SINGLE; and 4 of a row together */
    int32_t bf16, planes;  /* not f16; lanes are positions */
    int32_t full;          /* types or an operation that most kernels do not know */
    int32_t sums;          /* bwd_weight: through workspace */
    int32_t lanes_u, tiles_u, units, groups_x; /* bwd_weight: rows and groups of taps */
    ckci_divisor by_lanes_c, by_lanes_u, by_phases, by_tiles_c, by_tiles_x, by_tiles_u, by_strips,
        by_channels, by_groups_x, by_rows_y, by_pitch, by_pieces, by_tiles_y, by_tiles_z,
        by_wide; /* positions of dout in a row of a tile */
    ckci_gpu_depth_box box;
    ckci_gpu_depth_sheet sheet;
    /* down, deep on AMD: threads before `whole` have channels below by_whole, those from there on others */
    int32_t whole;
    ckci_divisor by_whole, by_rest;
    int32_t halves; /* bwd_weight on AMD's matrix units: times box.channels that a block has */
    int32_t chain;  /* and on all: tiles of a block that are summed at a time, 0: all; see ckci_sum_chain */
} ckci_gpu_depth;

/* Weights in the order in which matrix kernels read them: dst[g / merge][column][tap][red], of type f16,
   bf16 or i8, two of them per thread. Groups that are merged are blocks on the diagonal, the rest is zero. */
typedef struct ckci_gpu_pack {
    ckci_tensor w;
    unsigned char *dst;
    int64_t column, step; /* strides of w along columns and the reduction */
    int32_t columns, red, merge, count, taps[3];
    int32_t pairs, shift, filter_x; /* places of the reduction are two taps of four channels, the first tap is
                                       one before the filter; its real size */
    ckconv_dtype type;
    int32_t low; /* see ckci_k_term; the reduction is three terms of by_term places, without low one */
    ckci_divisor by_term, by_red, by_taps, by_columns, by_one_column, by_one_red, by_x, by_y;
} ckci_gpu_pack;

typedef struct ckci_gpu_pack_data {
    ckci_tensor t; /* groups merged */
    unsigned char *dst;
    ckconv_dtype type;
    int32_t pairs;                    /* a position is two neighbours along x, of four channels each */
    int32_t channels, padded, groups; /* of t, of dst */
    int32_t wide, positions;          /* of t along x, of dst */
    int32_t along, log_c, tiles_c;    /* neighbouring threads read channels; channels of a block */
    int32_t terms, low, pitch;        /* written one after the other, see ckci_k_term; channels from a */
    int64_t term_step;                /* position to the next, from a term to the next */
    int32_t rows;                     /* positions of a block where t's follow each other and are only padded;
                                         by_x: eights of channels */
    ckci_divisor by_tiles_c, by_groups, by_x, by_y, by_z;
} ckci_gpu_pack_data;

/* Numbers of two bytes that a block of pack_data has in LDS, and those that it had better have where that is
   more than eight positions. */
enum { CKCI_PACK_ROOM = 4608, CKCI_PACK_BLOCK = 2304 };

/* A first layer; arrays of two: y, x. a is the tensor that is read, b the weights. */
typedef struct ckci_gpu_stem {
    ckci_tensor a, b;
    ckci_gpu_target o; /* fwd: STORE or LINEAR, bwd_data: STORE */
    ckconv_dtype type;
    int32_t n, k, c;
    int32_t filter[2], input[2], output[2], stride[2], pad[2], dilation_y;
    int32_t in_first, out_first;        /* channels first: in's; out's, or dout's */
    int32_t channels;                   /* C; fwd: c may be one more, zeros, in LDS */
    int32_t tile[2], tiles[2], tiles_n; /* positions of a tile, tiles of an image; blocks for all k */
    int32_t items, blocks;              /* tiles of all images; those that run side by side */
    int32_t rows, pitch;                /* of a tile's pixels in LDS; bytes of a row, bwd_data: of a pixel */
    int32_t left, odd, row_pairs;       /* see ckci_k_stem_fwd */
    int32_t steps;                      /* of 16 places of the reduction */
    int32_t columns, window[2], first[2]; /* bwd_data: stride x stride x C; taps of a phase; the first q */
    /* bwd_weight (columns: taps x C): blocks for all columns, planes of a row in one copy, numbers of a
       plane, its bytes in LDS, chunks of a row that is read; bytes of a channel of dout there (out_first) */
    int32_t tiles_c, planes, length, plane, chunks, line;
    int32_t chain;          /* items of a block that are summed at a time, 0: all; see ckci_sum_chain */
    unsigned char *partial; /* [block][k][column] */
    unsigned char *sums;    /* [block][k]: for dbias, of a column of ones behind the others; or NULL */
    int32_t ones;           /* bytes of a row from its start to those */
    /* by_row: row_pairs, bwd_data: pairs of K; by_wide: pixels of a row */
    ckci_divisor by_tile_x, by_tiles_x, by_tiles_y, by_tiles_n, by_pairs, by_row, by_c, by_chunks, by_wide,
        by_stride_x, by_window_x, by_planes, by_tiles_c, by_filter_x, by_line;
} ckci_gpu_stem;

typedef struct ckci_gpu_pair {
    ckci_gpu_conv first, second;
    int32_t write_mid; /* second reads each position of mid once: the blocks of column 0 store it */
    int32_t groups;    /* depth: of taps in a row of the first filter, see ckci_gpu_patch */
    int32_t mid_vec;   /* matrix, depth: eight channels of the copy of mid are one store */
    ckci_divisor by_row, by_taps; /* depth: taps of a row, of all rows */
} ckci_gpu_pair;

/* LDS of a block that keeps what it reads: two of them share 228 KiB, with a KiB and 23 KiB of sums each. */
enum { CKCI_NORM_KEPT = 92160, CKCI_NORM_KEPT_LDS = 23552 + CKCI_NORM_KEPT };

/* Likewise, of one that keeps dy too; its groups at most. */
enum { CKCI_NORM_BACK = 106496, CKCI_NORM_BACK_SET = 32 };
/* Bytes of LDS of wide blocks, channels last (NVIDIA). */
enum { CKCI_NORM_RING_LDS = 23552 + 8 * 256 * 16 };
enum { CKCI_NORM_BACK_LDS = 8192 + 16 + 16 * CKCI_NORM_BACK_SET + CKCI_NORM_BACK };
/* Channels of a joined group at most: their factors are in LDS. */
enum { CKCI_NORM_JOINED = 2048 };

/* A group norm for the kernels. A block owns part of the positions of `set` neighbouring groups of one n,
   whose set * c channels are its columns. Its threads are lanes_c columns x lanes_p positions; each one walks
   columns lanes_c and positions lanes_p apart. set is above 1 where groups are narrow: then all columns have
   a lane of their own. Spatial axes that are one dense axis are merged. joined: so are the channels of a
   group, one row, which is a channel to all but gamma and beta: c is 1, space all numbers of the group. */
typedef struct ckci_gpu_norm {
    ckci_tensor x, y, dx; /* y: dy in the backward pass */
    const unsigned char *gamma, *beta, *saved_mean, *saved_inv_std;
    unsigned char *mean, *inv_std, *dgamma, *dbeta;
    /* workspace, NULL: computed on the spot. double [n][parts][g][2] sums of x - p and of its square, p a
       number of the (n, g) (ckci_k_norm_pivot);
       T [n][parts][g][2] sums of gamma*dy' and gamma*dy'*xhat;
       T [2][n][parts][g*c] sums of dy' and of dy'*xhat */
    unsigned char *stats, *slab_sums, *sums;
    double eps;
    ckconv_dtype param;
    ckconv_element act;
    int32_t n, g, c, space;
    int32_t param_step; /* gamma, beta, dgamma, dbeta: from an n to the next one; 0: all share them */
    int32_t param_log;  /* norm_param with workspace: 2^param_log sums of a block */
    int32_t set, sets;
    int32_t parts, part, part_rest; /* positions of a part; the first part_rest parts have one more */
    int32_t lanes_c, lanes_p;
    int32_t along_x; /* neighbouring threads take neighbouring positions, not columns */
    int32_t flat;    /* positions are one axis in all tensors */
    int32_t wide;    /* lanes take eight channels, along_x: eight positions; flat, and columns whole eights */
    int32_t aligned; /* wide: eight are one or two loads */
    int32_t chunks;  /* times that lanes_c goes into the columns */
    int32_t kept;    /* x stays in LDS, bwd: so does dy; the parts are a cluster */
    int32_t bulk;    /* kept, bwd, channels first: rows are bulk copies */
    int32_t late;    /* kept, bwd, channels first: blocks late to 2*late - 1 start a little later */
    int32_t summing; /* norm_din: leaves sums in workspace, no dx */
    ckci_divisor by_sets, by_parts, by_c, by_fast, by_lanes_p, by_segment, by_chunks, by_y, by_x;
    ckci_divisor by_channels; /* param_step */
    ckci_divisor by_few;      /* parts whose moments and sums a group's threads take at once */
    ckci_divisor by_row;      /* joined: positions of a channel */
    int32_t joined; /* fwd, channels first: channels of a group that are one row; 0: they are not */
} ckci_gpu_norm;

enum { CKCI_MOVE_LDS = 26624 }; /* bytes of a tile */

/* Layout and type conversion of one tensor. Dimensions x and y are those along which dst and src are dense;
   a block moves tile[..] elements along them and a third one, z, at one place in the other
   three. When x is dense in both, y is any other dimension (transpose is 0). */
typedef struct ckci_gpu_move {
    const unsigned char *src, *src_end;
    unsigned char *dst;
    ckconv_dtype from, to;
    int64_t len_x, len_y, len_z;
    int64_t src_step[6], dst_step[6]; /* bytes; x, y, z, the others */
    int32_t tile[6];                  /* elements of a block; 1 along the others */
    int32_t log_x, log_y;             /* move, move_copy: of tile[0], tile[1] */
    int32_t transpose;
    int32_t vec, tail; /* move_copy: bytes of its elements; bytes after the last one */
    /* Through LDS (>>k-move). V: elements of dst in 16 bytes */
    int32_t straight; /* x is dense in both */
    int32_t scatter;  /* turned before LDS: rows of dst are short, and one run */
    int32_t merged;   /* rows of src are short, and one run */
    int32_t shifted;  /* rows of src are not aligned for loads */
    int32_t before;   /* rows of dst are not aligned: V, the rows of src that a block reads before its own */
    int32_t anywhere; /* AMD: whole pieces are stored at any address */
    int32_t dst_vec;  /* straight: rows of dst are aligned */
    int32_t words;    /* otherwise: words of LDS hold elements of several rows of dst */
    int32_t pitch, load_pitch;  /* LDS: bytes between rows */
    int32_t pad, pad_log;       /* and those more after 2^pad_log of them: elements along x (scatter: y) */
    int32_t load_pad, load_log; /* the same of what is loaded: merged: V rows of src are one */
    int32_t lanes;         /* scatter: 2^lanes lanes load neighbouring pieces, the others in rows beside */
    int32_t loads, stores; /* of a block */
    int32_t row_run;       /* merged: elements of V rows of src */
    int64_t load_step;     /* bytes between rows of src */
    ckci_divisor by_load, by_store;
    ckci_divisor blocks[6]; /* along each dimension */
    int32_t first;          /* the launch's first block that moves it */
} ckci_gpu_move;

/* One tensor, or two that are turned side by side: job[1].first is where the second one's blocks begin. */
typedef struct ckci_gpu_moves {
    ckci_gpu_move job[2];
} ckci_gpu_moves;

/* Pieces that a block of sample or spread moves. */
enum { CKCI_SAMPLE_BLOCK = 1024 };

/* Positions that strides meet, out of planes, or into them. Dimensions begin with x, none is of one place,
   and those that can be are one; steps are two bytes each. */
typedef struct ckci_gpu_sample {
    const unsigned char *src;
    unsigned char *dst;
    int32_t count, dims; /* pieces in all */
    int32_t piece;       /* bytes, in the planes */
    int32_t halve;       /* bytes of a number where every other one of a piece is wanted; 0: all are */
    int32_t src_step[5], dst_step[5];
    ckci_divisor by_len[5];    /* the first: pieces of a row */
    ckci_divisor by_stride[5]; /* spread */
} ckci_gpu_sample;

/* Neighbouring positions that a thread of im2col and of col2im has; bytes of col2im's rows in LDS. */
enum { CKCI_IM2COL_POSITIONS = 4, CKCI_COL2IM_POSITIONS = 8, CKCI_COL2IM_LDS = 32768 };

/* Rows of channels and taps, one for each position of out: [n][z][y][x][row]. What is called [3] goes by axes
   z, y, x, what is called [4] by the axes of a row, c, z, y, x, of which the innermost comes first. */
typedef struct ckci_gpu_im2col {
    ckci_tensor t; /* in, or din */
    unsigned char *rows;
    int64_t row;   /* numbers of a row */
    int32_t count; /* threads at work */
    int32_t vec;   /* col2im: eight positions are stored together */
    int32_t input[3], output[3];
    int32_t filter[3], stride[3], dilation[3], pad[3]; /* col2im */
    int32_t of_row[4]; /* col2im: numbers of a row from one c, z, y, x (in this order) to the next */
    /* im2col */
    int32_t go[4][3];  /* places of in from one position of out, z, y, x, to the next */
    int32_t before[4]; /* places before the first one: padding */
    int32_t limit[4];  /* places */
    uint32_t step[4];  /* numbers of in from one place to the next */
    int32_t apart[4];  /* places from one tap to the next */
    ckci_divisor by_len[3], by_pieces, by_out[3]; /* inner axes of a row, pieces of 16 bytes, out */
    /* col2im */
    int32_t channels;  /* of a block, which has an image's rows of them in LDS; 0: rows lie as they were */
    int32_t positions; /* of out, of an image */
    /* channels (of a block), blocks of an image, runs of an image, of a row, y, strides */
    ckci_divisor by_c, by_parts, by_items, by_runs, by_y, by_stride[3];
} ckci_gpu_im2col;

/* The matrix unit of a GPU: CKCI_UNIT_... */
CKCI_FN int32_t ckci_matrix_unit(const ckconv_device *d)
{
    const ckci_architecture *row = ckci_find_architecture(d->arch);
    return row ? row->unit : (int32_t)CKCI_UNIT_NONE;
}
