/* ckconv.h - v0.1.0 - convolutions and group norms for CNN training: one header, C99 API, AMD, NVIDIA, CPU
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_H
#define CKCONV_H
/*  (licence text at the end of this file)

DO THIS
    Copy ckconv.h and, for a GPU, kernels.hip.h next to your sources (or only the one file that `make single`
    merges them into). In exactly one C or C++ file write

        #define CKCONV_IMPLEMENTATION
        #include "ckconv.h"

    Everywhere else include ckconv.h alone. Build that file with
        cc -O3 -fopenmp yourfile.c -lm                                      CPU only (OpenMP is optional)
        hipcc -x hip -std=c++17 -O3 --offload-arch=gfx942 -c yourfile.c     AMD GPUs, and the CPU
        nvcc -x cu -std=c++17 -O3 -arch=sm_90a -c yourfile.c                NVIDIA GPUs (here an H100; a: all
                                                                            that it has), and the CPU
    with -O2 or -O3, never -O0: that is 5 to 13 times slower, and nothing tells. docs/ has a guide, numerics,
    performance, porting and platforms; examples/ has programs.

WHAT IT DOES
    fwd, bwd_data, bwd_weight   convolution and its two gradients; 1D, 2D, 3D; dense, grouped, depthwise;
                                stride, dilation, different pads on both sides
    conv_conv_fwd               any convolution -> scale, shift, activation -> a second (1x1) convolution,
                                with the tensor in between kept on chip
    groupnorm_fwd, _bwd         group normalisation with an optional fused sigmoid or silu, and its gradients
    transform                   layout and type conversion of a tensor
    Element operations (relu, silu, gelu, clamp, ...) are fused on every operand, and epilogues with up to
    four extra tensors (bias, residual, bilinear, ...) on the result.

LIMITS
    - Matrix units compute f16, bf16, fp8, f32 as bf16 or bf16x3, i8, tf32 and f64 on
      CDNA (f64 from gfx90a on) and NVIDIA, f32 on CDNA; the rest uses multiply-adds.
    - GPU kernels take less than 2^30 in each dimension (pads, stride and dilation included), positions
      (batch x space), taps x channels and G*K*C, and pointers that are aligned to an element; AMD GPUs launch
      less than 2^32 threads. Problems beyond that are refused with a reason. Tensors may pass 2^31 elements.
    - Types: f64, f32 (tf32, bf16 or bf16x3 arithmetic on request), f16, bf16, fp8 (four formats), i8. See
      >>types.
    - i8 sums are 32-bit: past 131071 products of the largest magnitude they wrap modulo 2^32, everywhere
      alike.
    - A tensor may have 2^62 bytes at most. Sizes and strides are int64 and every product is checked.
    - Written tensors with explicit strides need strides that nest (see ckconv_tensor).
    - NaN payloads are not kept. Subnormals are honoured, but instances with the bf16 instructions of AVX-512
      (..._avx512_bf16) take those below 2^-126 as zeros.

BUILD SWITCHES (define them before the implementation; none but the first changes a declaration)
    CKCONV_API              how functions are declared, wherever this is read (extern): dllexport, visibility
    CKCONV_STATIC           all functions static: several copies in one program
    CKCONV_REQUIRE_GPU      #error unless a GPU compiler reads the implementation
    CKCONV_NO_SIMD          portable vectors only: no run-time choice of AVX2 or AVX-512 code
    CKCONV_NO_F64           drop f64 tensors            a dropped type or operation answers
    CKCONV_NO_I8            drop i8 tensors             CKCONV_ERR_UNSUPPORTED and the name of the switch
    CKCONV_NO_FP8           drop the four fp8 formats
    CKCONV_NO_CONV_CONV     drop conv_conv_fwd
    CKCONV_NO_GROUPNORM     drop groupnorm_fwd and groupnorm_bwd
    What is dropped leaves the CPU engines; a GPU build keeps all kernels, and takes as long to compile.

HELLO CONV
    ckconv_conv_desc d;  memset(&d, 0, sizeof d);          // zero means default
    d.ndim = 2;  d.n = 8;  d.k = 64;  d.c = 32;             // batch, output channels, input channels
    d.filter[0] = d.filter[1] = 3;  d.input[0] = d.input[1] = 28;
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;
    ckconv_error err;
    // no workspace: may be 2.5 times slower in the mean
    if (ckconv_fwd(&d, in, wei, out, NULL, 0, NULL, &err) != CKCONV_OK) { puts(err.text); }
    // in [N,H,W,C], wei [K,Y,X,C], out [N,H,W,K], all float. Set d.in.dtype and d.in.layout for others.

PLAN, WORKSPACE, RUN
    One call works, with or without a workspace, which may cost 2.5 times the time in the mean. In a training
    loop plan once and run often:
        ckconv_plan plan;  ckconv_args a;
        ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, NULL, NULL, &err);      // no allocation, no GPU needed
        void *ws = malloc(plan.workspace_bytes);                               // exact; one for all plans
        memset(&a, 0, sizeof a);  a.in = x;  a.dout = dy;  a.dwei = dw;
        ckconv_run(&plan, &a, ws, plan.workspace_bytes, NULL, &err);
    A plan is a plain struct: copy it, keep it, no destroy. ckconv_plan_describe tells what will run and why.
    options.max_workspace = -1 asks for a plan without workspace; it exists for every operation and may be
    slower.

NUMERICS AND DETERMINISM
    - The `ref` engine (naive loops, double accumulation) is the specification; every engine is tested against
      it.
    - Sums are kept in f32 at least (f64 for f64, int32 for i8). Results are rounded once, to nearest even;
      f16 overflows to infinity, fp8 saturates. No Winograd, no reduced precision unless the description asks.
    - Same plan, same inputs, same header version: the same bits, for any number of threads. Split reductions
      go through workspace and are added in a fixed order. Plans made for different device facts may differ,
      and so may pointers of which one is aligned to less than 16 bytes (CPU: not to an element).
    - Padding counts as zeros: an infinite weight or gradient may meet it as 0 * infinity = NaN. So may an
      infinite input in depthwise bwd_weight, which makes its weight gradients NaN instead of infinite.
    - A matrix unit computes small groups side by side, with zeros for their products with each other: an
      infinity or NaN of one group may make NaN of its neighbours. In first layers numbers beside a
      window (bwd_data: dout's, bwd_weight: in's) meet zeros, too. Depthwise with large filters of f16 and
      bf16 is a product with bands of zeros there: one makes NaN of results beside those that meet it.
    - Outputs and workspace need no zeroing; every output element is written, and nothing between strided
      ones.
    - Group norm statistics on a GPU are one pass over values less one of the slab's, its first one; of f64
      tensors the one between the others of first, middle and last: where that lies far from most, inv_std
      of f64 tensors has about 10 right digits instead of 15. Slabs of equal values have y = act(beta).
    - A saved mean is rounded. Where that shifts xhat by more than a few units (|mean| * inv_std is above 8),
      groupnorm_bwd computes the mean again: it reads x once more.
    - -ffast-math, -Ofast and the like, whole or in part, change no result: gcc and clang compile the
      implementation without them, for AMD GPUs too. What they set for the whole program remains: linked by
      gcc with -ffast-math it takes subnormals of f32 and f64 for zeros (not those of f16). nvcc's
      --use_fast_math does that to f32 in kernels, and its inverses and roots may be off by a unit or two.
      Other compilers' flags of this kind are not tested.

THREADS AND STREAMS
    No mutable global state: every function may be called from any thread at any time. A plan may be shared by
    threads; a workspace may not be in use twice at once. On the CPU a call returns when its work is done and
    the stream is ignored. OpenMP threads are used when the compiler was told so (-fopenmp); options.threads
    limits them. On a GPU a call returns when its kernels are queued on the stream; it allocates nothing,
    waits for nothing and may be captured in a graph. The plan's GPU must be the current one.

ERRORS
    Every function that can fail returns a status and fills the optional ckconv_error with one line that names
    the argument, the value and what is allowed. A call that fails has written nothing; only after
    CKCONV_ERR_LAUNCH, when the GPU's runtime refused a kernel after others of the same call, outputs are
    undefined. Nothing here ever prints, exits, allocates or changes the current device (except
    ckconv_device_open and ckconv_device_alloc, which say so).

TESTED ON
    gcc 12, clang 14; C99, C11, C++11, C++17; x86-64 with and without AVX2 and AVX-512; Linux. NVIDIA H100
    and H200 (nvcc 13). AMD: compiled for gfx90a, gfx942, gfx950, gfx1030, gfx1100, gfx1151, gfx1201 and
    gfx1250 (portable kernels) and, but for gfx1030, gfx1151 and gfx1250, executed by an emulator.

TAGS (search for them)
    >>head      version, linkage                     >>ref       naive engine, the specification
    >>types     status, types, layouts               >>cpu       fast engine
    >>desc      descriptions and plan                >>gpu       arguments and launches of kernels
    >>api       plan, run, one call                  >>plan      selection of an instance
    >>ref-api   the specification                    >>device    CPU and GPU facts, memory, timers
    >>util-api  names, tensors, device helpers       >>public    the API's definitions
    >>impl      implementation, feature tests        >>undef     private macros end
    >>math      checked sizes, half, bf16, fp8       >>license
    >>check     one reason per return
    >>layout    strides, coordinate maps, runs of elements
*/


/*------------------------------------------------------------------------------------------------------------
  >>head
*/
#include <stddef.h>
#include <stdint.h>

#define CKCONV_VERSION_MAJOR 0
#define CKCONV_VERSION_MINOR 1
#define CKCONV_VERSION_PATCH 0
#define CKCONV_VERSION (CKCONV_VERSION_MAJOR * 10000 + CKCONV_VERSION_MINOR * 100 + CKCONV_VERSION_PATCH)

#ifdef CKCONV_STATIC
#undef CKCONV_API
#if defined(__GNUC__) || defined(__clang__)
#define CKCONV_API static __attribute__((unused))
#else
#define CKCONV_API static
#endif
#elif !defined(CKCONV_API)
#define CKCONV_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif


/*------------------------------------------------------------------------------------------------------------
  >>types
  Enumerations are int32_t constants, so that structs have one size everywhere and an unknown value is an
  ordinary error instead of undefined behaviour. 0 always means "default" or "none".
*/
typedef int32_t ckconv_status;
enum {
    CKCONV_OK = 0,
    CKCONV_ERR_ARGUMENT = 1,       /* a value of the description or an argument is not allowed */
    CKCONV_ERR_NULL = 2,           /* a required pointer is NULL */
    CKCONV_ERR_OVERFLOW = 3,       /* a size does not fit */
    CKCONV_ERR_WORKSPACE = 4,      /* workspace or options.max_workspace is smaller than what is needed */
    CKCONV_ERR_UNSUPPORTED = 5,    /* legal, but the chosen instance or this build cannot do it */
    CKCONV_ERR_PLAN = 6,           /* not a plan of this header version */
    CKCONV_ERR_NO_DEVICE_CODE = 7, /* GPU asked for, but this build holds no GPU code */
    CKCONV_ERR_NO_DEVICE = 8,      /* no such GPU */
    CKCONV_ERR_WRONG_DEVICE = 9,   /* the current device (or CPU) is not the one of the plan */
    CKCONV_ERR_LAUNCH = 10,        /* the GPU runtime refused a launch or a copy; outputs are undefined */
    CKCONV_ERR_MEMORY = 11,        /* the device helper found no memory */
    CKCONV_ERR_ALIAS = 12          /* a written tensor overlaps another argument */
};

/* What went wrong, in one line. Optional everywhere (NULL). text is "" after success. */
typedef struct ckconv_error {
    ckconv_status status;
    char text[252];
} ckconv_error;

typedef int32_t ckconv_op;
enum {
    CKCONV_FWD = 1,
    CKCONV_BWD_DATA = 2,
    CKCONV_BWD_WEIGHT = 3,
    CKCONV_CONV_CONV_FWD = 4,
    CKCONV_GROUPNORM_FWD = 5,
    CKCONV_GROUPNORM_BWD = 6
};

/* Storage types, and three that exist only as compute types.

   name                  in, wei, out                              compute                     accumulate
   f64                   f64                                       f64                         f64
   f32                   f32                                       f32; tf32, bf16, bf16x3     f32
   f16                   f16                                       f16; any fp8 per operand    f32
   bf16                  bf16                                      bf16                        f32
   bf16, f32 weight      bf16, f32, bf16                           bf16                        f32
   fp8 / bf8             any fp8 in and wei; out f16 bf16 f32 fp8  that of each tensor         f32
   i8                    i8; the written tensor i8 or i32          i8                          int32

   bf16x3 keeps two bf16 terms of each f32 operand (16 significant bits); an engine may leave out the product
   of the two small terms. */
typedef int32_t ckconv_dtype;
enum {
    CKCONV_F64 = 1,
    CKCONV_F32 = 2,
    CKCONV_F16 = 3,
    CKCONV_BF16 = 4,
    CKCONV_F8E4M3 = 5,     /* OCP: bias 7, no infinity, largest 448 */
    CKCONV_F8E5M2 = 6,     /* OCP: bias 15, infinity, largest finite 57344 */
    CKCONV_F8E4M3FNUZ = 7, /* bias 8, one NaN (0x80), no -0, largest 240 */
    CKCONV_F8E5M2FNUZ = 8, /* bias 16, one NaN (0x80), no -0, largest 57344 */
    CKCONV_I8 = 9,
    CKCONV_I32 = 10,   /* written tensor of an i8 problem only */
    CKCONV_TF32 = 11,  /* compute only: f32 rounded to 10 mantissa bits (xf32 on AMD) */
    CKCONV_BF16X3 = 12 /* compute only */
};

/* Memory order, outermost first, last index contiguous. Names are the 2D ones whatever ndim is; the spatial
   part is W, HW or DHW (X, YX, ZYX). NHWGC has the bytes of plain NHWC with G*C channels, NGCHW those of
   NCHW. */
typedef int32_t ckconv_layout;
enum {
    CKCONV_NHWGC = 1, /* default of in; out's is that of in */
    CKCONV_GNHWC = 2,
    CKCONV_NGCHW = 3,
    CKCONV_NHWGK = 1, /* the same three under the names that the output has */
    CKCONV_GNHWK = 2,
    CKCONV_NGKHW = 3,
    CKCONV_GKYXC = 4, /* default of wei */
    CKCONV_GKCYX = 5,
    CKCONV_CHANNEL = 6, /* D tensors only: a vector of G*C entries, broadcast over the rest (a bias) */
    CKCONV_STRIDED = 7  /* the strides are given */
};

/* Element operations. x is a value that is read, or the accumulator of the written tensor; D0..D3 are the
   description's extra tensors at the written position. Parameters are literal: 0 is 0; those that a kind does
   not name must be 0.
   Sums and products are f32 (f64 for f64). sigmoid(x) = 1 / (1 + exp(-x)). */
typedef int32_t ckconv_element;
enum {
    CKCONV_PASS = 0,
    CKCONV_SCALE = 1,               /* alpha * x */
    CKCONV_RELU = 2,                /* max(x, 0); NaN stays NaN */
    CKCONV_CLAMP = 3,               /* min(max(x, alpha), beta); NaN stays NaN; needs alpha <= beta */
    CKCONV_SIGMOID = 4,             /* sigmoid(x) */
    CKCONV_SILU = 5,                /* x * sigmoid(x) */
    CKCONV_GELU = 6,                /* x/2 * (1 + erf(x / sqrt 2)) */
    CKCONV_BILINEAR = 16,           /* alpha * x + beta * D0            from here: written tensor only */
    CKCONV_SCALE_ADD = 17,          /* alpha * x + D0 */
    CKCONV_BIAS = 18,               /* x + D0 */
    CKCONV_BIAS_RELU = 19,          /* max(x + D0, 0) */
    CKCONV_BIAS_RESIDUAL_RELU = 20, /* max(x + D0 + D1, 0) */
    CKCONV_ADD = 21,                /* x + D0 + ... all num_d tensors, in this order */
    CKCONV_ADD_RELU = 22            /* max of that and 0 */
};

typedef int32_t ckconv_engine;
enum {
    CKCONV_ENGINE_AUTO = 0, /* gpu for the facts of a GPU, else cpu */
    CKCONV_ENGINE_REF = 1,  /* the specification: naive loops on the host */
    CKCONV_ENGINE_CPU = 2,
    CKCONV_ENGINE_GPU = 3
};

/* How an instance computes. options.instance takes an instance's name or one of these families' names. */
typedef int32_t ckconv_family;
enum {
    CKCONV_FAMILY_REF = 1,          /* "ref" */
    CKCONV_FAMILY_SINGLE_STAGE = 2, /* "single_stage": implicit GEMM, each output computed by one owner */
    CKCONV_FAMILY_TWO_STAGE = 3,  /* "two_stage": split reduction through workspace, then a fixed-order sum */
    CKCONV_FAMILY_DIRECT = 4,     /* "direct": depthwise and small groups */
    CKCONV_FAMILY_FUSED = 5,      /* "fused": conv_conv_fwd with the intermediate on chip */
    CKCONV_FAMILY_UNFUSED = 6,    /* "unfused": conv_conv_fwd as two convolutions through workspace */
    CKCONV_FAMILY_GROUPNORM = 7,  /* "groupnorm" */
    CKCONV_FAMILY_MULTIPLE_D = 8, /* "multiple_d": GPU kernels with D tensors */
    CKCONV_FAMILY_VECTOR = 9,     /* "vector" ("dl"): GPU tiles on FMA and dot instructions */
    CKCONV_FAMILY_MFMA = 10,      /* "mfma" */
    CKCONV_FAMILY_WMMA = 11,      /* "wmma" */
    CKCONV_FAMILY_MMA = 12        /* "mma": NVIDIA mma.sync and wgmma */
};

/* options.flags */
enum {
    CKCONV_ALLOW_ATOMICS = 1 /* a faster sum whose order varies is acceptable (no CPU instance uses it) */
};


/*------------------------------------------------------------------------------------------------------------
  >>desc
  Plain structs; all zero is the default. memset or = {0} first: reserved members must be zero, which
  catches an uninitialised struct.
*/

/* One tensor: type and place of its elements.
   stride is read only with layout CKCONV_STRIDED: in elements, in logical order {G, N, C, spatial...} for in
   and like tensors, {G, N, K, spatial...} for out, {G, K, C, filter...} for wei, spatial outermost (z, y, x)
   first; entries past 3 + ndim must be 0. Strides are positive; a D tensor may also have 0 (broadcast).
   Strides of a written tensor must nest: sorted by size, each reaches past all elements that the smaller ones
   address. Strides of in are not those of out, whose layout must be given beside them. */
typedef struct ckconv_tensor {
    ckconv_dtype dtype;   /* 0: in f32; wei, out as in; D as the written tensor */
    ckconv_layout layout; /* 0: in NHWGC; out as in; wei GKYXC, whatever in has; D as the written tensor */
    int64_t stride[6];
} ckconv_tensor;

/* An element operation with its parameters (>>types). */
typedef struct ckconv_element_op {
    ckconv_element kind;
    int32_t reserved;
    double alpha, beta;
} ckconv_element_op;

/* A convolution and its gradients: out[g,n,k,o] = sum over c, t of in[g,n,c,o*stride + t*dilation - pad_lo] *
   wei[g,k,c,t] (cross-correlation), o = (input + pad_lo + pad_hi - (filter-1)*dilation - 1) / stride + 1.
   k and c count channels PER GROUP: in has g*c channels, out g*k. Spatial arrays are z,y,x: outermost first,
   and only the first ndim entries are read. Two tensors are read and one is written, by the operation:
   fwd in, wei -> out; bwd_data out, wei -> in; bwd_weight in, out -> wei. */
typedef struct ckconv_conv_desc {
    int32_t ndim;        /* 1, 2 or 3 */
    int32_t num_d;       /* D tensors that the written tensor's epilogue reads, 0..4 */
    int64_t g;           /* groups; 0: 1 */
    int64_t n;           /* batch; 0 is an empty batch */
    int64_t k, c;        /* output and input channels per group */
    int64_t filter[3];   /* taps */
    int64_t input[3];    /* spatial size of in */
    int64_t stride[3];   /* 0: 1 */
    int64_t dilation[3]; /* 0: 1 (dense taps, as PyTorch counts) */
    int64_t pad_lo[3];   /* zeros before, may exceed the filter */
    int64_t pad_hi[3];   /* zeros after */
    ckconv_tensor in, wei, out;
    ckconv_dtype compute_in, compute_wei, compute_out; /* what a read tensor is rounded to; 0: see >>types.
                                                          The written tensor's entry is not used */
    int32_t reserved;
    /* on a read tensor: before that rounding, never on padding; on the written tensor: the epilogue, on the
       finished sum, everywhere */
    ckconv_element_op op_in, op_wei, op_out;
    ckconv_tensor d[4]; /* logical order of the written tensor */
} ckconv_conv_desc;

/* Two convolutions, the first one's result kept on chip: mid = act(conv0(in) * scale + shift), rounded once
   to conv0's compute type; out = conv1(mid). scale and shift are optional vectors of g*k entries (f32; f64
   for f64), given at run time. The second convolution mixes all g*k channels of mid, or 1/g1 of them: wei1 is
   [g1, k1, g*k/g1, filter1]; g*k must be divisible by g1. */
typedef struct ckconv_conv_conv_desc {
    ckconv_conv_desc conv0; /* conv0.out is mid: dtype 0 or that of in, layout 0: as in; op_out is the
                               activation (no D) */
    int64_t g1;             /* groups of the second convolution; 0: 1 */
    int64_t k1;             /* its output channels per group */
    int64_t filter1[3];     /* 0: 1. A filter above 1 runs as two convolutions through workspace */
    int64_t stride1[3];     /* 0: 1 */
    int64_t dilation1[3];   /* 0: 1 */
    int64_t pad_lo1[3], pad_hi1[3];
    ckconv_tensor wei1, out;   /* dtype 0: as conv0.wei, as in; layout 0: GKYXC, as in */
    ckconv_dtype compute_wei1; /* 0: as conv0.compute_wei when the weights have one type */
    int32_t num_d;             /* D tensors of out's epilogue */
    ckconv_element_op op_wei1, op_out;
    ckconv_tensor d[4];
} ckconv_conv_conv_desc;

/* Group normalisation over the c channels and all positions of each (n, g):
   y = act((x - mean) * inv_std * gamma + beta), inv_std = 1 / sqrt(variance + eps), variance biased.
   c counts channels PER GROUP: gamma and beta have g*c entries, mean and inv_std are [n, g].
   in is x, out is y (and dy), din is dx. Statistics are f32 (f64 for f64). */
typedef struct ckconv_groupnorm_desc {
    int32_t ndim;               /* 1, 2 or 3 */
    ckconv_dtype param_dtype;   /* gamma, beta, dgamma, dbeta; 0: as in */
    int64_t g;                  /* groups; 0: 1 */
    int64_t n;                  /* batch; 0 is an empty batch */
    int64_t c;                  /* channels per group */
    int64_t input[3];           /* spatial size */
    double eps;                 /* above 0; PyTorch's default is 1e-5 */
    ckconv_tensor in, out, din; /* f64, f32, f16, bf16; out and din default to in's type and layout */
    ckconv_element act;         /* CKCONV_PASS, CKCONV_SIGMOID or CKCONV_SILU */
    int32_t reserved[3];
} ckconv_groupnorm_desc;

/* Facts about a device, all that planning knows of it. Fill it with ckconv_device_cpu, ckconv_device_gpu or
   ckconv_device_named, or by hand. */
typedef struct ckconv_device {
    int32_t kind;          /* 0: CPU, 1: AMD GPU, 2: NVIDIA GPU */
    int32_t ordinal;       /* GPU number */
    char arch[16];         /* "x86_64", "gfx942", "sm_90", ... */
    int32_t threads;       /* CPU: threads to plan for; 0: 1 */
    int32_t features;      /* CPU: CKCONV_CPU_... that may be used */
    int32_t wave_size;     /* GPU: 32 or 64 */
    int32_t compute_units; /* GPU */
    int32_t lds_bytes;     /* GPU: LDS (shared memory) per block, 48 KiB or more */
    int32_t reserved[3];
} ckconv_device;
enum { CKCONV_DEVICE_CPU = 0, CKCONV_DEVICE_AMD = 1, CKCONV_DEVICE_NVIDIA = 2 };
enum {
    CKCONV_CPU_AVX2 = 1,       /* with FMA */
    CKCONV_CPU_AVX512 = 2,     /* F, with FMA */
    CKCONV_CPU_AVX512_BF16 = 4 /* its dot products; with CKCONV_CPU_AVX512 */
};

/* What the caller wants of the planner. NULL or all zero: the best plan for the device. */
typedef struct ckconv_options {
    ckconv_engine engine;
    int32_t flags;         /* CKCONV_ALLOW_ATOMICS */
    const char *instance;  /* an instance's or a family's name; NULL: planner's choice */
    int64_t max_workspace; /* bytes; 0: no limit, -1: none at all */
    int32_t split_k;       /* bwd_weight: parts of the reduction, or as many as there can be; 0: planner's
                              choice. Elsewhere 0 or 1 */
    int32_t threads;       /* CPU threads; 0: the device's */
    int32_t reserved[2];
} ckconv_options;

/* A chosen way to compute one problem. Plain data: copy and keep it. Treat it as read-only; these members are
   meant to be read. */
typedef struct ckconv_plan {
    uint32_t magic, version;
    ckconv_op op;
    ckconv_engine engine;
    int32_t instance;        /* index for ckconv_instance_... */
    int32_t split_k;         /* parts of the reduction, 1: not split */
    int64_t workspace_bytes; /* exact; 0: pass NULL */
    int64_t grid[3];         /* GPU: blocks; CPU: {work items, 1, 1} */
    int32_t block[3];        /* GPU: threads; CPU: {threads, 1, 1} */
    int32_t launches;        /* kernels (CPU: parallel loops) per run, with all of groupnorm_bwd's results and
                                saved statistics (else up to two more); a copy of mid may take one more */
    int64_t flop, bytes;     /* 2 per multiply-add; each tensor once */
    ckconv_device device;
    int64_t tune[16]; /* private: block sizes and offsets */
    union {
        ckconv_conv_desc conv; /* the description with all defaults filled in */
        ckconv_conv_conv_desc conv_conv;
        ckconv_groupnorm_desc groupnorm;
    } u;
} ckconv_plan;

/* The tensors of a run, all in one struct for all operations; the rest stays NULL. Pointers may have any
   alignment on the CPU, that of an element on a GPU.
     fwd             in wei -> out
     bwd_data        dout wei -> din
     bwd_weight      in dout -> dwei
     conv_conv_fwd   in wei wei1 [scale shift] -> out [mid]
     groupnorm_fwd   in [gamma beta] -> out [mean inv_std]
     groupnorm_bwd   in dout [gamma beta saved_mean saved_inv_std] -> [din] [dgamma] [dbeta], at least one
   A missing gamma is all 1, a missing beta all 0. Missing saved statistics are computed again; give both or
   none. */
typedef struct ckconv_args {
    const void *in, *wei, *dout;
    const void *d[4];
    const void *wei1, *scale, *shift;
    const void *gamma, *beta, *saved_mean, *saved_inv_std;
    void *out, *din, *dwei, *mid;
    void *mean, *inv_std, *dgamma, *dbeta;
} ckconv_args;

/* One tensor of a plan, resolved: what it would take to allocate, fill or print it. */
typedef struct ckconv_tensor_info {
    ckconv_dtype dtype;
    ckconv_layout layout;
    int32_t rank; /* entries in use below: 3 + ndim for in, wei, out; fewer for vectors */
    int32_t written;
    int64_t length[6]; /* logical order, as ckconv_tensor.stride */
    int64_t stride[6];
    int64_t count; /* elements */
    int64_t bytes; /* from the first element to past the last one: what to allocate */
} ckconv_tensor_info;

/* Which tensor, for ckconv_plan_tensor. */
enum {
    CKCONV_TENSOR_IN = 0, /* in or din of a convolution; x of a group norm */
    CKCONV_TENSOR_WEI = 1,
    CKCONV_TENSOR_OUT = 2, /* out or dout */
    CKCONV_TENSOR_D0 = 3,  /* D0..D3: 3..6 */
    CKCONV_TENSOR_WEI1 = 7,
    CKCONV_TENSOR_MID = 8,
    CKCONV_TENSOR_CHANNEL = 9, /* scale, shift; gamma, beta, dgamma, dbeta: [G, C] */
    CKCONV_TENSOR_STAT = 10,   /* mean, inv_std: [N, G] */
    CKCONV_TENSOR_DIN = 11     /* dx of a group norm */
};

/* One kernel launch: grid x 1 x 1 blocks of block x 1 x 1 threads, one struct by value as argument. */
typedef struct ckconv_launch {
    const char *kernel; /* its plain C name */
    int64_t grid;
    int32_t block;
    int32_t cluster; /* blocks of a thread block cluster (NVIDIA); 1: no clusters */
    int32_t reserved;
    int32_t arg_bytes;
    unsigned char arg[4096];
} ckconv_launch;

/* One line of a tuner's result: enough to make the same plan again. */
typedef struct ckconv_choice {
    int32_t instance; /* index */
    int32_t split_k;
    double seconds; /* median */
    int64_t workspace_bytes;
} ckconv_choice;


/*------------------------------------------------------------------------------------------------------------
  >>api
  Threads: all functions may be called at any time from any thread. None keeps a pointer after it returned,
  except that GPU work still reads and writes its tensors until the stream has reached it.
*/

/* Choose how to compute a problem. op: CKCONV_FWD, CKCONV_BWD_DATA or CKCONV_BWD_WEIGHT.
   options, device: NULL for the defaults (the current GPU in a GPU build that finds one, else this CPU).
   Fills *plan, or leaves it with magic 0 on an error; a run of that names the error once more. Pure: no
   device is touched when device is given. */
CKCONV_API ckconv_status ckconv_plan_conv(ckconv_plan *plan, ckconv_op op, const ckconv_conv_desc *desc,
                                          const ckconv_options *options, const ckconv_device *device,
                                          ckconv_error *err);
CKCONV_API ckconv_status ckconv_plan_conv_conv(ckconv_plan *plan, const ckconv_conv_conv_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err);
/* op: CKCONV_GROUPNORM_FWD or CKCONV_GROUPNORM_BWD */
CKCONV_API ckconv_status ckconv_plan_groupnorm(ckconv_plan *plan, ckconv_op op,
                                               const ckconv_groupnorm_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err);

/* The problem and device of `base`, planned again with other options. plan may be base. */
CKCONV_API ckconv_status ckconv_plan_again(ckconv_plan *plan, const ckconv_plan *base,
                                           const ckconv_options *options, ckconv_error *err);

/* Run a plan. workspace: plan->workspace_bytes at least, any alignment; contents need no preparation and are
   garbage afterwards. stream: hipStream_t or cudaStream_t of a GPU plan, else ignored.
   Errors leave every output untouched, but for CKCONV_ERR_LAUNCH: when the runtime refuses the second of
   several kernels, outputs are undefined. Deterministic (see the top comment). */
CKCONV_API ckconv_status ckconv_run(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                    size_t workspace_bytes, void *stream, ckconv_error *err);

/* The kernels that ckconv_run would launch for a GPU plan, in order: what a profiler, an emulator or a
   graph of one's own needs. The first `capacity` go to launches, the number of all of them to *count. No GPU
   is needed and none touched; pointers of args are only copied. */
CKCONV_API ckconv_status ckconv_plan_launches(const ckconv_plan *plan, const ckconv_args *args,
                                              void *workspace, size_t workspace_bytes,
                                              ckconv_launch *launches, int32_t capacity, int32_t *count,
                                              ckconv_error *err);

/* What will run and why, as text (one paragraph, no newline at its end), cut to `size` bytes; of a GPU's plan
   also its kernels' names, for tensors that are aligned. Returns the full length, as snprintf does. */
CKCONV_API size_t ckconv_plan_describe(const ckconv_plan *plan, char *text, size_t size);

/* Shape, strides, bytes of one tensor of a plan (CKCONV_TENSOR_...). */
CKCONV_API ckconv_status ckconv_plan_tensor(const ckconv_plan *plan, int32_t which, ckconv_tensor_info *info,
                                            ckconv_error *err);

/* One call: plan with the defaults for at most workspace_bytes of workspace (NULL, 0 is fine) and run. */
CKCONV_API ckconv_status ckconv_fwd(const ckconv_conv_desc *desc, const void *in, const void *wei, void *out,
                                    void *workspace, size_t workspace_bytes, void *stream, ckconv_error *err);
CKCONV_API ckconv_status ckconv_bwd_data(const ckconv_conv_desc *desc, void *din, const void *wei,
                                         const void *dout, void *workspace, size_t workspace_bytes,
                                         void *stream, ckconv_error *err);
CKCONV_API ckconv_status ckconv_bwd_weight(const ckconv_conv_desc *desc, const void *in, void *dwei,
                                           const void *dout, void *workspace, size_t workspace_bytes,
                                           void *stream, ckconv_error *err);
CKCONV_API ckconv_status ckconv_conv_conv_fwd(const ckconv_conv_conv_desc *desc, const void *in,
                                              const void *wei0, const void *wei1, void *out, void *workspace,
                                              size_t workspace_bytes, void *stream, ckconv_error *err);
/* mean, inv_std: NULL when not wanted */
CKCONV_API ckconv_status ckconv_groupnorm_fwd(const ckconv_groupnorm_desc *desc, const void *in,
                                              const void *gamma, const void *beta, void *out, void *mean,
                                              void *inv_std, void *workspace, size_t workspace_bytes,
                                              void *stream, ckconv_error *err);
/* mean, inv_std: what groupnorm_fwd saved for the same x, or NULL: a mean that its type makes too coarse is
   computed again. beta is read only with an activation.
   dx = inv_std * (gamma*dy' - a - xhat*b) with a, b the means over (n, g) of gamma*dy' and gamma*dy'*xhat;
   dgamma = sum over n and positions of dy'*xhat, dbeta = that of dy'; dy' = dy * act'(xhat*gamma + beta). */
CKCONV_API ckconv_status ckconv_groupnorm_bwd(const ckconv_groupnorm_desc *desc, const void *in,
                                              const void *gamma, const void *beta, const void *dout,
                                              const void *mean, const void *inv_std, void *din, void *dgamma,
                                              void *dbeta, void *workspace, size_t workspace_bytes,
                                              void *stream, ckconv_error *err);

/* Instances: every way to compute something, known by name. An index is stable within one header version. */
CKCONV_API int32_t ckconv_instance_count(void);
CKCONV_API const char *ckconv_instance_name(int32_t index);       /* NULL past the end */
CKCONV_API ckconv_engine ckconv_instance_engine(int32_t index);   /* 0 past the end */
CKCONV_API ckconv_family ckconv_instance_family(int32_t index);   /* 0 past the end */
CKCONV_API int ckconv_instance_does(int32_t index, ckconv_op op); /* 1: belongs to this operation */
/* CKCONV_OK if the instance can compute the problem of `base` on its device, else the reason. */
CKCONV_API ckconv_status ckconv_instance_supports(int32_t index, const ckconv_plan *base, ckconv_error *err);
/* Name of a family, NULL for an unknown value. */
CKCONV_API const char *ckconv_family_name(ckconv_family family);

/* Time every instance that supports the problem of `base` (one warm-up, then `repeats` runs each, 1 to 64)
   and write up to `capacity` choices, fastest first. Outputs in args are overwritten. Each instance is
   planned for the workspace given, which may be NULL, 0. Returns CKCONV_OK and the number of choices in
   *count. */
CKCONV_API ckconv_status ckconv_tune(const ckconv_plan *base, const ckconv_args *args, void *workspace,
                                     size_t workspace_bytes, void *stream, int32_t repeats,
                                     ckconv_choice *choices, int32_t capacity, int32_t *count,
                                     ckconv_error *err);
/* The plan of a choice. */
CKCONV_API ckconv_status ckconv_plan_choice(ckconv_plan *plan, const ckconv_plan *base,
                                            const ckconv_choice *choice, ckconv_error *err);
/* A choice as one line of text that a file can keep, and back. The line names the instance, so it survives a
   new header version or is refused. to_text returns the full length, as snprintf does. */
CKCONV_API size_t ckconv_choice_to_text(const ckconv_choice *choice, char *text, size_t size);
CKCONV_API ckconv_status ckconv_choice_from_text(ckconv_choice *choice, const char *text, ckconv_error *err);

/* Convert layout and type of one tensor on the host: every element of src, read once, rounded once.
   ndim 1..3; length in logical order (3 + ndim entries); both descriptions may be strided. dtype 0: f32. */
CKCONV_API ckconv_status ckconv_transform(int32_t ndim, const int64_t *length, const ckconv_tensor *src_desc,
                                          const void *src, const ckconv_tensor *dst_desc, void *dst,
                                          void *stream, ckconv_error *err);
/* The same where the device of these facts has src and dst: on the stream of the current GPU, without
   waiting, or on the host for CPU facts. */
CKCONV_API ckconv_status ckconv_device_transform(const ckconv_device *device, int32_t ndim,
                                                 const int64_t *length, const ckconv_tensor *src_desc,
                                                 const void *src, const ckconv_tensor *dst_desc, void *dst,
                                                 void *stream, ckconv_error *err);


/*------------------------------------------------------------------------------------------------------------
  >>ref-api
  The specification, on host pointers, with the same descriptions: each is plan + run with CKCONV_ENGINE_REF.
  Slow by intent. No workspace.
*/
CKCONV_API ckconv_status ckconv_ref_conv(ckconv_op op, const ckconv_conv_desc *desc, const ckconv_args *args,
                                         ckconv_error *err);
CKCONV_API ckconv_status ckconv_ref_conv_conv(const ckconv_conv_conv_desc *desc, const ckconv_args *args,
                                              ckconv_error *err);
CKCONV_API ckconv_status ckconv_ref_groupnorm(ckconv_op op, const ckconv_groupnorm_desc *desc,
                                              const ckconv_args *args, ckconv_error *err);


/*------------------------------------------------------------------------------------------------------------
  >>util-api
*/
CKCONV_API int32_t ckconv_version(void);                         /* CKCONV_VERSION of the implementation */
CKCONV_API const char *ckconv_status_text(ckconv_status status); /* a few words; never NULL */

/* Names as the command line spells them ("f16", "NHWGC", "bwd_weight", "silu"). NULL for unknown values, 0
   for unknown names; element and engine, whose 0 has a name ("pass", "auto"), answer -1. */
CKCONV_API const char *ckconv_dtype_name(ckconv_dtype dtype);
CKCONV_API ckconv_dtype ckconv_dtype_from_name(const char *name);
CKCONV_API const char *ckconv_layout_name(ckconv_layout layout);
CKCONV_API ckconv_layout ckconv_layout_from_name(const char *name); /* also the K names and 1D, 3D forms */
CKCONV_API const char *ckconv_op_name(ckconv_op op);
CKCONV_API ckconv_op ckconv_op_from_name(const char *name);
CKCONV_API const char *ckconv_element_name(ckconv_element kind);
CKCONV_API ckconv_element ckconv_element_from_name(const char *name);
CKCONV_API const char *ckconv_engine_name(ckconv_engine engine);
CKCONV_API ckconv_engine ckconv_engine_from_name(const char *name);

CKCONV_API size_t ckconv_dtype_size(ckconv_dtype dtype); /* bytes of one element; 0 for compute-only types */
/* Values <-> storage, `count` packed elements. Rounds to nearest even; fp8 saturates, i8 and i32 round and
   saturate (NaN to 0). Unknown types: nothing happens. */
CKCONV_API void ckconv_from_double(ckconv_dtype dtype, const double *src, void *dst, size_t count);
CKCONV_API void ckconv_to_double(ckconv_dtype dtype, const void *src, double *dst, size_t count);
/* Output size of a convolution, out[0..ndim). Only sizes are looked at. */
CKCONV_API ckconv_status ckconv_conv_output(const ckconv_conv_desc *desc, int64_t *out, ckconv_error *err);

/* Facts: of this CPU (threads as OpenMP would use), of GPU `ordinal`, of an architecture by name ("gfx942",
   "sm_90", "x86_64"; features as in "gfx942:xnack-" and "sm_90a" are left out; typical figures, for planning
   without the device; cautious ones, and no matrix unit, for gfx... and sm_... names that this version does
   not know). Of an NVIDIA GPU those of the newest architecture, up to its own,
   that nvcc compiled for: that code runs there. *device is all zero on an error. */
CKCONV_API void ckconv_device_cpu(ckconv_device *device);
CKCONV_API ckconv_status ckconv_device_gpu(int32_t ordinal, ckconv_device *device, ckconv_error *err);
CKCONV_API ckconv_status ckconv_device_named(const char *arch, ckconv_device *device, ckconv_error *err);
CKCONV_API int32_t ckconv_device_count(void); /* GPUs; 0 without device code */

/* Memory and time of a GPU for programs that include no HIP or CUDA header. For CPU facts they use the host's
   malloc and memcpy, so that one program serves both. open makes the device current; alloc, copy, fill, free
   and synchronise act on the current device. alloc returns NULL and says why. */
CKCONV_API ckconv_status ckconv_device_open(const ckconv_device *device, ckconv_error *err);
CKCONV_API void *ckconv_device_alloc(const ckconv_device *device, size_t bytes, ckconv_error *err);
CKCONV_API void ckconv_device_free(const ckconv_device *device, void *memory);
CKCONV_API ckconv_status ckconv_device_upload(const ckconv_device *device, void *dst, const void *src,
                                              size_t bytes, ckconv_error *err);
CKCONV_API ckconv_status ckconv_device_download(const ckconv_device *device, void *dst, const void *src,
                                                size_t bytes, ckconv_error *err);
CKCONV_API ckconv_status ckconv_device_fill(const ckconv_device *device, void *dst, int byte, size_t bytes,
                                            ckconv_error *err);
CKCONV_API ckconv_status ckconv_device_synchronise(const ckconv_device *device, ckconv_error *err);
/* The time between two points of a stream: create, then start and stop as often as wanted; seconds waits for
   the last stop and gives what lies between, or -1 when that could not be measured (an error of the kernels,
   too); destroy frees the events. */
typedef struct ckconv_timer {
    void *from, *to; /* GPU events */
    double cpu_from, cpu_to;
} ckconv_timer;
CKCONV_API ckconv_status ckconv_timer_create(const ckconv_device *device, ckconv_timer *timer,
                                             ckconv_error *err);
CKCONV_API void ckconv_timer_start(const ckconv_device *device, ckconv_timer *timer, void *stream);
CKCONV_API void ckconv_timer_stop(const ckconv_device *device, ckconv_timer *timer, void *stream);
CKCONV_API double ckconv_timer_seconds(const ckconv_device *device, ckconv_timer *timer);
CKCONV_API void ckconv_timer_destroy(const ckconv_device *device, ckconv_timer *timer);

#ifdef __cplusplus
}
#endif
#endif /* CKCONV_H */

/* Stop here if you only need the API. */
#ifdef CKCONV_IMPLEMENTATION
#ifndef CKCONV_IMPLEMENTED
#define CKCONV_IMPLEMENTED

/*------------------------------------------------------------------------------------------------------------
  >>impl
  The common subset of C99 and C++11. Everything private begins with ckci_ or CKCI_.
*/
#if defined(__HIP__) || defined(__HIPCC__) || defined(__CUDACC__) || defined(CKCI_SIMULATOR)
#define CKCI_GPU_COMPILER 1 /* CKCI_SIMULATOR: tests run kernels on the CPU */
#else
#define CKCI_GPU_COMPILER 0
#ifdef CKCONV_REQUIRE_GPU
#error "CKCONV_REQUIRE_GPU: no GPU compiler reads this; compile as .hip or .cu, or with -x hip"
#endif
#endif

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#define CKCI_FN static __attribute__((unused))
#define CKCI_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define CKCI_COLD __attribute__((cold)) /* what leads there is kept small */
#define CKCI_INLINE static inline __attribute__((unused, always_inline))
#else
#define CKCI_FN static
#define CKCI_PRINTF(a, b)
#define CKCI_COLD
#define CKCI_INLINE static inline
#endif
#if (defined(__x86_64__) || defined(__amd64__)) && (defined(__GNUC__) || defined(__clang__)) &&              \
    !defined(CKCONV_NO_SIMD)
#define CKCI_X86 1
#include <immintrin.h>
#else
#define CKCI_X86 0
#endif

/* -ffast-math stays outside: results hold in this file, and the caller's flags come back at its end. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) ||                                               \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#if defined(__clang__)
#define CKCI_PRECISE 2
#pragma float_control(precise, on, push)
#elif defined(__GNUC__)
#define CKCI_PRECISE 1
#pragma GCC push_options
#pragma GCC optimize("no-fast-math", "no-associative-math", "no-finite-math-only", "signed-zeros")
#endif
#endif

enum { CKCI_MAGIC = 0x434b4356, CKCI_REFUSED = 0x52454655, CKCI_STACK = 65536 };

#ifdef __cplusplus
extern "C" {
#endif

/* Every failure goes through here: status, and a text with the argument, the value and what is allowed. */
CKCI_FN ckconv_status ckci_fail(ckconv_error *err, ckconv_status status, const char *format, ...)
    CKCI_PRINTF(3, 4) CKCI_COLD;
CKCI_FN ckconv_status ckci_fail(ckconv_error *err, ckconv_status status, const char *format, ...)
{
    if (err) {
        va_list list;
        va_start(list, format);
        err->status = status;
        vsnprintf(err->text, sizeof err->text, format, list);
        va_end(list);
    }
    return status;
}

CKCI_FN ckconv_status ckci_ok(ckconv_error *err)
{
    if (err) {
        err->status = CKCONV_OK;
        err->text[0] = 0;
    }
    return CKCONV_OK;
}


/*------------------------------------------------------------------------------------------------------------
  >>math
  Checked sizes; half, bfloat16 and the fp8 formats; element operations.
*/
#define CKCI_MAX_BYTES ((int64_t)1 << 62)

CKCI_INLINE int64_t ckci_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

CKCI_INLINE int64_t ckci_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

CKCI_INLINE int64_t ckci_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

CKCI_INLINE int64_t ckci_round_up(int64_t a, int64_t b)
{
    return ckci_ceil_div(a, b) * b;
}

/* a mod b in 0..b-1 */
CKCI_INLINE int64_t ckci_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return r < 0 ? r + b : r;
}

CKCI_INLINE int64_t ckci_gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* *a *= b for non-negative numbers; 0 and no change when the product passes 2^62 */
CKCI_INLINE int ckci_mul(int64_t *a, int64_t b)
{
    if (b != 0 && *a > CKCI_MAX_BYTES / b) {
        return 0;
    }
    *a *= b;
    return 1;
}

CKCI_INLINE int64_t ckci_saturating_mul(int64_t a, int64_t b)
{
    return ckci_mul(&a, b) ? a : CKCI_MAX_BYTES;
}

/* sum of two numbers up to 2^62, at most 2^62 */
CKCI_INLINE int64_t ckci_saturating_add(int64_t a, int64_t b)
{
    return a > CKCI_MAX_BYTES - b ? CKCI_MAX_BYTES : a + b;
}

CKCI_INLINE uint32_t ckci_float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

CKCI_INLINE float ckci_bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* x, rounded to its type and unknown to the compiler: sums that give back what rounding took hold with
   -ffast-math, too, and on x87. */
CKCI_INLINE double ckci_as_written(double x)
{
#if defined(__GNUC__) || defined(__clang__)
#if defined(__SSE2_MATH__)
    __asm__("" : "+x"(x));
#else
    __asm__("" : "+m"(x));
#endif
    return x;
#else
    volatile double kept = x;
    return kept;
#endif
}

/* By their bits: -ffinite-math-only takes x == x for true. */
CKCI_INLINE int ckci_is_nan(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return (u & (uint64_t)INT64_MAX) > (uint64_t)0x7ff << 52;
}

CKCI_INLINE int ckci_is_finite(float x)
{
    return (ckci_float_bits(x) & 0x7f800000u) != 0x7f800000u;
}

/* A small binary floating-point format. A code without its sign is exponent field * 2^mant + mantissa; codes
   up to max_code are finite. inf_code < 0: no infinity. fnuz: a single NaN (sign bit alone) and no -0. */
typedef struct ckci_format {
    int bits, mant, bias;
    int max_code, inf_code, nan_code;
    int saturate, fnuz;
} ckci_format;

CKCI_FN const ckci_format *ckci_find_format(ckconv_dtype dtype)
{
    static const ckci_format f16 = {16, 10, 15, 0x7bff, 0x7c00, 0x7e00, 0, 0};
    static const ckci_format bf16 = {16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0, 0};
    static const ckci_format e4m3 = {8, 3, 7, 0x7e, -1, 0x7f, 1, 0};
    static const ckci_format e5m2 = {8, 2, 15, 0x7b, 0x7c, 0x7e, 1, 0};
    static const ckci_format e4m3z = {8, 3, 8, 0x7f, -1, 0x80, 1, 1};
    static const ckci_format e5m2z = {8, 2, 16, 0x7f, -1, 0x80, 1, 1};
    static const ckci_format tf32 = {19, 10, 127, 0x3fbff, 0x3fc00, 0x3fe00, 0, 0};
    switch (dtype) {
    case CKCONV_F16:
        return &f16;
    case CKCONV_BF16:
        return &bf16;
    case CKCONV_F8E4M3:
        return &e4m3;
    case CKCONV_F8E5M2:
        return &e5m2;
    case CKCONV_F8E4M3FNUZ:
        return &e4m3z;
    case CKCONV_F8E5M2FNUZ:
        return &e5m2z;
    case CKCONV_TF32:
        return &tf32;
    default:
        return NULL;
    }
}

/* One rounding, to nearest even, from the exact double. Finite overflow: infinity, or the largest finite
   value where the format saturates. Infinity: itself, else NaN in FNUZ formats, else the largest finite
   value. */
CKCI_FN uint32_t ckci_encode(const ckci_format *f, double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    uint32_t sign = (uint32_t)(u >> 63) << (f->bits - 1);
    int exponent = (int)((u >> 52) & 0x7ff);
    uint64_t mantissa = u & (((uint64_t)1 << 52) - 1);
    if (exponent == 0x7ff) {
        if (mantissa) {
            return f->fnuz ? (uint32_t)f->nan_code : sign | (uint32_t)f->nan_code;
        }
        if (f->fnuz) {
            return (uint32_t)f->nan_code;
        }
        return sign | (uint32_t)(f->inf_code >= 0 ? f->inf_code : f->max_code);
    }
    uint64_t code = 0;
    if (exponent != 0) {
        int field = exponent - 1023 + f->bias;
        int shift = 52 - f->mant + (field >= 1 ? 0 : 1 - field);
        mantissa |= (uint64_t)1 << 52;
        if (shift <= 53) {
            uint64_t half = ((uint64_t)1 << (shift - 1)) - 1;
            code = (mantissa + half + ((mantissa >> shift) & 1)) >> shift;
        }
        if (field > 1) {
            code += (uint64_t)(field - 1) << f->mant; /* the hidden bit carries into the exponent field */
        }
    }
    if (code > (uint64_t)f->max_code) {
        code = (uint64_t)(f->saturate ? f->max_code : f->inf_code);
    }
    return f->fnuz && code == 0 ? 0 : sign | (uint32_t)code;
}

CKCI_FN double ckci_decode(const ckci_format *f, uint32_t code)
{
    uint32_t sign = code >> (f->bits - 1);
    int rest = (int)(code & (((uint32_t)1 << (f->bits - 1)) - 1));
    int field = rest >> f->mant, mantissa = rest & ((1 << f->mant) - 1);
    uint64_t u;
    double x;
    if (f->fnuz ? (int)code == f->nan_code : rest > f->max_code) {
        u = rest == f->inf_code ? (uint64_t)0x7ff << 52 : (uint64_t)0xfff << 51;
    } else if (field == 0) {
        u = (uint64_t)(1023 + 1 - f->bias - f->mant) << 52; /* value of the last place */
        memcpy(&x, &u, 8);
        x *= mantissa;
        return sign ? -x : x;
    } else {
        u = (uint64_t)(field - f->bias + 1023) << 52 | (uint64_t)mantissa << (52 - f->mant);
    }
    u |= (uint64_t)sign << 63;
    memcpy(&x, &u, 8);
    return x;
}

/* The two 16-bit formats again, in a form that compilers vectorise. */
CKCI_INLINE float ckci_half_float(uint16_t h)
{
    /* 2^-14 + a subnormal one, less 2^-14: on the way no number is subnormal as a float, which programs of
       -ffast-math take for zero */
    uint32_t rest = (uint32_t)(h & 0x7fff) << 13;
    uint32_t small = ckci_float_bits(ckci_bits_float(rest + 0x38800000u) - 6.103515625e-5f);
    uint32_t finite = rest < 0x00800000u ? small : rest + 0x38000000u;
    uint32_t special = (rest >= 0x0f800000u) ? 0x7f800000u | (rest & 0x007fe000u) : finite;
    return ckci_bits_float(special | (uint32_t)(h & 0x8000) << 16);
}

CKCI_INLINE uint16_t ckci_float_half(float x)
{
    uint32_t u = ckci_float_bits(x), rest = u & 0x7fffffffu;
    uint32_t normal = (rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1)) >> 13;
    uint32_t subnormal = ckci_float_bits(ckci_bits_float(rest) + 0.5f) - 0x3f000000u;
    uint32_t huge = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t code = rest < 0x38800000u ? subnormal : rest < 0x47800000u ? normal : huge;
    return (uint16_t)(code | ((u >> 16) & 0x8000u));
}

CKCI_INLINE float ckci_bf16_float(uint16_t h)
{
    return ckci_bits_float((uint32_t)h << 16);
}

CKCI_INLINE uint16_t ckci_float_bf16(float x)
{
    uint32_t u = ckci_float_bits(x);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
}

/* Round a float to a compute type, result as float. bf16x3 keeps two bf16 terms: 16 significant bits. */
CKCI_FN float ckci_round_float(ckconv_dtype compute, float x)
{
    switch (compute) {
    case CKCONV_F16:
        return ckci_half_float(ckci_float_half(x));
    case CKCONV_BF16:
        return ckci_bf16_float(ckci_float_bf16(x));
    case CKCONV_BF16X3: {
        float high = ckci_bf16_float(ckci_float_bf16(x));
        float low = x - high;
        /* infinity and NaN have no second term; nor has a value that rounded up to infinity */
        return ckci_is_finite(low) ? high + ckci_bf16_float(ckci_float_bf16(low)) : high;
    }
    case CKCONV_TF32:
    case CKCONV_F8E4M3:
    case CKCONV_F8E5M2:
    case CKCONV_F8E4M3FNUZ:
    case CKCONV_F8E5M2FNUZ: {
        const ckci_format *f = ckci_find_format(compute);
        return (float)ckci_decode(f, ckci_encode(f, (double)x));
    }
    default:
        return x;
    }
}

/* Round to nearest even and saturate; NaN gives 0. */
CKCI_FN int32_t ckci_to_int(double x, int32_t low, int32_t high)
{
    if (ckci_is_nan(x)) {
        return 0;
    }
    if (x <= (double)low) {
        return low;
    }
    if (x >= (double)high) {
        return high;
    }
    double down = floor(x), part = x - down;
    int64_t i = (int64_t)down;
    if (part > 0.5 || (part == 0.5 && (i & 1))) {
        i++;
    }
    return (int32_t)i;
}

CKCI_FN size_t ckci_size(ckconv_dtype dtype)
{
    switch (dtype) {
    case CKCONV_F64:
        return 8;
    case CKCONV_F32:
    case CKCONV_I32:
        return 4;
    case CKCONV_F16:
    case CKCONV_BF16:
        return 2;
    case CKCONV_F8E4M3:
    case CKCONV_F8E5M2:
    case CKCONV_F8E4M3FNUZ:
    case CKCONV_F8E5M2FNUZ:
    case CKCONV_I8:
        return 1;
    default:
        return 0;
    }
}

CKCI_INLINE int ckci_is_fp8(ckconv_dtype dtype)
{
    return dtype >= CKCONV_F8E4M3 && dtype <= CKCONV_F8E5M2FNUZ;
}

/* One element, any alignment. */
CKCI_FN double ckci_load(ckconv_dtype dtype, const unsigned char *p)
{
    float f;
    double d;
    int32_t i;
    uint16_t h;
    switch (dtype) {
    case CKCONV_F64:
        memcpy(&d, p, 8);
        return d;
    case CKCONV_F32:
        memcpy(&f, p, 4);
        return (double)f;
    case CKCONV_I32:
        memcpy(&i, p, 4);
        return (double)i;
    case CKCONV_I8:
        return (double)(*p < 128 ? (int)*p : (int)*p - 256);
    case CKCONV_F16:
        memcpy(&h, p, 2);
        return (double)ckci_half_float(h);
    case CKCONV_BF16:
        memcpy(&h, p, 2);
        return (double)ckci_bf16_float(h);
    default:
        return ckci_decode(ckci_find_format(dtype), *p);
    }
}

/* One element, any alignment, rounded once. */
CKCI_FN void ckci_store(ckconv_dtype dtype, unsigned char *p, double x)
{
    float f = (float)x;
    int32_t i;
    uint16_t h;
    switch (dtype) {
    case CKCONV_F64:
        memcpy(p, &x, 8);
        break;
    case CKCONV_F32:
        memcpy(p, &f, 4);
        break;
    case CKCONV_I32:
        i = ckci_to_int(x, INT32_MIN, INT32_MAX);
        memcpy(p, &i, 4);
        break;
    case CKCONV_I8:
        *p = (unsigned char)ckci_to_int(x, -128, 127);
        break;
    case CKCONV_F16:
    case CKCONV_BF16:
        h = (uint16_t)ckci_encode(ckci_find_format(dtype), x);
        memcpy(p, &h, 2);
        break;
    default:
        *p = (unsigned char)ckci_encode(ckci_find_format(dtype), x);
    }
}

/* Element operations, once in float and once in double. num_d entries of d are valid. */
#define CKCI_ELEMENT(NAME, T, EXP, ERF)                                                                      \
    CKCI_FN T NAME(const ckconv_element_op *op, T x, const T *d, int32_t num_d)                              \
    {                                                                                                        \
        T alpha = (T)op->alpha, beta = (T)op->beta;                                                          \
        switch (op->kind) {                                                                                  \
        case CKCONV_SCALE:                                                                                   \
            return alpha * x;                                                                                \
        case CKCONV_RELU:                                                                                    \
            return x < 0 ? (T)0 : x;                                                                         \
        case CKCONV_CLAMP:                                                                                   \
            return x < alpha ? alpha : x > beta ? beta : x;                                                  \
        case CKCONV_SIGMOID:                                                                                 \
            return 1 / (1 + EXP(-x));                                                                        \
        case CKCONV_SILU:                                                                                    \
            return x / (1 + EXP(-x));                                                                        \
        case CKCONV_GELU:                                                                                    \
            return x / 2 * (1 + ERF(x * (T)0.70710678118654752440));                                         \
        case CKCONV_BILINEAR:                                                                                \
            return alpha * x + beta * d[0];                                                                  \
        case CKCONV_SCALE_ADD:                                                                               \
            return alpha * x + d[0];                                                                         \
        case CKCONV_PASS:                                                                                    \
            return x;                                                                                        \
        default:                                                                                             \
            break;                                                                                           \
        }                                                                                                    \
        for (int32_t i = 0; i < num_d; i++) {                                                                \
            x += d[i];                                                                                       \
        }                                                                                                    \
        int relu = op->kind == CKCONV_BIAS_RELU || op->kind == CKCONV_BIAS_RESIDUAL_RELU ||                  \
                   op->kind == CKCONV_ADD_RELU;                                                              \
        return relu && x < 0 ? (T)0 : x;                                                                     \
    }
CKCI_ELEMENT(ckci_element_f, float, expf, erff)
CKCI_ELEMENT(ckci_element_d, double, exp, erf)
#undef CKCI_ELEMENT

/* ---- Architectures
   One row each, all that host, kernels and tests know of it: name, vendor, matrix unit, threads of a wave,
   compute units of a typical device, bytes of LDS that one block may ask for (NVIDIA: with the opt-in, as in
   its table of compute capabilities), quirk. A name without a row gets the portable kernels. */
#define CKCI_ARCHITECTURES(X)                                                                                \
    X(gfx900, AMD, NONE, 64, 64, 65536, NONE)                                                                \
    X(gfx906, AMD, NONE, 64, 60, 65536, NONE)                                                                \
    X(gfx908, AMD, CDNA1, 64, 120, 65536, NONE)                                                              \
    X(gfx90a, AMD, CDNA2, 64, 104, 65536, NONE)                                                              \
    X(gfx90c, AMD, NONE, 64, 8, 65536, NONE)                                                                 \
    X(gfx940, AMD, CDNA3, 64, 228, 65536, NONE)                                                              \
    X(gfx941, AMD, CDNA3, 64, 304, 65536, NONE)                                                              \
    X(gfx942, AMD, CDNA3, 64, 304, 65536, NONE)                                                              \
    X(gfx950, AMD, CDNA4, 64, 256, 163840, NO_256)                                                           \
    X(gfx1010, AMD, NONE, 32, 40, 65536, NONE)                                                               \
    X(gfx1011, AMD, NONE, 32, 36, 65536, NONE)                                                               \
    X(gfx1012, AMD, NONE, 32, 22, 65536, NONE)                                                               \
    X(gfx1013, AMD, NONE, 32, 24, 65536, NONE)                                                               \
    X(gfx1030, AMD, NONE, 32, 80, 65536, NONE)                                                               \
    X(gfx1031, AMD, NONE, 32, 40, 65536, NONE)                                                               \
    X(gfx1032, AMD, NONE, 32, 32, 65536, NONE)                                                               \
    X(gfx1033, AMD, NONE, 32, 8, 65536, NONE)                                                                \
    X(gfx1034, AMD, NONE, 32, 16, 65536, NONE)                                                               \
    X(gfx1035, AMD, NONE, 32, 12, 65536, NONE)                                                               \
    X(gfx1036, AMD, NONE, 32, 2, 65536, NONE)                                                                \
    X(gfx1100, AMD, RDNA3, 32, 96, 65536, NONE)                                                              \
    X(gfx1101, AMD, RDNA3, 32, 60, 65536, NONE)                                                              \
    X(gfx1102, AMD, RDNA3, 32, 32, 65536, NONE)                                                              \
    X(gfx1103, AMD, RDNA3, 32, 12, 65536, NONE)                                                              \
    X(gfx1150, AMD, RDNA3, 32, 16, 65536, NONE)                                                              \
    X(gfx1151, AMD, RDNA3, 32, 40, 65536, NONE)                                                              \
    X(gfx1152, AMD, RDNA3, 32, 8, 65536, NONE)                                                               \
    X(gfx1153, AMD, RDNA3, 32, 4, 65536, NONE)                                                               \
    X(gfx1200, AMD, RDNA4, 32, 32, 65536, NONE)                                                              \
    X(gfx1201, AMD, RDNA4, 32, 64, 65536, NONE)                                                              \
    X(sm_70, NVIDIA, NONE, 32, 80, 98304, NONE)                                                              \
    X(sm_75, NVIDIA, NONE, 32, 68, 65536, NONE)                                                              \
    X(sm_80, NVIDIA, MMA, 32, 108, 166912, NONE)                                                             \
    X(sm_86, NVIDIA, MMA, 32, 84, 101376, NONE)                                                              \
    X(sm_87, NVIDIA, MMA, 32, 16, 166912, NONE)                                                              \
    X(sm_89, NVIDIA, MMA, 32, 128, 101376, NONE)                                                             \
    X(sm_90, NVIDIA, WGMMA, 32, 132, 232448, NONE)                                                           \
    X(sm_100, NVIDIA, MMA, 32, 148, 232448, NONE)                                                            \
    X(sm_103, NVIDIA, MMA, 32, 148, 232448, NONE)                                                            \
    X(sm_110, NVIDIA, MMA, 32, 20, 232448, NONE)                                                             \
    X(sm_120, NVIDIA, MMA, 32, 170, 101376, NONE)                                                            \
    X(sm_121, NVIDIA, MMA, 32, 48, 101376, NONE)

/* Matrix units by the instructions that they have. CDNA: MFMA, f64 from the second on, xf32 on the third
   alone. RDNA: WMMA, with operands twice as large on the third. WGMMA: mma.sync, and groups of waves where it
   was compiled for them. */
enum {
    CKCI_UNIT_NONE = 0,
    CKCI_UNIT_CDNA1 = 1,
    CKCI_UNIT_CDNA2 = 2,
    CKCI_UNIT_CDNA3 = 3,
    CKCI_UNIT_CDNA4 = 4,
    CKCI_UNIT_RDNA3 = 5,
    CKCI_UNIT_RDNA4 = 6,
    CKCI_UNIT_MMA = 7,
    CKCI_UNIT_WGMMA = 8
};
enum {
    CKCI_QUIRK_NONE = 0,
    CKCI_QUIRK_NO_256 = 1 /* compilers move the sums of tiles of 256 x 256 between registers: left out */
};

typedef struct ckci_architecture {
    char name[8]; /* with zeros to its end */
    int32_t kind; /* CKCONV_DEVICE_... */
    int32_t unit, wave, units, lds, quirk;
} ckci_architecture;

CKCI_FN const ckci_architecture *ckci_architectures(size_t *count)
{
#define CKCI_ROW(NAME, VENDOR, UNIT, WAVE, UNITS, LDS, QUIRK)                                                \
    {#NAME, CKCONV_DEVICE_##VENDOR, CKCI_UNIT_##UNIT, WAVE, UNITS, LDS, CKCI_QUIRK_##QUIRK},
    static const ckci_architecture table[] = {CKCI_ARCHITECTURES(CKCI_ROW)};
#undef CKCI_ROW
    *count = sizeof table / sizeof table[0];
    return table;
}

/* The length of a name without its features: "gfx942:sramecc+:xnack-" is gfx942, sm_90a is sm_90, sm_100f is
   sm_100. */
CKCI_FN size_t ckci_architecture_length(const char *arch)
{
    size_t length = strcspn(arch, ":");
    char last = length > 4 && memcmp(arch, "sm_", 3) == 0 ? arch[length - 1] : '0';
    return last == 'a' || last == 'f' ? length - 1 : length;
}

/* The row of a name, features or not; NULL: it has none. */
CKCI_FN const ckci_architecture *ckci_find_architecture(const char *arch)
{
    char name[8] = "";
    size_t length = ckci_architecture_length(arch), count;
    const ckci_architecture *row = ckci_architectures(&count);
    if (length >= sizeof name) {
        return NULL;
    }
    memcpy(name, arch, length);
    for (size_t i = 0; i < count; i++) {
        if (memcmp(row[i].name, name, sizeof name) == 0) {
            return &row[i];
        }
    }
    return NULL;
}

/* The vendor whose name it can be: "gfx" and a number of three digits or more, the last two of them
   hexadecimal; "sm_" and a decimal number of two or more. CKCONV_DEVICE_CPU: nobody's. */
CKCI_FN int32_t ckci_architecture_vendor(const char *arch)
{
    size_t length = ckci_architecture_length(arch), digits = length > 3 ? length - 3 : 0;
    if (digits >= 3 && memcmp(arch, "gfx", 3) == 0 && strspn(arch + 3, "0123456789") + 2 >= digits &&
        strspn(arch + 3, "0123456789abcdef") >= digits) {
        return CKCONV_DEVICE_AMD;
    }
    if (digits >= 2 && memcmp(arch, "sm_", 3) == 0 && strspn(arch + 3, "0123456789") >= digits) {
        return CKCONV_DEVICE_NVIDIA;
    }
    return CKCONV_DEVICE_CPU;
}

/* Threads of a wave for a vendor's name without a row: 64 up to gfx9, whose numbers have three digits. */
CKCI_FN int32_t ckci_architecture_wave(const char *arch)
{
    int amd = ckci_architecture_vendor(arch) == CKCONV_DEVICE_AMD;
    return amd && ckci_architecture_length(arch) == strlen("gfx900") ? 64 : 32;
}


/*------------------------------------------------------------------------------------------------------------
  >>check
  Descriptions are copied, defaulted, then checked; each return has one reason. `at` prefixes member names in
  texts ("conv0." inside a conv_conv description).
*/
#define CKCI_TRY(call)                                                                                       \
    do {                                                                                                     \
        ckconv_status ckci_status = (call);                                                                  \
        if (ckci_status != CKCONV_OK) {                                                                      \
            return ckci_status;                                                                              \
        }                                                                                                    \
    } while (0)
#define CKCI_LL(x) ((long long)(x))

/* What a layout is for. */
enum { CKCI_ROLE_ACTIVATION = 0, CKCI_ROLE_WEIGHT = 1 };
/* The three tensors of a convolution, by index. */
enum { CKCI_IN = 0, CKCI_WEI = 1, CKCI_OUT = 2 };

CKCI_FN int ckci_written(ckconv_op op)
{
    return op == CKCONV_BWD_DATA ? CKCI_IN : op == CKCONV_BWD_WEIGHT ? CKCI_WEI : CKCI_OUT;
}

CKCI_FN ckconv_status ckci_check_range(const char *at, const char *name, const char *sfx, int index,
                                       int64_t value, int64_t low, const char *allowed, ckconv_error *err)
{
    char place[16] = "";
    if (index >= 0) {
        snprintf(place, sizeof place, "[%d]", index);
    }
    if (value < low) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s%s%s is %lld: must be %s", at, name, sfx, place,
                         CKCI_LL(value), allowed);
    }
    if (value > CKCI_MAX_BYTES) {
        return ckci_fail(err, CKCONV_ERR_OVERFLOW, "%s%s%s%s is %lld: must be 2^62 at most", at, name, sfx,
                         place, CKCI_LL(value));
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_check_switches(ckconv_dtype dtype, ckconv_error *err)
{
#ifdef CKCONV_NO_F64
    if (dtype == CKCONV_F64) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "f64 was left out of this build by CKCONV_NO_F64");
    }
#endif
#ifdef CKCONV_NO_I8
    if (dtype == CKCONV_I8 || dtype == CKCONV_I32) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "i8 was left out of this build by CKCONV_NO_I8");
    }
#endif
#ifdef CKCONV_NO_FP8
    if (ckci_is_fp8(dtype)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "fp8 was left out of this build by CKCONV_NO_FP8");
    }
#endif
    (void)dtype;
    (void)err;
    return CKCONV_OK;
}

/* Type, layout and strides of one tensor by themselves. rank: 3 + ndim. low_stride: 1, or 0 for a D
   tensor. */
CKCI_FN ckconv_status ckci_check_tensor(const char *at, const char *name, const ckconv_tensor *t, int role,
                                        int32_t rank, int is_d, ckconv_error *err)
{
    if (ckci_size(t->dtype) == 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "%s%s.dtype is %d: must be a storage type, CKCONV_F64 (1) to CKCONV_I32 (10)", at,
                         name, (int)t->dtype);
    }
    CKCI_TRY(ckci_check_switches(t->dtype, err));
    int known =
        t->layout == CKCONV_STRIDED || (t->layout == CKCONV_CHANNEL && is_d && role == CKCI_ROLE_ACTIVATION);
    known |= role == CKCI_ROLE_ACTIVATION && t->layout >= CKCONV_NHWGC && t->layout <= CKCONV_NGCHW;
    known |= role == CKCI_ROLE_WEIGHT && (t->layout == CKCONV_GKYXC || t->layout == CKCONV_GKCYX);
    if (!known) {
        const char *given = ckconv_layout_name(t->layout);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s.layout is %d (%s): must be %s%s or CKCONV_STRIDED",
                         at, name, (int)t->layout, given ? given : "unknown",
                         role == CKCI_ROLE_WEIGHT ? "CKCONV_GKYXC, CKCONV_GKCYX"
                                                  : "CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW",
                         is_d && role == CKCI_ROLE_ACTIVATION ? ", CKCONV_CHANNEL" : "");
    }
    for (int32_t i = 0; i < 6; i++) {
        int64_t s = t->stride[i];
        if (t->layout != CKCONV_STRIDED || i >= rank) {
            if (s != 0) {
                return ckci_fail(
                    err, CKCONV_ERR_ARGUMENT, "%s%s.stride[%d] is %lld: must be 0 %s", at, name, (int)i,
                    CKCI_LL(s), i >= rank ? "past the tensor's rank" : "unless the layout is CKCONV_STRIDED");
            }
        } else if (s < (is_d ? 0 : 1) || s > CKCI_MAX_BYTES) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s.stride[%d] is %lld: must be %d to 2^62", at,
                             name, (int)i, CKCI_LL(s), is_d ? 0 : 1);
        }
    }
    return CKCONV_OK;
}

/* Strides of a layout, in logical order {G, N or K, C or K, z, y, x}. Returns 0 when a product passes
   2^62. */
CKCI_FN int ckci_layout_strides(ckconv_layout layout, const int64_t len[6], int64_t stride[6])
{
    static const int order[6][6] = {{1, 3, 4, 5, 0, 2},  /* NHWGC */
                                    {0, 1, 3, 4, 5, 2},  /* GNHWC */
                                    {1, 0, 2, 3, 4, 5},  /* NGCHW */
                                    {0, 1, 3, 4, 5, 2},  /* GKYXC */
                                    {0, 1, 2, 3, 4, 5},  /* GKCYX */
                                    {0, 2, 2, 2, 2, 2}}; /* CHANNEL: G, C */
    int64_t next = 1;
    if (layout == CKCONV_CHANNEL) {
        memset(stride, 0, 6 * sizeof stride[0]);
        stride[0] = len[2];
        stride[2] = 1;
        return 1;
    }
    for (int i = 5; i >= 0; i--) {
        int axis = order[layout - 1][i];
        stride[axis] = next;
        if (!ckci_mul(&next, ckci_max(len[axis], 1))) {
            return 0;
        }
    }
    return 1;
}

/* A tensor of a problem in its final form: always {G, N or K, C or K, z, y, x}, missing dimensions of length
   1. */
typedef struct ckci_tensor {
    unsigned char *p;
    ckconv_dtype dtype;   /* storage */
    ckconv_dtype compute; /* what a read value is rounded to */
    int32_t plain;        /* reading is a pure conversion: no operation, no rounding */
    int32_t reserved;
    int64_t len[6], stride[6];
    ckconv_element_op op;
} ckci_tensor;

/* Lengths and strides in 3D. len3: logical lengths, six entries. Overflow and nesting are checked here. */
CKCI_FN ckconv_status ckci_resolve(const char *at, const char *name, const ckconv_tensor *t, int32_t ndim,
                                   const int64_t len3[6], int written, ckci_tensor *r, ckconv_error *err)
{
    memset(r, 0, sizeof *r);
    r->dtype = t->dtype;
    memcpy(r->len, len3, sizeof r->len);
    int64_t count = 1;
    int fits = 1;
    for (int i = 0; i < 6; i++) {
        fits = fits && ckci_mul(&count, len3[i] == 0 ? 1 : len3[i]);
    }
    if (t->layout == CKCONV_STRIDED) {
        for (int i = 0; i < 3; i++) {
            r->stride[i] = t->stride[i];
        }
        for (int32_t i = 0; i < ndim; i++) {
            r->stride[6 - ndim + i] = t->stride[3 + i];
        }
        int64_t span = 1;
        for (int i = 0; i < 6; i++) {
            int64_t reach = ckci_max(r->len[i] - 1, 0);
            fits = fits && ckci_mul(&reach, r->stride[i]) && reach <= CKCI_MAX_BYTES - span;
            span = fits ? span + reach : span;
        }
        fits = fits && ckci_mul(&span, (int64_t)ckci_size(t->dtype));
    } else {
        fits = fits && ckci_layout_strides(t->layout, len3, r->stride);
    }
    if (!fits || !ckci_mul(&count, (int64_t)ckci_size(t->dtype))) {
        return ckci_fail(err, CKCONV_ERR_OVERFLOW,
                         "%s%s: lengths {%lld, %lld, %lld, %lld, %lld, %lld} and strides pass 2^62 bytes, "
                         "the most allowed",
                         at, name, CKCI_LL(len3[0]), CKCI_LL(len3[1]), CKCI_LL(len3[2]), CKCI_LL(len3[3]),
                         CKCI_LL(len3[4]), CKCI_LL(len3[5]));
    }
    if (!written || t->layout != CKCONV_STRIDED) {
        return CKCONV_OK;
    }
    /* axes by rising stride; each must reach past everything that the smaller ones address */
    int axis[6];
    int used = 0;
    for (int i = 0; i < 6; i++) {
        if (r->len[i] > 1) {
            int at_slot = used++;
            while (at_slot > 0 && r->stride[axis[at_slot - 1]] > r->stride[i]) {
                axis[at_slot] = axis[at_slot - 1];
                at_slot--;
            }
            axis[at_slot] = i;
        }
    }
    int64_t past = 1;
    for (int i = 0; i < used; i++) {
        int64_t s = r->stride[axis[i]];
        if (s < past) {
            int shown = axis[i] < 3 ? axis[i] : axis[i] - (3 - ndim);
            return ckci_fail(
                err, CKCONV_ERR_ARGUMENT,
                "%s%s.stride[%d] is %lld: elements of a written tensor overlap, must be %lld or more", at,
                name, shown, CKCI_LL(s), CKCI_LL(past));
        }
        past += (r->len[axis[i]] - 1) * s;
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_check_element(const char *at, const char *name, const ckconv_element_op *op,
                                         int written, ckconv_error *err)
{
    int unary = op->kind >= CKCONV_PASS && op->kind <= CKCONV_GELU;
    int with_d = op->kind >= CKCONV_BILINEAR && op->kind <= CKCONV_ADD_RELU;
    if (!unary && !with_d) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "%s%s.kind is %d: must be 0 to 6, or 16 to 22 on the written tensor", at, name,
                         (int)op->kind);
    }
    if (with_d && !written) {
        return ckci_fail(
            err, CKCONV_ERR_ARGUMENT,
            "%s%s.kind is %s: operations with D tensors belong to the written tensor; here 0 to 6", at, name,
            ckconv_element_name(op->kind));
    }
    if (op->reserved != 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s.reserved is %d: must be 0 (uninitialised struct?)",
                         at, name, (int)op->reserved);
    }
    int alpha = op->kind == CKCONV_SCALE || op->kind == CKCONV_CLAMP || op->kind == CKCONV_BILINEAR ||
                op->kind == CKCONV_SCALE_ADD;
    int beta = op->kind == CKCONV_CLAMP || op->kind == CKCONV_BILINEAR;
    if ((!alpha && !(op->alpha == 0)) || (!beta && !(op->beta == 0))) {
        int first = !alpha && !(op->alpha == 0);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s.%s is %g: must be 0, %s does not use it", at, name,
                         first ? "alpha" : "beta", first ? op->alpha : op->beta,
                         ckconv_element_name(op->kind));
    }
    if (op->kind == CKCONV_CLAMP && !(op->alpha <= op->beta)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s clamps to [%g, %g]: alpha must be <= beta", at, name,
                         op->alpha, op->beta);
    }
    return CKCONV_OK;
}

/* How many D tensors an epilogue takes. */
CKCI_FN void ckci_element_d_range(ckconv_element kind, int32_t *low, int32_t *high)
{
    *low = *high = 0;
    if (kind >= CKCONV_BILINEAR && kind <= CKCONV_BIAS_RELU) {
        *low = *high = 1;
    } else if (kind == CKCONV_BIAS_RESIDUAL_RELU) {
        *low = *high = 2;
    } else if (kind == CKCONV_ADD || kind == CKCONV_ADD_RELU) {
        *low = 1;
        *high = 4;
    }
}

CKCI_FN ckconv_status ckci_check_d(const char *at, int32_t num_d, const ckconv_element_op *op,
                                   const ckconv_tensor *d, int role, int32_t rank, ckconv_error *err)
{
    static const char *const names[4] = {"d[0]", "d[1]", "d[2]", "d[3]"};
    int32_t low, high;
    ckci_element_d_range(op->kind, &low, &high);
    if (num_d < low || num_d > high) {
        char range[32];
        snprintf(range, sizeof range, low == high ? "%d" : "%d to %d", (int)low, (int)high);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%snum_d is %d: the epilogue %s takes %s D tensor%s", at,
                         (int)num_d, ckconv_element_name(op->kind), range, high == 1 ? "" : "s");
    }
    for (int32_t i = 0; i < 4; i++) {
        if (i < num_d) {
            CKCI_TRY(ckci_check_tensor(at, names[i], &d[i], role, rank, 1, err));
            continue;
        }
        ckconv_tensor zero;
        memset(&zero, 0, sizeof zero);
        if (memcmp(&zero, &d[i], sizeof zero) != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s is filled, but num_d is %d: must be all zero",
                             at, names[i], (int)num_d);
        }
    }
    return CKCONV_OK;
}

CKCI_FN void ckci_default_tensor(ckconv_tensor *t, ckconv_dtype dtype, ckconv_layout layout)
{
    if (t->dtype == 0) {
        t->dtype = dtype;
    }
    if (t->layout == 0) {
        t->layout = layout;
    }
}

/* out's type and layout are in's where they are left open. Strides of another shape cannot be: then its
   layout stays 0, which is refused. */
CKCI_FN void ckci_default_out(const ckconv_tensor *in, ckconv_tensor *out)
{
    ckci_default_tensor(out, in->dtype, in->layout == CKCONV_STRIDED ? 0 : in->layout);
}

CKCI_FN ckconv_status ckci_need_out_layout(const char *at, const ckconv_tensor *out, ckconv_error *err)
{
    return out->layout != 0
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_ARGUMENT,
                           "%sout.layout is 0 (as in), but in is CKCONV_STRIDED: must be given", at);
}

CKCI_FN ckconv_dtype ckci_default_compute(ckconv_dtype compute, ckconv_dtype storage, ckconv_dtype in)
{
    if (compute != 0) {
        return compute;
    }
    return storage == CKCONV_F32 && in == CKCONV_BF16 ? (ckconv_dtype)CKCONV_BF16 : storage;
}

/* Defaults of a convolution's sizes. */
CKCI_FN void ckci_default_sizes(ckconv_conv_desc *d)
{
    if (d->g == 0) {
        d->g = 1;
    }
    for (int32_t i = 0; i < 3; i++) {
        if (i >= d->ndim) {
            d->filter[i] = d->input[i] = d->stride[i] = d->dilation[i] = d->pad_lo[i] = d->pad_hi[i] = 0;
            continue;
        }
        if (d->stride[i] == 0) {
            d->stride[i] = 1;
        }
        if (d->dilation[i] == 0) {
            d->dilation[i] = 1;
        }
    }
}

/* All defaults of a convolution. A D tensor without a type or layout takes those of the written tensor;
   strided tensors give their strides along. */
CKCI_FN void ckci_default_conv(ckconv_conv_desc *d, ckconv_op op)
{
    ckci_default_sizes(d);
    ckci_default_tensor(&d->in, CKCONV_F32, CKCONV_NHWGC);
    ckci_default_tensor(&d->wei, d->in.dtype, CKCONV_GKYXC);
    ckci_default_out(&d->in, &d->out);
    int w = ckci_written(op);
    const ckconv_tensor *written = w == CKCI_IN ? &d->in : w == CKCI_WEI ? &d->wei : &d->out;
    for (int32_t i = 0; i < 4 && i < d->num_d; i++) {
        ckconv_tensor *t = &d->d[i];
        if (t->layout == 0 && written->layout == CKCONV_STRIDED) {
            memcpy(t->stride, written->stride, sizeof t->stride);
        }
        ckci_default_tensor(t, written->dtype, written->layout);
    }
    d->compute_in = ckci_default_compute(d->compute_in, d->in.dtype, d->in.dtype);
    d->compute_wei = ckci_default_compute(d->compute_wei, d->wei.dtype, d->in.dtype);
    d->compute_out = ckci_default_compute(d->compute_out, d->out.dtype, d->in.dtype);
}

/* The rows of the type table (>>types). read[i], written: CKCI_IN, CKCI_WEI, CKCI_OUT. */
CKCI_FN ckconv_status ckci_check_types(const char *at, const char *sfx, const ckconv_conv_desc *d,
                                       ckconv_op op, ckconv_error *err)
{
    static const char *const names[3] = {"compute_in", "compute_wei", "compute_out"};
    ckconv_dtype in = d->in.dtype, wei = d->wei.dtype, out = d->out.dtype;
    ckconv_dtype storage[3], compute[3];
    storage[0] = in;
    storage[1] = wei;
    storage[2] = out;
    compute[0] = d->compute_in;
    compute[1] = d->compute_wei;
    compute[2] = d->compute_out;
    int w = ckci_written(op);
    int r0 = w == CKCI_IN ? CKCI_WEI : CKCI_IN, r1 = w == CKCI_OUT ? CKCI_WEI : CKCI_OUT;
    int i8 = storage[r0] == CKCONV_I8 && storage[r1] == CKCONV_I8 &&
             (storage[w] == CKCONV_I8 || storage[w] == CKCONV_I32);
    int fp8 = ckci_is_fp8(in) && ckci_is_fp8(wei) &&
              (ckci_is_fp8(out) || out == CKCONV_F16 || out == CKCONV_BF16 || out == CKCONV_F32);
    int same = in == out && (wei == in || (in == CKCONV_BF16 && wei == CKCONV_F32)) && in <= CKCONV_BF16;
    if (!i8 && !fp8 && !same) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "%sin, wei%s, out have types %s, %s, %s: not a row of the type table for %s (all "
                         "alike, bf16 with f32 "
                         "wei, fp8 with f16, bf16 or f32 out, or i8 with the result in i8 or i32)",
                         at, sfx, ckconv_dtype_name(in), ckconv_dtype_name(wei), ckconv_dtype_name(out),
                         ckconv_op_name(op));
    }
    for (int i = 0; i < 3; i++) {
        ckconv_dtype c = compute[i];
        if (c < CKCONV_F64 || c > CKCONV_BF16X3 || c == CKCONV_I32) {
            if (i == w && c == storage[i]) {
                continue;
            }
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "%s%s%s is %d: must be a compute type, 0 to 9, 11 or 12", at, names[i],
                             i == CKCI_WEI ? sfx : "", (int)c);
        }
        CKCI_TRY(ckci_check_switches(c, err));
        if (i == w) {
            continue;
        }
        int fits = c == storage[i];
        fits |= in == CKCONV_F32 && (c == CKCONV_TF32 || c == CKCONV_BF16 || c == CKCONV_BF16X3);
        fits |= in == CKCONV_F16 && ckci_is_fp8(c);
        if (in == CKCONV_BF16) {
            fits = c == CKCONV_BF16;
        }
        if (!fits) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s%s is %s: %s tensors do not compute in it", at,
                             names[i], i == CKCI_WEI ? sfx : "", ckconv_dtype_name(c),
                             ckconv_dtype_name(storage[i]));
        }
    }
    if (in == CKCONV_F32 && compute[r0] != compute[r1]) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "%s%s is %s and %s%s%s is %s: f32 tensors need the same on both", at, names[r0],
                         ckconv_dtype_name(compute[r0]), at, names[r1], r1 == CKCI_WEI ? sfx : "",
                         ckconv_dtype_name(compute[r1]));
    }
    return CKCONV_OK;
}

/* Output size of one dimension; 0 or less when the filter does not fit. Operands are at most 2^62. */
CKCI_FN ckconv_status ckci_check_output(const char *at, const char *sfx, const ckconv_conv_desc *d, int i,
                                        int64_t *out, ckconv_error *err)
{
    int64_t reach = d->filter[i] - 1;
    int64_t padded = d->input[i];
    if (!ckci_mul(&reach, d->dilation[i]) || d->pad_lo[i] > CKCI_MAX_BYTES - padded ||
        d->pad_hi[i] > CKCI_MAX_BYTES - padded - d->pad_lo[i]) {
        return ckci_fail(
            err, CKCONV_ERR_OVERFLOW,
            "%sfilter%s[%d] is %lld, dilation %lld, input %lld, pads %lld, %lld: together past 2^62", at, sfx,
            i, CKCI_LL(d->filter[i]), CKCI_LL(d->dilation[i]), CKCI_LL(d->input[i]), CKCI_LL(d->pad_lo[i]),
            CKCI_LL(d->pad_hi[i]));
    }
    padded += d->pad_lo[i] + d->pad_hi[i];
    if (padded < reach + 1) {
        return ckci_fail(
            err, CKCONV_ERR_ARGUMENT,
            "%sfilter%s[%d] spans %lld with its dilation, but the padded input is %lld: no output", at, sfx,
            i, CKCI_LL(reach + 1), CKCI_LL(padded));
    }
    *out = (padded - reach - 1) / d->stride[i] + 1;
    return CKCONV_OK;
}

/* A convolution in its final form, always 3D. t: in, wei, out; d in the written tensor's logical order. */
typedef struct ckci_conv {
    ckconv_op op;
    int32_t num_d;
    int64_t g, n, k, c;
    int64_t filter[3], input[3], output[3], stride[3], dilation[3], pad[3];
    ckci_tensor t[3];
    ckci_tensor d[4];
} ckci_conv;

CKCI_FN ckconv_status ckci_check_ndim(const char *at, int32_t ndim, ckconv_error *err)
{
    return ndim >= 1 && ndim <= 3
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_ARGUMENT, "%sndim is %d: must be 1, 2 or 3", at, (int)ndim);
}

/* The sizes of a convolution that has its defaults. */
CKCI_FN ckconv_status ckci_check_sizes(const char *at, const char *sfx, const ckconv_conv_desc *d,
                                       ckconv_error *err)
{
    CKCI_TRY(ckci_check_range(at, "g", sfx, -1, d->g, 1, "1 or more (0 means 1)", err));
    CKCI_TRY(ckci_check_range(at, "n", "", -1, d->n, 0, "0 or more", err));
    CKCI_TRY(ckci_check_range(at, "k", sfx, -1, d->k, 1, "1 or more output channels per group", err));
    CKCI_TRY(ckci_check_range(at, "c", "", -1, d->c, 1, "1 or more input channels per group", err));
    for (int i = 0; i < d->ndim; i++) {
        CKCI_TRY(ckci_check_range(at, "filter", sfx, i, d->filter[i], 1, "1 or more", err));
        CKCI_TRY(ckci_check_range(at, "input", "", i, d->input[i], 1, "1 or more", err));
        CKCI_TRY(ckci_check_range(at, "stride", sfx, i, d->stride[i], 1, "1 or more (0 means 1)", err));
        CKCI_TRY(ckci_check_range(at, "dilation", sfx, i, d->dilation[i], 1, "1 or more (0 means 1)", err));
        CKCI_TRY(ckci_check_range(at, "pad_lo", sfx, i, d->pad_lo[i], 0, "0 or more", err));
        CKCI_TRY(ckci_check_range(at, "pad_hi", sfx, i, d->pad_hi[i], 0, "0 or more", err));
    }
    return CKCONV_OK;
}

/* Everything that can be wrong with a convolution; d is a copy and comes back with its defaults. at and sfx
   make the member names of texts: "conv0." before those of a pair's first convolution, "1" after those of its
   second. */
CKCI_FN ckconv_status ckci_check_conv(const char *at, const char *sfx, ckconv_op op, ckconv_conv_desc *d,
                                      ckci_conv *r, ckconv_error *err)
{
    if (op != CKCONV_FWD && op != CKCONV_BWD_DATA && op != CKCONV_BWD_WEIGHT) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "op is %d: must be CKCONV_FWD (1), CKCONV_BWD_DATA (2) or CKCONV_BWD_WEIGHT (3)",
                         (int)op);
    }
    CKCI_TRY(ckci_check_ndim(at, d->ndim, err));
    if (d->num_d < 0 || d->num_d > 4) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%snum_d is %d: must be 0 to 4 (uninitialised struct?)",
                         at, (int)d->num_d);
    }
    if (d->reserved != 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%sreserved is %d: must be 0 (uninitialised struct?)", at,
                         (int)d->reserved);
    }
    ckci_default_conv(d, op);
    CKCI_TRY(ckci_check_sizes(at, sfx, d, err));
    int w = ckci_written(op);
    int32_t rank = 3 + d->ndim;
    CKCI_TRY(ckci_check_tensor(at, "in", &d->in, CKCI_ROLE_ACTIVATION, rank, 0, err));
    const char *wei = sfx[0] ? "wei1" : "wei";
    CKCI_TRY(ckci_check_tensor(at, wei, &d->wei, CKCI_ROLE_WEIGHT, rank, 0, err));
    CKCI_TRY(ckci_need_out_layout(at, &d->out, err));
    CKCI_TRY(ckci_check_tensor(at, "out", &d->out, CKCI_ROLE_ACTIVATION, rank, 0, err));
    CKCI_TRY(ckci_check_types(at, sfx, d, op, err));
    CKCI_TRY(ckci_check_element(at, "op_in", &d->op_in, w == CKCI_IN, err));
    CKCI_TRY(ckci_check_element(at, sfx[0] ? "op_wei1" : "op_wei", &d->op_wei, w == CKCI_WEI, err));
    CKCI_TRY(ckci_check_element(at, "op_out", &d->op_out, w == CKCI_OUT, err));
    const ckconv_element_op *epilogue = w == CKCI_IN ? &d->op_in : w == CKCI_WEI ? &d->op_wei : &d->op_out;
    int role = w == CKCI_WEI ? CKCI_ROLE_WEIGHT : CKCI_ROLE_ACTIVATION;
    CKCI_TRY(ckci_check_d(at, d->num_d, epilogue, d->d, role, rank, err));

    memset(r, 0, sizeof *r);
    r->op = op;
    r->num_d = d->num_d;
    r->g = d->g;
    r->n = d->n;
    r->k = d->k;
    r->c = d->c;
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - d->ndim);
        r->filter[i] = r->input[i] = r->output[i] = r->stride[i] = r->dilation[i] = 1;
        if (from >= 0) {
            CKCI_TRY(ckci_check_output(at, sfx, d, from, &r->output[i], err));
            r->filter[i] = d->filter[from];
            r->input[i] = d->input[from];
            r->stride[i] = d->stride[from];
            r->dilation[i] = d->dilation[from];
            r->pad[i] = d->pad_lo[from];
            if (r->filter[i] == 1) {
                r->dilation[i] = 1; /* both have no effect then, and may be huge */
            }
            if (r->output[i] == 1) {
                r->stride[i] = ckci_min(r->stride[i], d->input[from] + d->pad_lo[from] + d->pad_hi[from] + 1);
            }
        }
    }
    int64_t len[3][6];
    for (int i = 0; i < 3; i++) {
        len[0][3 + i] = r->input[i];
        len[1][3 + i] = r->filter[i];
        len[2][3 + i] = r->output[i];
        len[i][0] = r->g;
        len[i][1] = i == CKCI_WEI ? r->k : r->n;
        len[i][2] = i == CKCI_OUT ? r->k : r->c;
    }
    CKCI_TRY(ckci_resolve(at, "in", &d->in, d->ndim, len[0], w == CKCI_IN, &r->t[0], err));
    CKCI_TRY(ckci_resolve(at, wei, &d->wei, d->ndim, len[1], w == CKCI_WEI, &r->t[1], err));
    CKCI_TRY(ckci_resolve(at, "out", &d->out, d->ndim, len[2], w == CKCI_OUT, &r->t[2], err));
    r->t[0].op = d->op_in;
    r->t[1].op = d->op_wei;
    r->t[2].op = d->op_out;
    r->t[0].compute = d->compute_in;
    r->t[1].compute = d->compute_wei;
    r->t[2].compute = d->compute_out;
    for (int i = 0; i < 3; i++) {
        r->t[i].plain = r->t[i].op.kind == CKCONV_PASS && r->t[i].compute == r->t[i].dtype;
    }
    for (int i = 0; i < d->num_d; i++) {
        char name[8] = "d[0]";
        name[2] = (char)('0' + i);
        CKCI_TRY(ckci_resolve(at, name, &d->d[i], d->ndim, len[w], 0, &r->d[i], err));
    }
    return CKCONV_OK;
}

/* The second convolution of a pair, as a convolution of its own whose input is mid. */
CKCI_FN ckconv_status ckci_second_conv(const ckconv_conv_conv_desc *d, const ckci_conv *first,
                                       ckconv_conv_desc *second, ckconv_error *err)
{
    int32_t ndim = d->conv0.ndim;
    int64_t channels = first->g * first->k; /* fits: wei0 was checked */
    int64_t g1 = d->g1 == 0 ? 1 : d->g1;
    if (g1 < 1 || channels % g1 != 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "g1 is %lld: must divide the %lld channels of conv0",
                         CKCI_LL(g1), CKCI_LL(channels));
    }
    memset(second, 0, sizeof *second);
    second->ndim = ndim;
    second->num_d = d->num_d;
    second->g = g1;
    second->n = first->n;
    second->k = d->k1;
    second->c = channels / g1;
    for (int i = 0; i < ndim; i++) {
        second->filter[i] = d->filter1[i] == 0 ? 1 : d->filter1[i];
        second->input[i] = first->output[3 - ndim + i];
        second->stride[i] = d->stride1[i];
        second->dilation[i] = d->dilation1[i];
        second->pad_lo[i] = d->pad_lo1[i];
        second->pad_hi[i] = d->pad_hi1[i];
    }
    second->in.dtype = d->conv0.in.dtype;
    second->wei = d->wei1;
    second->out = d->out;
    ckci_default_out(&d->conv0.in, &second->out);
    CKCI_TRY(ckci_need_out_layout("", &second->out, err));
    if (second->wei.dtype == 0) {
        second->wei.dtype = d->conv0.wei.dtype;
    }
    second->compute_in = d->conv0.compute_in;
    int like = d->compute_wei1 == 0 && second->wei.dtype == d->conv0.wei.dtype;
    second->compute_wei = like ? d->conv0.compute_wei : d->compute_wei1;
    second->op_wei = d->op_wei1;
    second->op_out = d->op_out;
    memcpy(second->d, d->d, sizeof second->d);
    return CKCONV_OK;
}

/* Both stages of a pair. first writes mid, second reads it. */
typedef struct ckci_conv_conv {
    ckci_conv first, second;
} ckci_conv_conv;

CKCI_FN ckconv_status ckci_check_conv_conv(ckconv_conv_conv_desc *d, ckci_conv_conv *r, ckconv_error *err)
{
#ifdef CKCONV_NO_CONV_CONV
    return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                     "conv_conv_fwd was left out of this build by CKCONV_NO_CONV_CONV");
#endif
    ckconv_conv_desc *c0 = &d->conv0;
    if (c0->num_d != 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "conv0.num_d is %d: must be 0, D tensors belong to the pair's out", (int)c0->num_d);
    }
    if (c0->op_out.kind >= CKCONV_BILINEAR && c0->op_out.kind <= CKCONV_ADD_RELU) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "conv0.op_out.kind is %s: must be 0 to 6, D tensors belong to the pair's out",
                         ckconv_element_name(c0->op_out.kind));
    }
    ckconv_dtype in = c0->in.dtype == 0 ? (ckconv_dtype)CKCONV_F32 : c0->in.dtype;
    if (c0->out.dtype != 0 && c0->out.dtype != in) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "conv0.out.dtype is %d: mid has the type of in (%d), leave it 0", (int)c0->out.dtype,
                         (int)in);
    }
    CKCI_TRY(ckci_check_conv("conv0.", "", CKCONV_FWD, c0, &r->first, err));
    ckconv_conv_desc second;
    CKCI_TRY(ckci_second_conv(d, &r->first, &second, err));
    for (int i = 0; i < d->conv0.ndim; i++) {
        CKCI_TRY(ckci_check_range("", "filter1", "", i, second.filter[i], 1, "1 or more (0 means 1)", err));
    }
    CKCI_TRY(ckci_check_range("", "k1", "", -1, second.k, 1, "1 or more output channels per group", err));
    CKCI_TRY(ckci_check_conv("", "1", CKCONV_FWD, &second, &r->second, err));
    d->g1 = second.g;
    memcpy(d->filter1, second.filter, sizeof d->filter1);
    memcpy(d->stride1, second.stride, sizeof d->stride1);
    memcpy(d->dilation1, second.dilation, sizeof d->dilation1);
    memcpy(d->pad_lo1, second.pad_lo, sizeof d->pad_lo1);
    memcpy(d->pad_hi1, second.pad_hi, sizeof d->pad_hi1);
    d->wei1 = second.wei;
    d->out = second.out;
    d->compute_wei1 = second.compute_wei;
    memcpy(d->d, second.d, sizeof d->d);
    return CKCONV_OK;
}

/* A group norm in its final form. */
typedef struct ckci_groupnorm {
    ckconv_op op;
    ckconv_element act;
    ckconv_dtype param, stat;
    int64_t g, n, c, space;
    double eps;
    ckci_tensor in, out, din;
} ckci_groupnorm;

CKCI_FN ckconv_status ckci_check_groupnorm(ckconv_op op, ckconv_groupnorm_desc *d, ckci_groupnorm *r,
                                           ckconv_error *err)
{
#ifdef CKCONV_NO_GROUPNORM
    return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                     "group norms were left out of this build by CKCONV_NO_GROUPNORM");
#endif
    if (op != CKCONV_GROUPNORM_FWD && op != CKCONV_GROUPNORM_BWD) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "op is %d: must be CKCONV_GROUPNORM_FWD (5) or CKCONV_GROUPNORM_BWD (6)", (int)op);
    }
    if (d->ndim < 1 || d->ndim > 3) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "ndim is %d: must be 1, 2 or 3", (int)d->ndim);
    }
    for (int i = 0; i < 3; i++) {
        if (d->reserved[i] != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "reserved[%d] is %d: must be 0 (uninitialised struct?)", i, (int)d->reserved[i]);
        }
    }
    d->g = d->g == 0 ? 1 : d->g;
    ckci_default_tensor(&d->in, CKCONV_F32, CKCONV_NHWGC);
    ckconv_tensor *like[2];
    like[0] = &d->out;
    like[1] = &d->din;
    for (int i = 0; i < 2; i++) {
        if (like[i]->layout == 0 && d->in.layout == CKCONV_STRIDED) {
            memcpy(like[i]->stride, d->in.stride, sizeof d->in.stride);
        }
        ckci_default_tensor(like[i], d->in.dtype, d->in.layout);
    }
    d->param_dtype = d->param_dtype == 0 ? d->in.dtype : d->param_dtype;
    CKCI_TRY(ckci_check_range("", "g", "", -1, d->g, 1, "1 or more groups (0 means 1)", err));
    CKCI_TRY(ckci_check_range("", "n", "", -1, d->n, 0, "0 or more", err));
    CKCI_TRY(ckci_check_range("", "c", "", -1, d->c, 1,
                              "1 or more channels per group (gamma has g*c entries)", err));
    int64_t len[6];
    len[0] = d->g;
    len[1] = d->n;
    len[2] = d->c;
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - d->ndim);
        len[3 + i] = 1;
        if (from >= 0) {
            CKCI_TRY(ckci_check_range("", "input", "", from, d->input[from], 1, "1 or more", err));
            len[3 + i] = d->input[from];
        }
        if (i >= d->ndim) {
            d->input[i] = 0;
        }
    }
    if (!(d->eps > 0) || !(d->eps < 1e300)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "eps is %g: must be above 0 and finite (PyTorch's default is 1e-5)", d->eps);
    }
    if (d->act != CKCONV_PASS && d->act != CKCONV_SIGMOID && d->act != CKCONV_SILU) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "act is %d: must be CKCONV_PASS (0), CKCONV_SIGMOID (4) or CKCONV_SILU (5)",
                         (int)d->act);
    }
    int32_t rank = 3 + d->ndim;
    CKCI_TRY(ckci_check_tensor("", "in", &d->in, CKCI_ROLE_ACTIVATION, rank, 0, err));
    CKCI_TRY(ckci_check_tensor("", "out", &d->out, CKCI_ROLE_ACTIVATION, rank, 0, err));
    CKCI_TRY(ckci_check_tensor("", "din", &d->din, CKCI_ROLE_ACTIVATION, rank, 0, err));
    static const char *const names[4] = {"in.dtype", "out.dtype", "din.dtype", "param_dtype"};
    ckconv_dtype types[4];
    types[0] = d->in.dtype;
    types[1] = d->out.dtype;
    types[2] = d->din.dtype;
    types[3] = d->param_dtype;
    for (int i = 0; i < 4; i++) {
        int wide = types[0] == CKCONV_F64;
        if (types[i] < CKCONV_F64 || types[i] > CKCONV_BF16 || (types[i] == CKCONV_F64) != wide) {
            return ckci_fail(
                err, CKCONV_ERR_ARGUMENT,
                "%s is %d: must be CKCONV_F32, _F16 or _BF16 (2, 3, 4), or all four CKCONV_F64 (1)", names[i],
                (int)types[i]);
        }
    }
    memset(r, 0, sizeof *r);
    r->op = op;
    r->act = d->act;
    r->param = d->param_dtype;
    r->stat = d->in.dtype == CKCONV_F64 ? (ckconv_dtype)CKCONV_F64 : (ckconv_dtype)CKCONV_F32;
    r->g = d->g;
    r->n = d->n;
    r->c = d->c;
    r->eps = d->eps;
    CKCI_TRY(ckci_resolve("", "in", &d->in, d->ndim, len, 0, &r->in, err));
    CKCI_TRY(ckci_resolve("", "out", &d->out, d->ndim, len, op == CKCONV_GROUPNORM_FWD, &r->out, err));
    CKCI_TRY(ckci_resolve("", "din", &d->din, d->ndim, len, op == CKCONV_GROUPNORM_BWD, &r->din, err));
    r->in.plain = r->out.plain = r->din.plain = 1;
    r->in.compute = r->in.dtype;
    r->out.compute = r->out.dtype;
    r->space = len[3] * len[4] * len[5];
    return CKCONV_OK;
}


/*------------------------------------------------------------------------------------------------------------
  >>layout
  Spans, offsets, coordinate maps, and runs of elements: the two functions through which engines read and
  write memory, whatever the type, stride and element operation.
*/
CKCI_FN int64_t ckci_count(const ckci_tensor *t)
{
    return t->len[0] * t->len[1] * t->len[2] * t->len[3] * t->len[4] * t->len[5];
}

/* Bytes from the first element to past the last one. */
CKCI_FN int64_t ckci_span(const ckci_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < 6; i++) {
        if (t->len[i] == 0) {
            return 0;
        }
        last += (t->len[i] - 1) * t->stride[i];
    }
    return (last + 1) * (int64_t)ckci_size(t->dtype);
}

/* Where one dimension of the tensor that is read lies for a dimension of the tensor that is written,
   restricted to written positions write0 + q*write_step, q < count, which all use the taps tap0 + j*tap_step,
   j < taps: read position = q*read_step + read0 + j*read_tap. Positions outside [0, read_len) are padding.
   fwd is one phase, and bwd_weight walks the same map; bwd_data has one phase for each input position modulo
   the stride. */
typedef struct ckci_axis {
    int64_t count, write0, write_step;
    int64_t taps, tap0, tap_step;
    int64_t read_step, read0, read_tap, read_len;
} ckci_axis;

CKCI_FN ckci_axis ckci_map_axis(const ckci_conv *p, int dim, int64_t phase)
{
    ckci_axis a;
    int64_t s = p->stride[dim], d = p->dilation[dim], pad = p->pad[dim];
    if (p->op != CKCONV_BWD_DATA) {
        a.count = p->output[dim];
        a.write0 = 0;
        a.write_step = 1;
        a.taps = p->filter[dim];
        a.tap0 = 0;
        a.tap_step = 1;
        a.read_step = s;
        a.read0 = -pad;
        a.read_tap = d;
        a.read_len = p->input[dim];
        return a;
    }
    /* out = (in + pad - tap*d) / s must be whole: taps t with t*d = in + pad (mod s) */
    int64_t period = s / ckci_gcd(s, d);
    int64_t tap = 0;
    while (tap < period && tap < p->filter[dim] && ckci_mod(phase + pad - tap * d, s) != 0) {
        tap++;
    }
    a.count = phase < p->input[dim] ? (p->input[dim] - phase - 1) / s + 1 : 0;
    a.write0 = phase;
    a.write_step = s;
    a.tap0 = tap;
    a.tap_step = period;
    a.taps = tap < period && tap < p->filter[dim] ? (p->filter[dim] - tap - 1) / period + 1 : 0;
    a.read_step = 1;
    a.read0 = a.taps ? (phase + pad - tap * d) / s : 0;
    a.read_tap = -(d / ckci_gcd(s, d));
    a.read_len = p->output[dim];
    return a;
}

/* `n` values of a read tensor, `stride` elements apart from element `at` on: operation applied, rounded to
   the compute type. */
CKCI_FN void ckci_widen(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, float *dst)
{
    int64_t size = (int64_t)ckci_size(t->dtype);
    const unsigned char *p = t->p + at * size;
    if (t->dtype == CKCONV_F32 && stride == 1) {
        memcpy(dst, p, (size_t)n * 4);
    } else if (t->dtype == CKCONV_F32) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i, p + i * stride * 4, 4);
        }
    } else if (t->dtype == CKCONV_F16) {
        for (int64_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, p + i * stride * 2, 2);
            dst[i] = ckci_half_float(h);
        }
    } else if (t->dtype == CKCONV_BF16) {
        for (int64_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, p + i * stride * 2, 2);
            dst[i] = ckci_bf16_float(h);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            dst[i] = (float)ckci_load(t->dtype, p + i * stride * size);
        }
    }
}

CKCI_FN void ckci_read_f(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, void *out)
{
    float *dst = (float *)out;
    ckci_widen(t, at, stride, n, dst);
    if (t->plain) {
        return;
    }
    if (t->op.kind != CKCONV_PASS) {
        for (int64_t i = 0; i < n; i++) {
            dst[i] = ckci_element_f(&t->op, dst[i], NULL, 0);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        dst[i] = ckci_round_float(t->compute, dst[i]);
    }
}

CKCI_FN void ckci_read_d(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, void *out)
{
    double *dst = (double *)out;
    const unsigned char *p = t->p + at * 8;
    for (int64_t i = 0; i < n; i++) {
        memcpy(dst + i, p + i * stride * 8, 8);
        if (!t->plain) {
            dst[i] = ckci_element_d(&t->op, dst[i], NULL, 0);
        }
    }
}

CKCI_FN void ckci_read_i(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, void *out)
{
    int32_t *dst = (int32_t *)out;
    if (t->dtype == CKCONV_I32) { /* a tile of mid: int8 values already */
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i, t->p + (at + i * stride) * 4, 4);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int32_t x = t->p[at + i * stride];
        x = x < 128 ? x : x - 256;
        dst[i] = t->plain ? x : ckci_to_int((double)ckci_element_f(&t->op, (float)x, NULL, 0), -128, 127);
    }
}

/* The written tensor with all that its epilogue needs. */
typedef struct ckci_target {
    ckci_tensor t;
    int32_t num_d;
    const ckci_tensor *d;
    /* for mid only: acc * scale[channel] + shift[channel] before the operation, and rounding to a compute
       type */
    const unsigned char *scale, *shift;
    ckconv_dtype compute; /* 0: none */
} ckci_target;

CKCI_FN int64_t ckci_offset(const int64_t stride[6], const int64_t at[6])
{
    return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2] + at[3] * stride[3] + at[4] * stride[4] +
           at[5] * stride[5];
}

/* One finished value: scale, shift, operation and compute rounding in float; the caller stores it. */
CKCI_FN float ckci_finish_f(const ckci_target *o, float x, const float *d, int64_t channel)
{
    float f;
    if (o->scale) {
        memcpy(&f, o->scale + channel * 4, 4);
        x *= f;
    }
    if (o->shift) {
        memcpy(&f, o->shift + channel * 4, 4);
        x += f;
    }
    x = ckci_element_f(&o->t.op, x, d, o->num_d);
    return o->compute ? ckci_round_float(o->compute, x) : x;
}

CKCI_FN double ckci_finish_d(const ckci_target *o, double x, const double *d, int64_t channel)
{
    double f;
    if (o->scale) {
        memcpy(&f, o->scale + channel * 8, 8);
        x *= f;
    }
    if (o->shift) {
        memcpy(&f, o->shift + channel * 8, 8);
        x += f;
    }
    return ckci_element_d(&o->t.op, x, d, o->num_d);
}

/* The same for `n` <= CKCI_STRIP values in place, d[j]: the values of D tensor j. The additive epilogues of
   training go without a call for each value. */
enum { CKCI_STRIP = 64 };

CKCI_FN void ckci_finish_strip(const ckci_target *o, float *y, int64_t n, float d[4][CKCI_STRIP],
                               const int64_t at[6], int axis)
{
    ckconv_element kind = o->t.op.kind;
    int relu = kind == CKCONV_RELU || kind == CKCONV_BIAS_RELU || kind == CKCONV_BIAS_RESIDUAL_RELU ||
               kind == CKCONV_ADD_RELU;
    if (o->scale || o->shift || o->compute || !(relu || kind == CKCONV_BIAS || kind == CKCONV_ADD)) {
        for (int64_t i = 0; i < n; i++) {
            float e[4];
            for (int32_t j = 0; j < o->num_d; j++) {
                e[j] = d[j][i];
            }
            int64_t channel = at[0] * o->t.len[2] + at[2] + (axis == 2 ? i : axis == 0 ? i * o->t.len[2] : 0);
            y[i] = ckci_finish_f(o, y[i], e, channel);
        }
        return;
    }
    for (int32_t j = 0; j < o->num_d; j++) {
        for (int64_t i = 0; i < n; i++) {
            y[i] += d[j][i];
        }
    }
    for (int64_t i = 0; i < n && relu; i++) {
        y[i] = y[i] < 0 ? 0 : y[i];
    }
}

/* n floats to memory, `step` bytes apart, rounded to the storage type */
CKCI_FN void ckci_narrow(ckconv_dtype dtype, const float *y, int64_t n, unsigned char *p, int64_t step)
{
    for (int64_t i = 0; i < n; i++) {
        unsigned char *q = p + i * step;
        uint16_t h;
        if (dtype == CKCONV_F32) {
            memcpy(q, &y[i], 4);
        } else if (dtype == CKCONV_F16) {
            h = ckci_float_half(y[i]);
            memcpy(q, &h, 2);
        } else if (dtype == CKCONV_BF16) {
            h = ckci_float_bf16(y[i]);
            memcpy(q, &h, 2);
        } else {
            ckci_store(dtype, q, (double)y[i]);
        }
    }
}

/* Write n results along `axis` (0, 1, 2: a group or channel; 5: x) from logical position at[]. src:
   accumulators. */
CKCI_FN void ckci_write_f(const ckci_target *o, const int64_t at[6], int axis, int64_t n, const void *src)
{
    const float *x = (const float *)src;
    int64_t size = (int64_t)ckci_size(o->t.dtype), stride = o->t.stride[axis];
    unsigned char *p = o->t.p + ckci_offset(o->t.stride, at) * size;
    int bare = o->t.op.kind == CKCONV_PASS && !o->scale && !o->shift && !o->compute;
    if (bare && o->t.dtype == CKCONV_F32 && stride == 1) {
        memcpy(p, x, (size_t)n * 4);
        return;
    }
    if (bare) {
        ckci_narrow(o->t.dtype, x, n, p, stride * size);
        return;
    }
    int64_t here[6];
    memcpy(here, at, sizeof here);
    for (int64_t i = 0; i < n; i += CKCI_STRIP) {
        float y[CKCI_STRIP], d[4][CKCI_STRIP];
        int64_t run = ckci_min(CKCI_STRIP, n - i);
        memcpy(y, x + i, (size_t)run * 4);
        here[axis] = at[axis] + i;
        for (int32_t j = 0; j < o->num_d; j++) {
            ckci_widen(&o->d[j], ckci_offset(o->d[j].stride, here), o->d[j].stride[axis], run, d[j]);
        }
        ckci_finish_strip(o, y, run, d, here, axis);
        ckci_narrow(o->t.dtype, y, run, p + i * stride * size, stride * size);
    }
}

CKCI_FN void ckci_write_d(const ckci_target *o, const int64_t at[6], int axis, int64_t n, const void *src)
{
    const double *x = (const double *)src;
    unsigned char *p = o->t.p + ckci_offset(o->t.stride, at) * 8;
    for (int64_t i = 0; i < n; i++) {
        double d[4];
        for (int32_t j = 0; j < o->num_d; j++) {
            const ckci_tensor *e = &o->d[j];
            int64_t place = ckci_offset(e->stride, at) + i * e->stride[axis];
            d[j] = ckci_load(e->dtype, e->p + place * (int64_t)ckci_size(e->dtype));
        }
        int64_t channel = at[0] * o->t.len[2] + at[2] + (axis == 2 ? i : axis == 0 ? i * o->t.len[2] : 0);
        double y = ckci_finish_d(o, x[i], d, channel);
        memcpy(p + i * o->t.stride[axis] * 8, &y, 8);
    }
}

/* int32 sums: exact without an operation; with one, float, then round and saturate. */
CKCI_FN void ckci_write_i(const ckci_target *o, const int64_t at[6], int axis, int64_t n, const void *src)
{
    const int32_t *x = (const int32_t *)src;
    int64_t size = (int64_t)ckci_size(o->t.dtype);
    unsigned char *p = o->t.p + ckci_offset(o->t.stride, at) * size;
    int bare = o->t.op.kind == CKCONV_PASS && !o->scale && !o->shift;
    for (int64_t i = 0; i < n; i++) {
        double y = (double)x[i];
        if (!bare) {
            float d[4];
            for (int32_t j = 0; j < o->num_d; j++) {
                const ckci_tensor *e = &o->d[j];
                int64_t place = ckci_offset(e->stride, at) + i * e->stride[axis];
                d[j] = (float)ckci_load(e->dtype, e->p + place * (int64_t)ckci_size(e->dtype));
            }
            int64_t channel = at[0] * o->t.len[2] + at[2] + (axis == 2 ? i : axis == 0 ? i * o->t.len[2] : 0);
            y = (double)ckci_finish_f(o, (float)x[i], d, channel);
        }
        if (o->compute == CKCONV_I8) {
            y = (double)ckci_to_int(y, -128, 127);
        }
        ckci_store(o->t.dtype, p + i * o->t.stride[axis] * size, y);
    }
}

/* How a problem's values are held between memory and arithmetic: float, double, or int32 for i8. */
typedef struct ckci_kind {
    int64_t size;
    ckconv_dtype dtype; /* CKCONV_F32, CKCONV_F64 or CKCONV_I32 */
    void (*read)(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, void *out);
    void (*write)(const ckci_target *o, const int64_t at[6], int axis, int64_t n, const void *src);
} ckci_kind;

CKCI_FN const ckci_kind *ckci_find_kind(ckconv_dtype dtype)
{
    static const ckci_kind f = {4, CKCONV_F32, ckci_read_f, ckci_write_f};
    static const ckci_kind d = {8, CKCONV_F64, ckci_read_d, ckci_write_d};
    static const ckci_kind i = {4, CKCONV_I32, ckci_read_i, ckci_write_i};
    return dtype == CKCONV_F64 ? &d : dtype == CKCONV_I8 || dtype == CKCONV_I32 ? &i : &f;
}


/*------------------------------------------------------------------------------------------------------------
  >>ref
  Naive loops straight from the definitions, double sums (int64 for i8, kept modulo 2^32 as int32 hardware
  does). One work item computes all positions of one channel of one batch entry, or of one filter.
*/

/* count work items on at most `threads` threads, each with `bytes` of scratch: of memory, or a block of
   CKCI_STACK bytes on the stack when memory is NULL, or none when bytes is 0. The only place that knows
   OpenMP. Items may run in any order and on any thread, so an item owns all that it writes. A thread begins
   with a share of its own, the same one in every call, since its caches hold what it wrote or read last time;
   then it helps with the others. */
typedef void (*ckci_item)(const void *context, int64_t item, unsigned char *scratch);

CKCI_FN void ckci_run_on_stack(ckci_item run, const void *context, int64_t item)
{
    union {
        unsigned char bytes[CKCI_STACK];
        double align;
    } block;
    run(context, item, block.bytes);
}

CKCI_FN void ckci_run_item(ckci_item run, const void *context, int64_t item, unsigned char *memory,
                           int64_t bytes, int thread)
{
    if (bytes == 0) {
        run(context, item, NULL);
    } else if (memory) {
        run(context, item, memory + bytes * thread);
    } else {
        ckci_run_on_stack(run, context, item);
    }
}

/* Shares at most; threads beyond that begin in another's. They cost 4 KiB of stack. */
enum { CKCI_SHARES = 64 };

/* Where share i of `shares` begins */
CKCI_FN int64_t ckci_share(int64_t count, int32_t shares, int32_t i)
{
    return count / shares * i + ckci_min(i, count % shares);
}

CKCI_FN void ckci_parallel(int32_t threads, int64_t count, ckci_item run, const void *context,
                           unsigned char *memory, int64_t bytes)
{
#if defined(_OPENMP) && _OPENMP >= 201107
    if (threads > 1 && count > 1) {
        int64_t next[CKCI_SHARES][8]; /* no two in a cache line */
        int32_t team = count < threads ? (int32_t)count : threads;
        int32_t shares = team < CKCI_SHARES ? team : CKCI_SHARES;
        for (int32_t i = 0; i < shares; i++) {
            next[i][0] = ckci_share(count, shares, i);
        }
#pragma omp parallel num_threads(team)
        for (int32_t i = 0; i < shares; i++) {
            int32_t thread = omp_get_thread_num(), share = (thread + i) % shares;
            int64_t end = ckci_share(count, shares, share + 1), item;
            for (;;) {
#pragma omp atomic capture
                item = next[share][0]++;
                if (item >= end) {
                    break;
                }
                ckci_run_item(run, context, item, memory, bytes, thread);
            }
        }
        return;
    }
#endif
    (void)threads;
    for (int64_t item = 0; item < count; item++) {
        ckci_run_item(run, context, item, memory, bytes, 0);
    }
}

CKCI_FN double ckci_ref_value(const ckci_tensor *t, int64_t a, int64_t b, int64_t c, int64_t z, int64_t y,
                              int64_t x)
{
    int64_t at = a * t->stride[0] + b * t->stride[1] + c * t->stride[2] + z * t->stride[3] +
                 y * t->stride[4] + x * t->stride[5];
    double v = ckci_load(t->dtype, t->p + at * (int64_t)ckci_size(t->dtype));
    if (t->plain) {
        return v;
    }
    if (t->dtype == CKCONV_F64) {
        return ckci_element_d(&t->op, v, NULL, 0);
    }
    float f = ckci_element_f(&t->op, (float)v, NULL, 0);
    return t->compute == CKCONV_I8 ? (double)ckci_to_int((double)f, -128, 127)
                                   : (double)ckci_round_float(t->compute, f);
}

typedef struct ckci_ref_job {
    const ckci_conv *p;
    ckci_target target;
} ckci_ref_job;

/* A product as a whole number; only i8 sums need it, and only there it is one. */
CKCI_FN int64_t ckci_whole(double product, int i8)
{
    return i8 ? (int64_t)product : 0;
}

/* sum over taps and input channels for out[g,n,k,o] */
CKCI_FN double ckci_ref_fwd(const ckci_conv *p, int64_t g, int64_t n, int64_t k, const int64_t o[3],
                            int64_t *whole)
{
    double sum = 0;
    int i8 = p->t[CKCI_WEI].compute == CKCONV_I8;
    for (int64_t fz = 0; fz < p->filter[0]; fz++) {
        int64_t z = o[0] * p->stride[0] + fz * p->dilation[0] - p->pad[0];
        for (int64_t fy = 0; fy < p->filter[1] && z >= 0 && z < p->input[0]; fy++) {
            int64_t y = o[1] * p->stride[1] + fy * p->dilation[1] - p->pad[1];
            for (int64_t fx = 0; fx < p->filter[2] && y >= 0 && y < p->input[1]; fx++) {
                int64_t x = o[2] * p->stride[2] + fx * p->dilation[2] - p->pad[2];
                for (int64_t c = 0; c < p->c && x >= 0 && x < p->input[2]; c++) {
                    double product = ckci_ref_value(&p->t[CKCI_IN], g, n, c, z, y, x) *
                                     ckci_ref_value(&p->t[CKCI_WEI], g, k, c, fz, fy, fx);
                    sum += product;
                    *whole += ckci_whole(product, i8);
                }
            }
        }
    }
    return sum;
}

/* sum over those taps and output channels that input position i takes part in: i + pad = o*stride +
   f*dilation */
CKCI_FN int ckci_ref_source(const ckci_conv *p, int dim, int64_t i, int64_t f, int64_t *o)
{
    int64_t t = i + p->pad[dim] - f * p->dilation[dim];
    *o = t / p->stride[dim];
    return t >= 0 && t % p->stride[dim] == 0 && *o < p->output[dim];
}

CKCI_FN double ckci_ref_bwd_data(const ckci_conv *p, int64_t g, int64_t n, int64_t c, const int64_t i[3],
                                 int64_t *whole)
{
    double sum = 0;
    int i8 = p->t[CKCI_WEI].compute == CKCONV_I8;
    int64_t z, y, x;
    for (int64_t fz = 0; fz < p->filter[0]; fz++) {
        int has_z = ckci_ref_source(p, 0, i[0], fz, &z);
        for (int64_t fy = 0; fy < p->filter[1] && has_z; fy++) {
            int has_y = ckci_ref_source(p, 1, i[1], fy, &y);
            for (int64_t fx = 0; fx < p->filter[2] && has_y; fx++) {
                int has_x = ckci_ref_source(p, 2, i[2], fx, &x);
                for (int64_t k = 0; k < p->k && has_x; k++) {
                    double product = ckci_ref_value(&p->t[CKCI_OUT], g, n, k, z, y, x) *
                                     ckci_ref_value(&p->t[CKCI_WEI], g, k, c, fz, fy, fx);
                    sum += product;
                    *whole += ckci_whole(product, i8);
                }
            }
        }
    }
    return sum;
}

/* sum over batch and output positions for wei[g,k,c,f] */
CKCI_FN double ckci_ref_bwd_weight(const ckci_conv *p, int64_t g, int64_t k, int64_t c, const int64_t f[3],
                                   int64_t *whole)
{
    double sum = 0;
    int i8 = p->t[CKCI_IN].compute == CKCONV_I8;
    for (int64_t n = 0; n < p->n; n++) {
        for (int64_t oz = 0; oz < p->output[0]; oz++) {
            int64_t z = oz * p->stride[0] + f[0] * p->dilation[0] - p->pad[0];
            for (int64_t oy = 0; oy < p->output[1] && z >= 0 && z < p->input[0]; oy++) {
                int64_t y = oy * p->stride[1] + f[1] * p->dilation[1] - p->pad[1];
                for (int64_t ox = 0; ox < p->output[2] && y >= 0 && y < p->input[1]; ox++) {
                    int64_t x = ox * p->stride[2] + f[2] * p->dilation[2] - p->pad[2];
                    if (x >= 0 && x < p->input[2]) {
                        double product = ckci_ref_value(&p->t[CKCI_IN], g, n, c, z, y, x) *
                                         ckci_ref_value(&p->t[CKCI_OUT], g, n, k, oz, oy, ox);
                        sum += product;
                        *whole += ckci_whole(product, i8);
                    }
                }
            }
        }
    }
    return sum;
}

/* int64 -> int32 modulo 2^32 */
CKCI_FN int32_t ckci_wrap(int64_t x)
{
    uint32_t u = (uint32_t)((uint64_t)x & 0xffffffffu);
    int32_t i;
    memcpy(&i, &u, 4);
    return i;
}

/* Hand one finished sum to the epilogue. */
CKCI_FN void ckci_ref_write(const ckci_target *o, const int64_t at[6], double sum, int64_t whole,
                            ckconv_dtype compute)
{
    float f = (float)sum;
    int32_t i = ckci_wrap(whole);
    if (compute == CKCONV_F64) {
        ckci_write_d(o, at, 2, 1, &sum);
    } else if (compute == CKCONV_I8) {
        ckci_write_i(o, at, 2, 1, &i);
    } else {
        ckci_write_f(o, at, 2, 1, &f);
    }
}

CKCI_FN void ckci_ref_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_ref_job *job = (const ckci_ref_job *)context;
    const ckci_conv *p = job->p;
    const int64_t *len = job->target.t.len;
    ckconv_dtype compute = p->t[p->op == CKCONV_BWD_DATA ? CKCI_OUT : CKCI_IN].compute;
    int64_t at[6];
    at[2] = item % len[2];
    at[1] = item / len[2] % len[1];
    at[0] = item / len[2] / len[1];
    (void)scratch;
    for (at[3] = 0; at[3] < len[3]; at[3]++) {
        for (at[4] = 0; at[4] < len[4]; at[4]++) {
            for (at[5] = 0; at[5] < len[5]; at[5]++) {
                int64_t whole = 0;
                double sum = p->op == CKCONV_FWD ? ckci_ref_fwd(p, at[0], at[1], at[2], at + 3, &whole)
                             : p->op == CKCONV_BWD_DATA
                                 ? ckci_ref_bwd_data(p, at[0], at[1], at[2], at + 3, &whole)
                                 : ckci_ref_bwd_weight(p, at[0], at[1], at[2], at + 3, &whole);
                ckci_ref_write(&job->target, at, sum, whole, compute);
            }
        }
    }
}

CKCI_FN ckci_target ckci_make_target(const ckci_conv *p)
{
    ckci_target o;
    memset(&o, 0, sizeof o);
    o.t = p->t[ckci_written(p->op)];
    o.num_d = p->num_d;
    o.d = p->d;
    return o;
}

CKCI_FN void ckci_ref_conv(const ckci_conv *p, int32_t threads)
{
    ckci_ref_job job;
    job.p = p;
    job.target = ckci_make_target(p);
    const int64_t *len = job.target.t.len;
    ckci_parallel(threads, len[0] * len[1] * len[2], ckci_ref_item, &job, NULL, 0);
}

/* The pair without workspace: mid is computed where it is needed, CKCI_REF_MID channels at a time, for
   CKCI_REF_OUT output channels at a time. A work item owns one output position, in all channels. */
enum { CKCI_REF_MID = 2048, CKCI_REF_OUT = 1024 };

typedef struct ckci_ref_pair {
    const ckci_conv *first, *second;
    ckci_target mid, out; /* mid: scale, shift, operation and rounding */
} ckci_ref_pair;

/* mid at one position, channel g*k+... of conv0, finished and rounded to the compute type */
CKCI_FN double ckci_ref_mid(const ckci_ref_pair *job, int64_t n, int64_t channel, const int64_t o[3])
{
    const ckci_conv *p = job->first;
    int64_t whole = 0;
    double sum = ckci_ref_fwd(p, channel / p->k, n, channel % p->k, o, &whole);
    ckconv_dtype compute = p->t[CKCI_IN].compute;
    if (compute == CKCONV_F64) {
        return ckci_finish_d(&job->mid, sum, NULL, channel);
    }
    if (compute != CKCONV_I8) {
        return (double)ckci_finish_f(&job->mid, (float)sum, NULL, channel);
    }
    int bare = job->mid.t.op.kind == CKCONV_PASS && !job->mid.scale && !job->mid.shift;
    int32_t i = ckci_wrap(whole);
    return (double)ckci_to_int(bare ? (double)i : (double)ckci_finish_f(&job->mid, (float)i, NULL, channel),
                               -128, 127);
}

/* Add the products of mid channels [c0, c0 + count) of tap f to the sums of output channels [k0, k0 +
   outs). */
CKCI_FN void ckci_ref_pair_tap(const ckci_ref_pair *job, int64_t g1, int64_t c0, int64_t count,
                               const double *mid, int64_t k0, int64_t outs, const int64_t f[3], double *sum,
                               int64_t *whole)
{
    for (int64_t k = 0; k < outs; k++) {
        for (int64_t c = 0; c < count; c++) {
            double product =
                mid[c] * ckci_ref_value(&job->second->t[CKCI_WEI], g1, k0 + k, c0 + c, f[0], f[1], f[2]);
            sum[k] += product;
            whole[k] += job->first->t[CKCI_IN].compute == CKCONV_I8 ? (int64_t)product : 0;
        }
    }
}

CKCI_FN void ckci_ref_pair_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_ref_pair *job = (const ckci_ref_pair *)context;
    const ckci_conv *p = job->second;
    double *mid = (double *)(void *)scratch, *sum = mid + CKCI_REF_MID;
    int64_t *whole = (int64_t *)(void *)(sum + CKCI_REF_OUT);
    int64_t at[6], f[3], o[3];
    at[5] = item % p->output[2];
    at[4] = item / p->output[2] % p->output[1];
    at[3] = item / p->output[2] / p->output[1] % p->output[0];
    at[1] = item / p->output[2] / p->output[1] / p->output[0];
    for (int64_t q = 0; q < p->g * p->k; q += ckci_min(CKCI_REF_OUT, p->k - q % p->k)) {
        int64_t outs = ckci_min(CKCI_REF_OUT, p->k - q % p->k);
        at[0] = q / p->k;
        memset(sum, 0, CKCI_REF_OUT * sizeof sum[0]);
        memset(whole, 0, CKCI_REF_OUT * sizeof whole[0]);
        for (int64_t tap = 0; tap < p->filter[0] * p->filter[1] * p->filter[2]; tap++) {
            f[2] = tap % p->filter[2];
            f[1] = tap / p->filter[2] % p->filter[1];
            f[0] = tap / p->filter[2] / p->filter[1];
            int inside = 1;
            for (int i = 0; i < 3; i++) {
                o[i] = at[3 + i] * p->stride[i] + f[i] * p->dilation[i] - p->pad[i];
                inside = inside && o[i] >= 0 && o[i] < p->input[i];
            }
            for (int64_t c0 = 0; c0 < p->c && inside; c0 += CKCI_REF_MID) {
                int64_t count = ckci_min(CKCI_REF_MID, p->c - c0);
                for (int64_t c = 0; c < count; c++) {
                    mid[c] = ckci_ref_mid(job, at[1], at[0] * p->c + c0 + c, o);
                }
                ckci_ref_pair_tap(job, at[0], c0, count, mid, q % p->k, outs, f, sum, whole);
            }
        }
        for (int64_t k = 0; k < outs; k++) {
            at[2] = q % p->k + k;
            ckci_ref_write(&job->out, at, sum[k], whole[k], job->first->t[CKCI_IN].compute);
        }
    }
}

/* The copy of mid that the caller asked for: one work item per position. */
CKCI_FN void ckci_ref_mid_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_ref_pair *job = (const ckci_ref_pair *)context;
    const ckci_conv *p = job->first;
    const ckci_tensor *t = &p->t[CKCI_OUT];
    int64_t at[6];
    (void)scratch;
    at[5] = item % p->output[2];
    at[4] = item / p->output[2] % p->output[1];
    at[3] = item / p->output[2] / p->output[1] % p->output[0];
    at[1] = item / p->output[2] / p->output[1] / p->output[0];
    for (int64_t channel = 0; channel < p->g * p->k; channel++) {
        at[0] = channel / p->k;
        at[2] = channel % p->k;
        ckci_store(t->dtype, t->p + ckci_offset(t->stride, at) * (int64_t)ckci_size(t->dtype),
                   ckci_ref_mid(job, at[1], channel, at + 3));
    }
}

CKCI_FN ckci_ref_pair ckci_make_ref_pair(const ckci_conv_conv *p, const ckconv_args *args)
{
    ckci_ref_pair job;
    memset(&job, 0, sizeof job);
    job.first = &p->first;
    job.second = &p->second;
    job.mid = ckci_make_target(&p->first);
    job.mid.scale = (const unsigned char *)args->scale;
    job.mid.shift = (const unsigned char *)args->shift;
    job.mid.compute = p->first.t[CKCI_IN].compute;
    job.out = ckci_make_target(&p->second);
    return job;
}

CKCI_FN void ckci_ref_conv_conv(const ckci_conv_conv *p, const ckconv_args *args, int32_t threads)
{
    ckci_ref_pair job = ckci_make_ref_pair(p, args);
    const ckci_conv *a = &p->first, *b = &p->second;
    ckci_parallel(threads, b->n * b->output[0] * b->output[1] * b->output[2], ckci_ref_pair_item, &job, NULL,
                  CKCI_STACK);
    if (args->mid) {
        ckci_parallel(threads, a->n * a->output[0] * a->output[1] * a->output[2], ckci_ref_mid_item, &job,
                      NULL, 0);
    }
}

/* Group norm: one work item per (n, g) for y, statistics and dx; one per channel for dgamma and dbeta. */
typedef struct ckci_norm_job {
    const ckci_groupnorm *p;
    const ckconv_args *args;
} ckci_norm_job;

CKCI_FN double ckci_param(const ckci_groupnorm *p, const void *vector, int64_t channel, double missing)
{
    return vector
               ? ckci_load(p->param, (const unsigned char *)vector + channel * (int64_t)ckci_size(p->param))
               : missing;
}

/* A sum, and what rounding took from it (Neumaier): a plain one of many f64 numbers would be less exact than
   the engines that it judges. */
typedef struct ckci_ref_sum {
    double sum, lost;
} ckci_ref_sum;

CKCI_FN void ckci_ref_add(ckci_ref_sum *s, double v)
{
    int larger = fabs(s->sum) >= fabs(v);
    double a = larger ? s->sum : v, b = larger ? v : s->sum, next = ckci_as_written(a + b);
    s->lost += ckci_as_written(ckci_as_written(a - next) + b);
    s->sum = next;
}

CKCI_FN double ckci_ref_total(const ckci_ref_sum *s)
{
    double total = s->sum + s->lost;
    return ckci_is_nan(total) ? s->sum : total; /* an infinite one loses NaN */
}

/* A mean, high + low: a double alone may be as far from a mean as values that differ little are. */
typedef struct ckci_mean {
    double high, low;
} ckci_mean;

CKCI_INLINE double ckci_less_mean(double x, const ckci_mean *mean)
{
    return (x - mean->high) - mean->low;
}

/* mean + more, which is the larger one only where the mean is a first guess */
CKCI_FN ckci_mean ckci_add_to_mean(const ckci_mean *mean, double more)
{
    ckci_mean sum;
    more += mean->low;
    sum.high = ckci_as_written(mean->high + more);
    sum.low = ckci_as_written(mean->high - sum.high) + more;
    return sum;
}

/* A saved mean is rounded to the type of statistics, f32 but for f64: xhat is off by up to half a unit of the
   mean times inv_std. Up to 8 that is a few units of xhat; beyond, engines compute the mean again. (No sum of
   the backward pass could mend it with an activation, in which xhat stands before the sums are known.) */
CKCI_FN int ckci_coarse_mean(double mean, double inv_std)
{
    return fabs(mean) * inv_std > 8;
}

/* Mean and inverse standard deviation of (n, g), in two passes over values less a guess of the mean, at first
   one of them: equal values have that mean exactly. A saved deviation is taken; a saved mean is not, since it
   is rounded. */
CKCI_FN void ckci_ref_statistics(const ckci_norm_job *job, int64_t n, int64_t g, ckci_mean *mean,
                                 double *inv_std)
{
    const ckci_groupnorm *p = job->p;
    const ckci_tensor *t = &p->in;
    int64_t entry = (n * p->g + g) * (int64_t)ckci_size(p->stat);
    double count = (double)p->c * (double)p->space, variance = 0;
    mean->high = ckci_ref_value(t, g, n, 0, 0, 0, 0);
    mean->low = 0;
    for (int pass = 0; pass < 2; pass++) {
        ckci_ref_sum sum = {0, 0}, square = {0, 0};
        for (int64_t z = 0; z < t->len[3]; z++) {
            for (int64_t y = 0; y < t->len[4]; y++) {
                for (int64_t x = 0; x < t->len[5]; x++) {
                    for (int64_t c = 0; c < p->c; c++) {
                        double v = ckci_less_mean(ckci_ref_value(t, g, n, c, z, y, x), mean);
                        ckci_ref_add(&sum, v);
                        ckci_ref_add(&square, v * v);
                    }
                }
            }
        }
        double more = ckci_ref_total(&sum) / count;
        *mean = ckci_add_to_mean(mean, more);
        variance = ckci_ref_total(&square) / count - more * more;
    }
    if (p->op == CKCONV_GROUPNORM_BWD && job->args->saved_mean) {
        *inv_std = ckci_load(p->stat, (const unsigned char *)job->args->saved_inv_std + entry);
    } else {
        *inv_std = 1 / sqrt((variance < 0 ? 0 : variance) + p->eps);
    }
}

/* d act(v) / d v */
CKCI_FN double ckci_act_slope(ckconv_element act, double v)
{
    double s = 1 / (1 + exp(-v));
    return act == CKCONV_SILU ? s * (1 + v * (1 - s)) : act == CKCONV_SIGMOID ? s * (1 - s) : 1;
}

/* xhat, and dy with the activation undone, at one position */
CKCI_FN double ckci_ref_gradient(const ckci_norm_job *job, const int64_t at[6], const ckci_mean *mean,
                                 double inv_std, double *xhat)
{
    const ckci_groupnorm *p = job->p;
    int64_t channel = at[0] * p->c + at[2];
    double x = ckci_ref_value(&p->in, at[0], at[1], at[2], at[3], at[4], at[5]);
    *xhat = ckci_less_mean(x, mean) * inv_std;
    double dy = ckci_ref_value(&p->out, at[0], at[1], at[2], at[3], at[4], at[5]);
    if (p->act != CKCONV_PASS) {
        double v =
            *xhat * ckci_param(p, job->args->gamma, channel, 1) + ckci_param(p, job->args->beta, channel, 0);
        dy *= ckci_act_slope(p->act, v);
    }
    return dy;
}

CKCI_FN void ckci_ref_norm_fwd_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_job *job = (const ckci_norm_job *)context;
    const ckci_groupnorm *p = job->p;
    const ckci_tensor *t = &p->out;
    int64_t at[6];
    ckci_mean mean;
    double inv_std;
    ckconv_element_op act;
    memset(&act, 0, sizeof act);
    act.kind = p->act;
    (void)scratch;
    at[0] = item % p->g;
    at[1] = item / p->g;
    ckci_ref_statistics(job, at[1], at[0], &mean, &inv_std);
    int64_t entry = item * (int64_t)ckci_size(p->stat);
    if (job->args->mean) {
        ckci_store(p->stat, (unsigned char *)job->args->mean + entry, mean.high + mean.low);
    }
    if (job->args->inv_std) {
        ckci_store(p->stat, (unsigned char *)job->args->inv_std + entry, inv_std);
    }
    for (at[3] = 0; at[3] < t->len[3]; at[3]++) {
        for (at[4] = 0; at[4] < t->len[4]; at[4]++) {
            for (at[5] = 0; at[5] < t->len[5]; at[5]++) {
                for (at[2] = 0; at[2] < p->c; at[2]++) {
                    double x = ckci_ref_value(&p->in, at[0], at[1], at[2], at[3], at[4], at[5]);
                    int64_t channel = at[0] * p->c + at[2];
                    double v = ckci_less_mean(x, &mean) * inv_std *
                                   ckci_param(p, job->args->gamma, channel, 1) +
                               ckci_param(p, job->args->beta, channel, 0);
                    ckci_store(t->dtype, t->p + ckci_offset(t->stride, at) * (int64_t)ckci_size(t->dtype),
                               ckci_element_d(&act, v, NULL, 0));
                }
            }
        }
    }
}

CKCI_FN void ckci_ref_norm_din_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_job *job = (const ckci_norm_job *)context;
    const ckci_groupnorm *p = job->p;
    const ckci_tensor *t = &p->din;
    int64_t at[6];
    ckci_mean mean;
    double inv_std, xhat, count = (double)p->c * (double)p->space;
    ckci_ref_sum a = {0, 0}, b = {0, 0};
    (void)scratch;
    at[0] = item % p->g;
    at[1] = item / p->g;
    ckci_ref_statistics(job, at[1], at[0], &mean, &inv_std);
    for (int pass = 0; pass < 2; pass++) {
        double mean_a = ckci_ref_total(&a) / count, mean_b = ckci_ref_total(&b) / count;
        for (at[3] = 0; at[3] < t->len[3]; at[3]++) {
            for (at[4] = 0; at[4] < t->len[4]; at[4]++) {
                for (at[5] = 0; at[5] < t->len[5]; at[5]++) {
                    for (at[2] = 0; at[2] < p->c; at[2]++) {
                        double dy = ckci_ref_gradient(job, at, &mean, inv_std, &xhat);
                        dy *= ckci_param(p, job->args->gamma, at[0] * p->c + at[2], 1);
                        if (pass == 0) {
                            ckci_ref_add(&a, dy);
                            ckci_ref_add(&b, dy * xhat);
                        } else {
                            ckci_store(t->dtype,
                                       t->p + ckci_offset(t->stride, at) * (int64_t)ckci_size(t->dtype),
                                       inv_std * (dy - mean_a - xhat * mean_b));
                        }
                    }
                }
            }
        }
    }
}

CKCI_FN void ckci_ref_norm_param_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_job *job = (const ckci_norm_job *)context;
    const ckci_groupnorm *p = job->p;
    const ckci_tensor *t = &p->in;
    int64_t at[6], size = (int64_t)ckci_size(p->param);
    ckci_mean mean;
    double inv_std, xhat;
    ckci_ref_sum dgamma = {0, 0}, dbeta = {0, 0};
    (void)scratch;
    at[0] = item / p->c;
    at[2] = item % p->c;
    for (at[1] = 0; at[1] < p->n; at[1]++) {
        ckci_ref_statistics(job, at[1], at[0], &mean, &inv_std);
        for (at[3] = 0; at[3] < t->len[3]; at[3]++) {
            for (at[4] = 0; at[4] < t->len[4]; at[4]++) {
                for (at[5] = 0; at[5] < t->len[5]; at[5]++) {
                    double dy = ckci_ref_gradient(job, at, &mean, inv_std, &xhat);
                    ckci_ref_add(&dgamma, dy * xhat);
                    ckci_ref_add(&dbeta, dy);
                }
            }
        }
    }
    if (job->args->dgamma) {
        ckci_store(p->param, (unsigned char *)job->args->dgamma + item * size, ckci_ref_total(&dgamma));
    }
    if (job->args->dbeta) {
        ckci_store(p->param, (unsigned char *)job->args->dbeta + item * size, ckci_ref_total(&dbeta));
    }
}

CKCI_FN void ckci_ref_groupnorm(const ckci_groupnorm *p, const ckconv_args *args, int32_t threads)
{
    ckci_norm_job job;
    job.p = p;
    job.args = args;
    if (p->op == CKCONV_GROUPNORM_FWD) {
        ckci_parallel(threads, p->n * p->g, ckci_ref_norm_fwd_item, &job, NULL, 0);
        return;
    }
    if (args->din) {
        ckci_parallel(threads, p->n * p->g, ckci_ref_norm_din_item, &job, NULL, 0);
    }
    if (args->dgamma || args->dbeta) {
        ckci_parallel(threads, p->g * p->c, ckci_ref_norm_param_item, &job, NULL, 0);
    }
}


/*------------------------------------------------------------------------------------------------------------
  >>cpu
  The fast host engine is a file of its own, for its length; here stands what it shares with the planner.
*/
/* What plan.tune keeps: the caller's options, from which everything else follows again. */
enum { CKCI_TUNE_LIMIT = 0, CKCI_TUNE_SPLIT = 1, CKCI_TUNE_FLAGS = 2 };
/* And what a pair of convolutions on a GPU needs: the instances of both; in a scratch plan of the first one,
   that it writes mid. */
enum { CKCI_TUNE_FIRST = 3, CKCI_TUNE_SECOND = 4, CKCI_TUNE_MID = 5 };
/* Group norm on a GPU: blocks that keep a slab in their LDS; 0: it is not kept. */
enum { CKCI_TUNE_KEPT = 6 };

typedef union ckci_problem {
    ckci_conv conv;
    ckci_conv_conv pair;
    ckci_groupnorm norm;
} ckci_problem;

/* A question to an instance: does it fit, at what cost (vector multiply-adds), with which plan members? */
typedef struct ckci_fit {
    ckconv_plan *plan;
    const ckci_problem *p;
    ckconv_family family;
    int32_t features;
    ckconv_dtype kind; /* GPU: type of the instance's sums, 0: any */
    int32_t tile;      /* GPU: rows and columns of a block, 0: not a tile kernel */
    int64_t limit;     /* workspace */
    int32_t split_k;   /* forced, or 0 */
    double cost;
} ckci_fit;

/* The workspace limit that a plan was made under, less what aligning the caller's pointer may take. */
enum { CKCI_ALIGN = 64 };

CKCI_FN int64_t ckci_plan_limit(const ckconv_plan *plan)
{
    int64_t limit = plan->tune[CKCI_TUNE_LIMIT];
    return limit == 0 ? CKCI_MAX_BYTES : ckci_max(limit - CKCI_ALIGN, 0);
}

/* Refuses what needs more than the limit. Texts count what the caller of a plan would have to allow;
   ckci_select adds what he does allow. */
CKCI_FN ckconv_status ckci_over_limit(const char *what, int64_t bytes, ckconv_error *err)
{
    return ckci_fail(err, CKCONV_ERR_WORKSPACE, "%s: %lld bytes of workspace are needed", what,
                     CKCI_LL(ckci_saturating_add(bytes, CKCI_ALIGN)));
}

CKCI_FN ckconv_status ckci_sums_fit(int32_t split_k, int64_t bytes, int64_t limit, ckconv_error *err)
{
    char what[64];
    if (bytes <= limit) {
        return CKCONV_OK;
    }
    snprintf(what, sizeof what, "split_k is %d, sums of its parts", (int)split_k);
    return ckci_over_limit(what, bytes, err);
}

/* What a finished plan has got of it: a run may not take more, whatever the alignment of its pointers. */
CKCI_FN int64_t ckci_run_limit(const ckconv_plan *plan)
{
    return ckci_max(plan->workspace_bytes - CKCI_ALIGN, 0);
}

#include "ckconv.cpu.h" /* CKCONV-SINGLE: copy it with ckconv.h */


/*------------------------------------------------------------------------------------------------------------
  >>gpu
  The GPU engine's host half is a file of its own, for its length.
*/
#include "ckconv.gpu.h" /* CKCONV-SINGLE: copy it with ckconv.h */


/*------------------------------------------------------------------------------------------------------------
  >>plan
  Pure selection: description + device facts + options -> instance, block sizes, workspace. Each instance says
  whether it fits and what it would cost; the cheapest one wins.
*/

CKCI_FN ckconv_status ckci_no_gpu(const char *what, ckconv_error *err);
CKCI_FN ckconv_status ckci_default_device(ckconv_device *device, ckconv_error *err);

/* The one table of instances: name (its place is the index), engine, family, operation (0: all), CPU features
   it needs, rows and columns of its register tile and lanes of a vector for f32, does it fit, run it. */
#define CKCI_CPU_ROWS(X, ISA, FEATURES, TM, TN, VL)                                                          \
    X(cpu_gemm_fwd_##ISA, CPU, SINGLE_STAGE, FWD, FEATURES, TM, TN, VL, ckci_fit_gather, ckci_run_gather)    \
    X(cpu_gemm_bwd_data_##ISA, CPU, SINGLE_STAGE, BWD_DATA, FEATURES, TM, TN, VL, ckci_fit_gather,           \
      ckci_run_gather)                                                                                       \
    X(cpu_gemm_bwd_weight_##ISA, CPU, SINGLE_STAGE, BWD_WEIGHT, FEATURES, TM, TN, VL, ckci_fit_weight,       \
      ckci_run_weight)                                                                                       \
    X(cpu_gemm_bwd_weight_split_##ISA, CPU, TWO_STAGE, BWD_WEIGHT, FEATURES, TM, TN, VL, ckci_fit_weight,    \
      ckci_run_weight)                                                                                       \
    X(cpu_direct_fwd_##ISA, CPU, DIRECT, FWD, FEATURES, 14, VL, VL, ckci_fit_direct, ckci_run_direct)        \
    X(cpu_direct_bwd_data_##ISA, CPU, DIRECT, BWD_DATA, FEATURES, 14, VL, VL, ckci_fit_direct,               \
      ckci_run_direct)                                                                                       \
    X(cpu_direct_bwd_weight_##ISA, CPU, DIRECT, BWD_WEIGHT, FEATURES, 9, VL, VL, ckci_fit_direct_weight,     \
      ckci_run_direct_weight)                                                                                \
    X(cpu_fused_conv_conv_##ISA, CPU, FUSED, CONV_CONV_FWD, FEATURES, TM, TN, VL, ckci_fit_pair,             \
      ckci_run_pair)                                                                                         \
    X(cpu_unfused_conv_conv_##ISA, CPU, UNFUSED, CONV_CONV_FWD, FEATURES, TM, TN, VL, ckci_fit_pair,         \
      ckci_run_pair)

#define CKCI_INSTANCES(X)                                                                                    \
    X(ref, REF, REF, ALL, 0, 1, 1, 1, ckci_fit_ref, ckci_run_ref)                                            \
    CKCI_CPU_ROWS(X, portable, 0, 4, 8, 4)                                                                   \
    CKCI_CPU_ROWS(X, avx2, CKCONV_CPU_AVX2, 6, 16, 8)                                                        \
    CKCI_CPU_ROWS(X, avx512, CKCONV_CPU_AVX512, 14, 32, 16)                                                  \
    X(cpu_gemm_fwd_avx512_bf16, CPU, SINGLE_STAGE, FWD, CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 14, 32,  \
      16, ckci_fit_pairs, ckci_run_pairs)                                                                    \
    X(cpu_gemm_bwd_data_avx512_bf16, CPU, SINGLE_STAGE, BWD_DATA,                                            \
      CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 14, 32, 16, ckci_fit_pairs, ckci_run_pairs)                \
    X(cpu_direct_fwd_avx512_bf16, CPU, DIRECT, FWD, CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 14, 16, 16,  \
      ckci_fit_pairs, ckci_run_pairs)                                                                        \
    X(cpu_direct_bwd_data_avx512_bf16, CPU, DIRECT, BWD_DATA, CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16,    \
      14, 16, 16, ckci_fit_pairs, ckci_run_pairs)                                                            \
    X(cpu_gemm_bwd_weight_avx512_bf16, CPU, SINGLE_STAGE, BWD_WEIGHT,                                        \
      CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 8, 48, 16, ckci_fit_weight, ckci_run_weight)               \
    X(cpu_gemm_bwd_weight_split_avx512_bf16, CPU, TWO_STAGE, BWD_WEIGHT,                                     \
      CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 8, 48, 16, ckci_fit_weight, ckci_run_weight)               \
    X(cpu_fused_conv_conv_avx512_bf16, CPU, FUSED, CONV_CONV_FWD,                                            \
      CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 14, 32, 16, ckci_fit_pair, ckci_run_pair)                  \
    X(cpu_recompute_conv_conv, CPU, FUSED, CONV_CONV_FWD, 0, 1, 1, 1, ckci_fit_recompute,                    \
      ckci_run_recompute)                                                                                    \
    X(cpu_groupnorm_fwd, CPU, GROUPNORM, GROUPNORM_FWD, 0, 1, 1, 1, ckci_fit_norm, ckci_run_norm)            \
    X(cpu_groupnorm_bwd, CPU, GROUPNORM, GROUPNORM_BWD, 0, 1, 1, 1, ckci_fit_norm, ckci_run_norm)

/* GPU instances: name, family, operation, type of the sums (0: any), tile, does it fit, list the launches. */
#define CKCI_GPU_TILES(X, OP, LOW, FIT, LIST)                                                                \
    X(gpu_vector_##LOW##_f32_128, VECTOR, OP, CKCONV_F32, 128, FIT, LIST)                                    \
    X(gpu_vector_##LOW##_f32_64, VECTOR, OP, CKCONV_F32, 64, FIT, LIST)                                      \
    X(gpu_vector_##LOW##_f64_64, VECTOR, OP, CKCONV_F64, 64, FIT, LIST)                                      \
    X(gpu_vector_##LOW##_i32_64, VECTOR, OP, CKCONV_I32, 64, FIT, LIST)                                      \
    X(gpu_direct_##LOW##_f32, DIRECT, OP, CKCONV_F32, 0, FIT, LIST)                                          \
    X(gpu_direct_##LOW##_f64, DIRECT, OP, CKCONV_F64, 0, FIT, LIST)                                          \
    X(gpu_direct_##LOW##_i32, DIRECT, OP, CKCONV_I32, 0, FIT, LIST)

#define CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, OP, PASS, TILE, CODE, BODY)                                      \
    X(gpu_##LOW##_##PASS##_##TILE, FAMILY, OP, CKCONV_F32, CODE, ckci_fit_matrix_##BODY,                     \
      ckci_list_matrix_##BODY)

/* every matrix unit */
#define CKCI_GPU_MATRIX_TILES(X, FAMILY, LOW)                                                                \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 128x128, 128128, gather)                                   \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 64x64, 64064, gather)                                      \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 128x32, 128032, gather)                                    \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 128x128, 128128, gather)                         \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 64x64, 64064, gather)                            \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 128x32, 128032, gather)                          \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 128x128, 128128, weight)                     \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 64x64, 64064, weight)                        \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 32x128, 32128, weight)

/* i8 on every matrix unit */
#define CKCI_GPU_MATRIX_WHOLE(X, FAMILY, LOW)                                                                \
    X(gpu_##LOW##_fwd_i8_128x128, FAMILY, FWD, CKCONV_I32, 128128, ckci_fit_matrix_gather,                   \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_fwd_i8_64x64, FAMILY, FWD, CKCONV_I32, 64064, ckci_fit_matrix_gather,                      \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_bwd_data_i8_128x128, FAMILY, BWD_DATA, CKCONV_I32, 128128, ckci_fit_matrix_gather,         \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_bwd_data_i8_64x64, FAMILY, BWD_DATA, CKCONV_I32, 64064, ckci_fit_matrix_gather,            \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_bwd_weight_i8_128x128, FAMILY, BWD_WEIGHT, CKCONV_I32, 128128, ckci_fit_matrix_weight,     \
      ckci_list_matrix_weight)                                                                               \
    X(gpu_##LOW##_bwd_weight_i8_64x64, FAMILY, BWD_WEIGHT, CKCONV_I32, 64064, ckci_fit_matrix_weight,        \
      ckci_list_matrix_weight)

/* f32 and tf32 on CDNA, tf32 on NVIDIA */
#define CKCI_GPU_MATRIX_SINGLE(X, FAMILY, LOW, TYPE)                                                         \
    X(gpu_##LOW##_fwd_##TYPE##_128x128, FAMILY, FWD, CKCONV_F32, CKCI_SINGLE_TILE + 128128,                  \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_fwd_##TYPE##_64x64, FAMILY, FWD, CKCONV_F32, CKCI_SINGLE_TILE + 64064,                     \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_data_##TYPE##_128x128, FAMILY, BWD_DATA, CKCONV_F32, CKCI_SINGLE_TILE + 128128,        \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_data_##TYPE##_64x64, FAMILY, BWD_DATA, CKCONV_F32, CKCI_SINGLE_TILE + 64064,           \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_weight_##TYPE##_128x128, FAMILY, BWD_WEIGHT, CKCONV_F32, CKCI_SINGLE_TILE + 128128,    \
      ckci_fit_matrix_weight, ckci_list_matrix_weight)                                                       \
    X(gpu_##LOW##_bwd_weight_##TYPE##_64x64, FAMILY, BWD_WEIGHT, CKCONV_F32, CKCI_SINGLE_TILE + 64064,       \
      ckci_fit_matrix_weight, ckci_list_matrix_weight)

/* f64 on both */
#define CKCI_GPU_MATRIX_DOUBLE(X, FAMILY, LOW)                                                               \
    X(gpu_##LOW##_fwd_f64_128x64, FAMILY, FWD, CKCONV_F64, CKCI_DOUBLE_TILE + 128064,                        \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_data_f64_128x64, FAMILY, BWD_DATA, CKCONV_F64, CKCI_DOUBLE_TILE + 128064,              \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_weight_f64_128x64, FAMILY, BWD_WEIGHT, CKCONV_F64, CKCI_DOUBLE_TILE + 128064,          \
      ckci_fit_matrix_weight, ckci_list_matrix_weight)

/* small groups */
#define CKCI_GPU_MATRIX_NEAR(X, FAMILY, LOW)                                                                 \
    X(gpu_##LOW##_fwd_near, FAMILY, FWD, CKCONV_F32, 0, ckci_fit_matrix_gather, ckci_list_matrix_gather)     \
    X(gpu_##LOW##_bwd_data_near, FAMILY, BWD_DATA, CKCONV_F32, 0, ckci_fit_matrix_gather,                    \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_bwd_weight_near, FAMILY, BWD_WEIGHT, CKCONV_F32, 0, ckci_fit_matrix_weight,                \
      ckci_list_matrix_weight)

/* first layers */
#define CKCI_GPU_MATRIX_STEM(X, FAMILY, LOW)                                                                 \
    X(gpu_##LOW##_fwd_stem, FAMILY, FWD, CKCONV_F32, 0, ckci_fit_matrix_stem, ckci_list_matrix_stem)         \
    X(gpu_##LOW##_bwd_weight_stem, FAMILY, BWD_WEIGHT, CKCONV_F32, 0, ckci_fit_stem_weight,                  \
      ckci_list_stem_weight)                                                                                 \
    X(gpu_##LOW##_bwd_data_stem, FAMILY, BWD_DATA, CKCONV_F32, 0, ckci_fit_matrix_stem, ckci_list_matrix_stem)

/* where LDS holds larger tiles */
#define CKCI_GPU_MATRIX_LARGE(X, FAMILY, LOW)                                                                \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 256x128, 256128, gather)                                   \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 256x128, 256128, gather)                         \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 192x128, 192128, gather)                                   \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 512x64, 512064, gather)                                    \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 192x128, 192128, gather)                         \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 512x64, 512064, gather)                          \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 128x256, 128256, weight)                     \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 64x256, 64256, weight)                       \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 64x192, 64192, weight)                       \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 192x128, 192128, weight)

#define CKCI_GPU_FMA_TILES(X)                                                                                \
    X(gpu_tile_fwd_256x64, VECTOR, FWD, CKCONV_F32, 256064, ckci_fit_gpu_gather, ckci_list_gpu_gather)       \
    X(gpu_tile_fwd_64x64, VECTOR, FWD, CKCONV_F32, 64064, ckci_fit_gpu_gather, ckci_list_gpu_gather)         \
    X(gpu_tile_fwd_256x32, VECTOR, FWD, CKCONV_F32, 256032, ckci_fit_gpu_gather, ckci_list_gpu_gather)       \
    X(gpu_tile_fwd_128x16, VECTOR, FWD, CKCONV_F32, 128016, ckci_fit_gpu_gather, ckci_list_gpu_gather)       \
    X(gpu_tile_fwd_128x64_any, VECTOR, FWD, CKCONV_F32, 1128064, ckci_fit_gpu_gather, ckci_list_gpu_gather)  \
    X(gpu_tile_bwd_data_256x64, VECTOR, BWD_DATA, CKCONV_F32, 256064, ckci_fit_gpu_gather,                   \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_tile_bwd_data_64x64, VECTOR, BWD_DATA, CKCONV_F32, 64064, ckci_fit_gpu_gather,                     \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_tile_bwd_data_256x32, VECTOR, BWD_DATA, CKCONV_F32, 256032, ckci_fit_gpu_gather,                   \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_tile_bwd_data_128x16, VECTOR, BWD_DATA, CKCONV_F32, 128016, ckci_fit_gpu_gather,                   \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_tile_bwd_data_128x64_any, VECTOR, BWD_DATA, CKCONV_F32, 1128064, ckci_fit_gpu_gather,              \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_narrow_fwd, VECTOR, FWD, CKCONV_F32, 1, ckci_fit_gpu_gather, ckci_list_gpu_gather)                 \
    X(gpu_narrow_bwd_data, VECTOR, BWD_DATA, CKCONV_F32, 1, ckci_fit_gpu_gather, ckci_list_gpu_gather)       \
    X(gpu_grouped_fwd_4, VECTOR, FWD, CKCONV_F32, 4, ckci_fit_gpu_gather, ckci_list_gpu_gather)              \
    X(gpu_grouped_bwd_data_4, VECTOR, BWD_DATA, CKCONV_F32, 4, ckci_fit_gpu_gather, ckci_list_gpu_gather)    \
    X(gpu_tile_bwd_weight_128x128, VECTOR, BWD_WEIGHT, CKCONV_F32, 128128, ckci_fit_gpu_weight,              \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_48x128, VECTOR, BWD_WEIGHT, CKCONV_F32, 48128, ckci_fit_gpu_weight,                \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_64x64, VECTOR, BWD_WEIGHT, CKCONV_F32, 64064, ckci_fit_gpu_weight,                 \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_32x96, VECTOR, BWD_WEIGHT, CKCONV_F32, 32096, ckci_fit_gpu_weight,                 \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_16x48, VECTOR, BWD_WEIGHT, CKCONV_F32, 16048, ckci_fit_gpu_weight,                 \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_8x72, VECTOR, BWD_WEIGHT, CKCONV_F32, 8072, ckci_fit_gpu_weight,                   \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_4x36, VECTOR, BWD_WEIGHT, CKCONV_F32, 4036, ckci_fit_gpu_weight,                   \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_64x64_any, VECTOR, BWD_WEIGHT, CKCONV_F32, 1064064, ckci_fit_gpu_weight,           \
      ckci_list_gpu_weight)

#define CKCI_GPU_INSTANCES(X)                                                                                \
    CKCI_GPU_TILES(X, FWD, fwd, ckci_fit_gpu_gather, ckci_list_gpu_gather)                                   \
    X(gpu_vector_fwd_f32_32, VECTOR, FWD, CKCONV_F32, 32, ckci_fit_gpu_gather, ckci_list_gpu_gather)         \
    CKCI_GPU_TILES(X, BWD_DATA, bwd_data, ckci_fit_gpu_gather, ckci_list_gpu_gather)                         \
    X(gpu_vector_bwd_data_f32_32, VECTOR, BWD_DATA, CKCONV_F32, 32, ckci_fit_gpu_gather,                     \
      ckci_list_gpu_gather)                                                                                  \
    CKCI_GPU_TILES(X, BWD_WEIGHT, bwd_weight, ckci_fit_gpu_weight, ckci_list_gpu_weight)                     \
    CKCI_GPU_FMA_TILES(X)                                                                                    \
    X(gpu_depthwise_fwd, DIRECT, FWD, 0, 0, ckci_fit_depth_gather, ckci_list_depth_gather)                   \
    X(gpu_depthwise_bwd_data, DIRECT, BWD_DATA, 0, 0, ckci_fit_depth_gather, ckci_list_depth_gather)         \
    X(gpu_depthwise_bwd_weight, DIRECT, BWD_WEIGHT, 0, 0, ckci_fit_depth_weight, ckci_list_depth_weight)     \
    X(gpu_depthwise_matrix_fwd, DIRECT, FWD, 0, 1, ckci_fit_depth_gather, ckci_list_depth_gather)            \
    X(gpu_depthwise_matrix_bwd_data, DIRECT, BWD_DATA, 0, 1, ckci_fit_depth_gather, ckci_list_depth_gather)  \
    X(gpu_depthwise_matrix_bwd_weight, DIRECT, BWD_WEIGHT, 0, 1, ckci_fit_depth_weight,                      \
      ckci_list_depth_weight)                                                                                \
    CKCI_GPU_MATRIX_NEAR(X, MFMA, mfma)                                                                      \
    CKCI_GPU_MATRIX_STEM(X, MFMA, mfma)                                                                      \
    CKCI_GPU_MATRIX_TILES(X, MFMA, mfma)                                                                     \
    CKCI_GPU_MATRIX_WHOLE(X, MFMA, mfma)                                                                     \
    CKCI_GPU_MATRIX_SINGLE(X, MFMA, mfma, f32)                                                               \
    CKCI_GPU_MATRIX_DOUBLE(X, MFMA, mfma)                                                                    \
    CKCI_GPU_MATRIX_ROW(X, MFMA, mfma, FWD, fwd, 256x256, 256256, gather)                                    \
    CKCI_GPU_MATRIX_ROW(X, MFMA, mfma, BWD_DATA, bwd_data, 256x256, 256256, gather)                          \
    CKCI_GPU_MATRIX_NEAR(X, WMMA, wmma)                                                                      \
    CKCI_GPU_MATRIX_STEM(X, WMMA, wmma)                                                                      \
    CKCI_GPU_MATRIX_TILES(X, WMMA, wmma)                                                                     \
    CKCI_GPU_MATRIX_WHOLE(X, WMMA, wmma)                                                                     \
    CKCI_GPU_MATRIX_NEAR(X, MMA, mma)                                                                        \
    CKCI_GPU_MATRIX_STEM(X, MMA, mma)                                                                        \
    CKCI_GPU_MATRIX_TILES(X, MMA, mma)                                                                       \
    CKCI_GPU_MATRIX_WHOLE(X, MMA, mma)                                                                       \
    CKCI_GPU_MATRIX_SINGLE(X, MMA, mma, tf32)                                                                \
    CKCI_GPU_MATRIX_DOUBLE(X, MMA, mma)                                                                      \
    CKCI_GPU_MATRIX_LARGE(X, MMA, mma)                                                                       \
    X(gpu_fused_conv_conv_f32, FUSED, CONV_CONV_FWD, CKCONV_F32, 64, ckci_fit_gpu_pair, ckci_list_gpu_pair)  \
    X(gpu_fused_conv_conv_matrix, FUSED, CONV_CONV_FWD, CKCONV_F32, 64128, ckci_fit_matrix_pair,             \
      ckci_list_matrix_pair)                                                                                 \
    X(gpu_fused_depth_matrix_128, FUSED, CONV_CONV_FWD, CKCONV_F32, 128128, ckci_fit_matrix_pair,            \
      ckci_list_matrix_pair)                                                                                 \
    X(gpu_fused_depth_matrix_256, FUSED, CONV_CONV_FWD, CKCONV_F32, 128256, ckci_fit_matrix_pair,            \
      ckci_list_matrix_pair)                                                                                 \
    X(gpu_fused_depth_strips, FUSED, CONV_CONV_FWD, CKCONV_F32, CKCI_PAIR_STRIPS, ckci_fit_matrix_pair,      \
      ckci_list_matrix_pair)                                                                                 \
    X(gpu_recompute_conv_conv, FUSED, CONV_CONV_FWD, 0, 0, ckci_fit_gpu_pair, ckci_list_gpu_pair)            \
    X(gpu_unfused_conv_conv, UNFUSED, CONV_CONV_FWD, 0, 0, ckci_fit_gpu_pair, ckci_list_gpu_pair)            \
    X(gpu_groupnorm_fwd, GROUPNORM, GROUPNORM_FWD, 0, 0, ckci_fit_gpu_norm, ckci_list_gpu_norm)              \
    X(gpu_groupnorm_bwd, GROUPNORM, GROUPNORM_BWD, 0, 0, ckci_fit_gpu_norm, ckci_list_gpu_norm)

enum {
    CKCI_OP_ALL = 0,
    CKCI_OP_FWD = CKCONV_FWD,
    CKCI_OP_BWD_DATA = CKCONV_BWD_DATA,
    CKCI_OP_BWD_WEIGHT = CKCONV_BWD_WEIGHT,
    CKCI_OP_CONV_CONV_FWD = CKCONV_CONV_CONV_FWD,
    CKCI_OP_GROUPNORM_FWD = CKCONV_GROUPNORM_FWD,
    CKCI_OP_GROUPNORM_BWD = CKCONV_GROUPNORM_BWD
};

CKCI_FN ckconv_status ckci_fit_ref(ckci_fit *f, ckconv_error *err)
{
    ckconv_plan *plan = f->plan;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: ref sums in one part", (int)f->split_k);
    }
    const ckci_tensor *t = plan->op <= CKCONV_BWD_WEIGHT      ? &f->p->conv.t[ckci_written(plan->op)]
                           : plan->op == CKCONV_CONV_CONV_FWD ? &f->p->pair.second.t[CKCI_OUT]
                                                              : &f->p->norm.in;
    plan->grid[0] = plan->op == CKCONV_CONV_CONV_FWD ? t->len[1] * t->len[3] * t->len[4] * t->len[5]
                    : plan->op <= CKCONV_BWD_WEIGHT  ? t->len[0] * t->len[1] * t->len[2]
                                                     : t->len[0] * t->len[1];
    f->cost = 1e30;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_ref(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                          unsigned char *ws, int32_t features)
{
    int32_t threads = plan->device.threads;
    (void)ws;
    (void)features;
    if (plan->op <= CKCONV_BWD_WEIGHT) {
        ckci_ref_conv(&p->conv, threads);
    } else if (plan->op == CKCONV_CONV_CONV_FWD) {
        ckci_ref_conv_conv(&p->pair, args, threads);
    } else {
        ckci_ref_groupnorm(&p->norm, args, threads);
    }
}

typedef struct ckci_instance {
    const char *name;
    ckconv_engine engine;
    ckconv_family family;
    ckconv_op op; /* 0: all */
    int32_t features, tile_rows, tile_columns, lanes;
    ckconv_dtype kind; /* GPU: type of the sums, 0: any */
    ckconv_status (*fit)(ckci_fit *f, ckconv_error *err);
    /* host engines compute in run; the GPU engine lists its launches */
    void (*run)(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args, unsigned char *ws,
                int32_t features);
    ckconv_status (*list)(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                          unsigned char *ws, int32_t tile, const ckci_emitter *e, ckconv_error *err);
} ckci_instance;

CKCI_FN const ckci_instance *ckci_find_instance(int32_t index)
{
#define CKCI_ROW(NAME, ENGINE, FAMILY, OP, FEATURES, ROWS, COLUMNS, LANES, FIT, RUN)                         \
    {#NAME,                                                                                                  \
     CKCONV_ENGINE_##ENGINE,                                                                                 \
     CKCONV_FAMILY_##FAMILY,                                                                                 \
     CKCI_OP_##OP,                                                                                           \
     FEATURES,                                                                                               \
     ROWS,                                                                                                   \
     COLUMNS,                                                                                                \
     LANES,                                                                                                  \
     0,                                                                                                      \
     FIT,                                                                                                    \
     RUN,                                                                                                    \
     NULL},
#define CKCI_GPU_ROW(NAME, FAMILY, OP, KIND, TILE, FIT, LIST)                                                \
    {#NAME, CKCONV_ENGINE_GPU, CKCONV_FAMILY_##FAMILY, CKCI_OP_##OP, 0, TILE, TILE, 4, KIND, FIT, NULL, LIST},
    static const ckci_instance table[] = {CKCI_INSTANCES(CKCI_ROW) CKCI_GPU_INSTANCES(CKCI_GPU_ROW)};
#undef CKCI_ROW
#undef CKCI_GPU_ROW
    return index >= 0 && index < (int32_t)(sizeof table / sizeof table[0]) ? &table[index] : NULL;
}

CKCI_FN ckconv_status ckci_check_problem(ckconv_op op, void *desc, ckci_problem *p, ckconv_error *err)
{
    if (op == CKCONV_CONV_CONV_FWD) {
        return ckci_check_conv_conv((ckconv_conv_conv_desc *)desc, &p->pair, err);
    }
    if (op == CKCONV_GROUPNORM_FWD || op == CKCONV_GROUPNORM_BWD) {
        return ckci_check_groupnorm(op, (ckconv_groupnorm_desc *)desc, &p->norm, err);
    }
    return ckci_check_conv("", "", op, (ckconv_conv_desc *)desc, &p->conv, err);
}

CKCI_FN ckconv_status ckci_check_options(const ckconv_options *o, ckconv_error *err)
{
    if (o->engine < CKCONV_ENGINE_AUTO || o->engine > CKCONV_ENGINE_GPU) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "options.engine is %d: must be 0 (auto), 1 (ref), 2 (cpu) or 3 (gpu)",
                         (int)o->engine);
    }
    if ((o->flags & ~CKCONV_ALLOW_ATOMICS) != 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "options.flags is %d: only CKCONV_ALLOW_ATOMICS (1) is known", (int)o->flags);
    }
    if (o->max_workspace < -1) {
        return ckci_fail(
            err, CKCONV_ERR_ARGUMENT,
            "options.max_workspace is %lld: must be -1 (none), 0 (no limit) or a number of bytes",
            CKCI_LL(o->max_workspace));
    }
    if (o->split_k < 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "options.split_k is %d: must be 0 (planner's choice) or more", (int)o->split_k);
    }
    if (o->threads < 0 || o->threads > 4096) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "options.threads is %d: must be 0 (the device's) to 4096",
                         (int)o->threads);
    }
    for (int i = 0; i < 2; i++) {
        if (o->reserved[i] != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "options.reserved[%d] is %d: must be 0 (uninitialised struct?)", i,
                             (int)o->reserved[i]);
        }
    }
    return CKCONV_OK;
}

/* What every GPU gives a block; kernels of the vector, direct and group norm families use no more, unless the
   planner has looked. */
enum { CKCI_LEAST_LDS = 49152 };

/* A GPU has the name of one of its vendor's, and the waves of its row. */
CKCI_FN ckconv_status ckci_check_arch(const ckconv_device *d, ckconv_error *err)
{
    const ckci_architecture *row = ckci_find_architecture(d->arch);
    int32_t vendor = row ? row->kind : ckci_architecture_vendor(d->arch);
    if (d->kind == CKCONV_DEVICE_CPU ? vendor != CKCONV_DEVICE_CPU : vendor != d->kind) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.arch is '%s', device.kind %d: must be %s", d->arch,
                         (int)d->kind,
                         d->kind == CKCONV_DEVICE_AMD      ? "gfx... for 1 (AMD)"
                         : d->kind == CKCONV_DEVICE_NVIDIA ? "sm_... for 2 (NVIDIA)"
                                                           : "a CPU's for 0");
    }
    if (row && d->wave_size != row->wave) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.wave_size is %d: must be %d on %s",
                         (int)d->wave_size, (int)row->wave, d->arch);
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_check_device(const ckconv_device *d, ckconv_error *err)
{
    if (d->kind < CKCONV_DEVICE_CPU || d->kind > CKCONV_DEVICE_NVIDIA) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "device.kind is %d: must be 0 (CPU), 1 (AMD) or 2 (NVIDIA)", (int)d->kind);
    }
    if (d->threads < 0 || d->threads > 4096) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.threads is %d: must be 0 (means 1) to 4096",
                         (int)d->threads);
    }
    if ((d->features & ~(CKCONV_CPU_AVX2 | CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16)) != 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "device.features is %d: only CKCONV_CPU_AVX2, _AVX512 and _AVX512_BF16 are known",
                         (int)d->features);
    }
    if (memchr(d->arch, 0, sizeof d->arch) == NULL) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.arch is %.16s...: must end with a 0 byte",
                         d->arch);
    }
    for (const char *c = d->arch; *c; c++) {
        if (*c <= ' ' || *c > '~') {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.arch holds byte %d: must be printable ASCII",
                             (int)(unsigned char)*c);
        }
    }
    if (d->ordinal < 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.ordinal is %d: must be 0 or more",
                         (int)d->ordinal);
    }
    CKCI_TRY(ckci_check_arch(d, err));
    if (d->kind != CKCONV_DEVICE_CPU && d->wave_size != 32 && d->wave_size != 64) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.wave_size is %d: must be 32 or 64",
                         (int)d->wave_size);
    }
    if (d->kind != CKCONV_DEVICE_CPU && (d->compute_units < 1 || d->compute_units > 65536)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.compute_units is %d: must be 1 to 65536",
                         (int)d->compute_units);
    }
    if (d->kind != CKCONV_DEVICE_CPU && d->lds_bytes < CKCI_LEAST_LDS) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.lds_bytes is %d: must be %d or more",
                         (int)d->lds_bytes, (int)CKCI_LEAST_LDS);
    }
    for (int i = 0; i < 3; i++) {
        if (d->reserved[i] != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "device.reserved[%d] is %d: must be 0 (uninitialised struct?)", i,
                             (int)d->reserved[i]);
        }
    }
    return CKCONV_OK;
}

/* FLOP and least traffic. */
CKCI_FN void ckci_measure_conv(const ckci_conv *p, int64_t *flop, int64_t *bytes)
{
    int64_t f = 2;
    int64_t factors[10];
    factors[0] = p->g;
    factors[1] = p->n;
    factors[2] = p->k;
    factors[3] = p->c;
    for (int i = 0; i < 3; i++) {
        factors[4 + i] = p->output[i];
        factors[7 + i] = p->filter[i];
    }
    for (int i = 0; i < 10; i++) {
        f = factors[i] == 0 ? 0 : ckci_saturating_mul(f, factors[i]);
    }
    *flop += ckci_min(f, CKCI_MAX_BYTES - *flop);
    for (int i = 0; i < 3; i++) {
        int64_t tensor = ckci_count(&p->t[i]) * (int64_t)ckci_size(p->t[i].dtype);
        *bytes += ckci_min(tensor, CKCI_MAX_BYTES - *bytes);
    }
}

CKCI_FN void ckci_measure(ckconv_plan *plan, const ckci_problem *p)
{
    plan->flop = plan->bytes = 0;
    if (plan->op == CKCONV_CONV_CONV_FWD) {
        ckci_measure_conv(&p->pair.first, &plan->flop, &plan->bytes);
        ckci_measure_conv(&p->pair.second, &plan->flop, &plan->bytes);
        const ckci_tensor *mid = &p->pair.first.t[CKCI_OUT]; /* counted twice, moved not at all */
        plan->bytes = ckci_max(plan->bytes - 2 * ckci_count(mid) * (int64_t)ckci_size(mid->dtype), 0);
    } else if (plan->op <= CKCONV_BWD_WEIGHT) {
        ckci_measure_conv(&p->conv, &plan->flop, &plan->bytes);
    } else {
        const ckci_groupnorm *n = &p->norm;
        int64_t x = ckci_count(&n->in) * (int64_t)ckci_size(n->in.dtype);
        int64_t y = ckci_count(&n->out) * (int64_t)ckci_size(n->out.dtype);
        int64_t dx = ckci_count(&n->din) * (int64_t)ckci_size(n->din.dtype);
        plan->bytes =
            ckci_min(x / 2 + y / 2 + (plan->op == CKCONV_GROUPNORM_BWD ? dx / 2 : 0), CKCI_MAX_BYTES / 2) * 2;
    }
}

CKCI_FN int ckci_same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* Does the caller's options.instance mean this instance? */
CKCI_FN int ckci_instance_named(const ckci_instance *i, const char *name)
{
    return name == NULL || ckci_same_text(i->name, name) ||
           ckci_same_text(ckconv_family_name(i->family), name) ||
           (i->family == CKCONV_FAMILY_VECTOR && ckci_same_text(name, "dl"));
}

/* Is it the name of any instance or family at all? */
CKCI_FN int ckci_known_name(const char *name)
{
    for (ckconv_family f = CKCONV_FAMILY_REF; f <= CKCONV_FAMILY_MMA; f++) {
        if (ckci_same_text(ckconv_family_name(f), name)) {
            return 1;
        }
    }
    for (int32_t i = 0; ckci_find_instance(i); i++) {
        if (ckci_same_text(ckci_find_instance(i)->name, name)) {
            return 1;
        }
    }
    return ckci_same_text(name, "dl");
}

/* Small problems are done before a team of threads has met, and waiting for one on a busy machine takes far
   longer: at least about 20 microseconds of work for each thread. Results do not depend on it. */
CKCI_FN int32_t ckci_useful_threads(int32_t threads, double cost)
{
    double most = cost / 32768;
    return !(most < threads) ? threads : most < 1 ? 1 : (int32_t)most;
}

/* Can the device make all launches of a plan? Counts them, as if every optional result but mid were asked
   for, and statistics were saved. Addresses are made up: nothing reads there. */
CKCI_FN ckconv_status ckci_try_launches(ckconv_plan *plan, const ckci_problem *p,
                                        const ckci_instance *instance, ckconv_error *err)
{
    ckconv_args a;
    ckci_launch_count c;
    ckci_emitter e;
    if (!instance->list) {
        return CKCONV_OK;
    }
    memset(&a, 0, sizeof a);
    a.din = a.dgamma = a.dbeta = &a;
    a.saved_mean = a.saved_inv_std = &a;
    c.device = &plan->device;
    c.count = 0;
    c.mid = plan->tune[CKCI_TUNE_MID] != 0;
    e.emit = ckci_count_launch;
    e.context = &c;
    CKCI_TRY(instance->list(plan, p, &a, plan->workspace_bytes > 0 ? (unsigned char *)(uintptr_t)4096 : NULL,
                            instance->tile_rows, &e, err));
    plan->launches = c.count;
    return CKCONV_OK;
}

/* How much an instance's refusal tells: 0 where it is made for other sums, another matrix unit or another
   CPU, 1 for a matrix unit, 2 for the rest. */
CKCI_FN int ckci_reason_rank(const ckci_instance *i, const ckconv_plan *plan, const ckci_problem *p)
{
    int matrix =
        i->family == CKCONV_FAMILY_MFMA || i->family == CKCONV_FAMILY_WMMA || i->family == CKCONV_FAMILY_MMA;
    ckconv_dtype kind = plan->op == CKCONV_CONV_CONV_FWD ? ckci_conv_kind(&p->pair.first)
                        : plan->op <= CKCONV_BWD_WEIGHT  ? ckci_conv_kind(&p->conv)
                                                         : i->kind;
    if ((i->kind != 0 && i->kind != kind) || (matrix && ckci_matrix_family(&plan->device) != i->family) ||
        (i->features & plan->device.features) != i->features) {
        return 0;
    }
    return matrix ? 1 : 2;
}

/* Of all refusals the first one of the highest rank is told, in a rank one for want of workspace before all
   others: it could run. */
CKCI_FN void ckci_keep_reason(const ckconv_error *why, int now, int *rank, ckconv_error *reason)
{
    if (why) {
        now = 2 * now + (why->status == CKCONV_ERR_WORKSPACE ? 1 : 0);
        if (now > *rank) {
            *rank = now;
            *reason = *why;
        }
    }
}

/* The cheapest instance that fits, written into *plan, which holds op, engine, device and description. */
CKCI_FN ckconv_status ckci_select(ckconv_plan *plan, const ckci_problem *p, const ckconv_options *o,
                                  int32_t only, double *cost, ckconv_error *err)
{
    ckconv_plan best, trial;
    ckconv_error reason;
    double best_cost = 0;
    int found = 0, tried = 0, rank = -1; /* of the refusal that is told */
    memset(&reason, 0, sizeof reason);
    for (int32_t i = 0; ckci_find_instance(i); i++) {
        const ckci_instance *instance = ckci_find_instance(i);
        if ((only >= 0 && only != i) || instance->engine != plan->engine ||
            !ckci_instance_named(instance, o->instance) || (instance->op != 0 && instance->op != plan->op)) {
            continue;
        }
        tried++;
        if ((instance->features & plan->device.features) != instance->features) {
            ckci_fail(reason.text[0] ? NULL : &reason, CKCONV_ERR_UNSUPPORTED,
                      "%s needs AVX%s, which device.features does not offer", instance->name,
                      instance->features == CKCONV_CPU_AVX2     ? "2 with FMA"
                      : instance->features == CKCONV_CPU_AVX512 ? "-512"
                                                                : "-512 with bf16 dot products");
            continue;
        }
        int now = ckci_reason_rank(instance, plan, p);
        if (now == 0 && (found || rank >= 0)) {
            continue; /* it does not fit, and has nothing to tell */
        }
        ckconv_error told;
        ckconv_error *why = found ? NULL : &told;
        ckci_fit f;
        trial = *plan;
        trial.instance = i;
        trial.split_k = 1;
        trial.launches = 1;
        trial.grid[1] = trial.grid[2] = 1;
        trial.block[0] = plan->device.threads;
        trial.block[1] = trial.block[2] = 1;
        f.plan = &trial;
        f.p = p;
        f.family = instance->family;
        f.features = instance->features;
        f.kind = instance->kind;
        f.tile = instance->tile_rows;
        f.limit = ckci_plan_limit(plan);
        f.split_k = o->split_k;
        f.cost = 0;
        if (instance->fit(&f, why) != CKCONV_OK) {
            ckci_keep_reason(why, now, &rank, &reason);
            continue;
        }
        int32_t useful = ckci_useful_threads(plan->device.threads, f.cost);
        if (useful < plan->device.threads) {
            trial.device.threads = trial.block[0] = useful;
            if (instance->fit(&f, why) != CKCONV_OK) {
                ckci_keep_reason(why, now, &rank, &reason);
                continue;
            }
        }
        trial.workspace_bytes += trial.workspace_bytes > 0 ? CKCI_ALIGN : 0;
        if (found && f.cost >= best_cost) {
            continue;
        }
        if (ckci_try_launches(&trial, p, instance, why) == CKCONV_OK) {
            found = 1;
            best_cost = f.cost;
            best = trial;
        } else {
            ckci_keep_reason(why, now, &rank, &reason);
        }
    }
    if (!found && tried == 0) {
        if (only >= 0) {
            return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s is not an instance of %s on this engine",
                             ckci_find_instance(only) ? ckci_find_instance(only)->name : "?",
                             ckconv_op_name(plan->op));
        }
        if (o->instance && !ckci_known_name(o->instance)) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "options.instance is '%.60s': no instance or family has that name", o->instance);
        }
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "options.instance is '%.60s': nothing of that name computes %s on engine %s",
                         o->instance ? o->instance : "", ckconv_op_name(plan->op),
                         ckconv_engine_name(plan->engine));
    }
    if (!found && reason.status == CKCONV_ERR_WORKSPACE && o->max_workspace != 0) {
        return ckci_fail(err, reason.status, "%s; options.max_workspace is %lld", reason.text,
                         CKCI_LL(o->max_workspace));
    }
    if (!found) {
        return ckci_fail(err, reason.status ? reason.status : CKCONV_ERR_UNSUPPORTED, "%s", reason.text);
    }
    *plan = best;
    *cost = best_cost;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_plan_part(const ckci_conv *p, const ckconv_device *device, int64_t limit, int mid,
                                     int32_t only, ckconv_plan *part, double *cost, ckconv_error *err)
{
    ckci_problem one;
    ckconv_options o;
    memset(&o, 0, sizeof o);
    memset(part, 0, sizeof *part);
    one.conv = *p;
    part->op = p->op;
    part->engine = CKCONV_ENGINE_GPU;
    part->device = *device;
    part->tune[CKCI_TUNE_LIMIT] = limit > 0 ? ckci_saturating_add(limit, CKCI_ALIGN) : -1;
    part->tune[CKCI_TUNE_MID] = mid;
    CKCI_TRY(ckci_select(part, &one, &o, only, cost, err));
    part->workspace_bytes -= part->workspace_bytes > 0 ? CKCI_ALIGN : 0;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_part(const ckconv_plan *part, const ckci_conv *p, unsigned char *ws,
                                     const ckci_emitter *e, ckconv_error *err)
{
    const ckci_instance *instance = ckci_find_instance(part->instance);
    ckconv_args none;
    ckci_problem one;
    memset(&none, 0, sizeof none);
    one.conv = *p;
    return instance->list(part, &one, &none, ws, instance->tile_rows, e, err);
}

/* A plan that was refused is all zero but for a version that no header has, and its member u, which holds
   why: a run of it says so again. */
CKCI_FN ckconv_status ckci_refuse(ckconv_plan *plan, const ckconv_error *why, ckconv_error *err)
{
    if (plan) {
        memset(plan, 0, sizeof *plan);
        plan->version = CKCI_REFUSED;
        memcpy(&plan->u, why, sizeof *why);
    }
    if (err) {
        *err = *why;
    }
    return why->status;
}

/* Was it? Then *why. */
CKCI_FN int ckci_refused(const ckconv_plan *plan, ckconv_error *why)
{
    if (!plan || plan->magic != 0 || plan->version != CKCI_REFUSED) {
        return 0;
    }
    memcpy(why, &plan->u, sizeof *why);
    why->text[sizeof why->text - 1] = 0;
    return 1;
}

/* What ckci_make_plan does. *out is all zero after a failure. */
CKCI_FN ckconv_status ckci_try_plan(ckconv_plan *out, ckconv_op op, const void *desc, size_t desc_bytes,
                                    const ckconv_options *options, const ckconv_device *device, int32_t only,
                                    const ckconv_plan *like, ckci_problem *problem, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o;
    memset(&plan, 0, sizeof plan);
    memset(&o, 0, sizeof o);
    if (!desc) {
        memset(out, 0, sizeof *out);
        return ckci_fail(err, CKCONV_ERR_NULL, "desc is NULL");
    }
    memcpy(&plan.u, desc, desc_bytes);
    if (device) {
        plan.device = *device;
    }
    if (options) {
        o = *options;
    }
    memset(out, 0, sizeof *out);
    CKCI_TRY(ckci_check_options(&o, err));
    o.split_k = (int32_t)ckci_min(o.split_k, CKCI_MOST_PARTS);
    if (!device && (o.engine == CKCONV_ENGINE_REF || o.engine == CKCONV_ENGINE_CPU)) {
        ckconv_device_cpu(&plan.device);
    } else if (!device) {
        CKCI_TRY(ckci_default_device(&plan.device, err));
    }
    CKCI_TRY(ckci_check_device(&plan.device, err));
    plan.op = op;
    CKCI_TRY(ckci_check_problem(op, &plan.u, problem, err));
    plan.engine = o.engine;
    for (int32_t i = 0; plan.engine == CKCONV_ENGINE_AUTO && ckci_find_instance(i); i++) {
        if (ckci_same_text(ckci_find_instance(i)->name, o.instance)) {
            plan.engine = ckci_find_instance(i)->engine;
        }
    }
    if (plan.engine == CKCONV_ENGINE_AUTO) {
        plan.engine = plan.device.kind == CKCONV_DEVICE_CPU ? (ckconv_engine)CKCONV_ENGINE_CPU
                                                            : (ckconv_engine)CKCONV_ENGINE_GPU;
    }
    if (plan.engine == CKCONV_ENGINE_GPU && plan.device.kind == CKCONV_DEVICE_CPU) {
        return device ? ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                                  "engine gpu, but device.kind is 0 (CPU): give the facts of a GPU or NULL")
                      : ckci_no_gpu("engine gpu", err);
    }
    if (plan.engine != CKCONV_ENGINE_GPU && plan.device.kind != CKCONV_DEVICE_CPU) {
        ckconv_device_cpu(&plan.device); /* a host engine asked for beside a GPU */
    }
    plan.device.threads = plan.engine == CKCONV_ENGINE_GPU ? 0
                          : o.threads                      ? o.threads
                          : plan.device.threads            ? plan.device.threads
                                                           : 1;
    ckci_measure(&plan, problem);
    plan.tune[CKCI_TUNE_LIMIT] = o.max_workspace;
    plan.tune[CKCI_TUNE_SPLIT] = o.split_k;
    plan.tune[CKCI_TUNE_FLAGS] = o.flags;
    const ckci_instance *one = only >= 0 ? ckci_find_instance(only) : NULL;
    if (like && one && one->engine == CKCONV_ENGINE_GPU && one->family == CKCONV_FAMILY_UNFUSED) {
        plan.tune[CKCI_TUNE_FIRST] = like->tune[CKCI_TUNE_FIRST];
        plan.tune[CKCI_TUNE_SECOND] = like->tune[CKCI_TUNE_SECOND];
    }
    double cost;
    CKCI_TRY(ckci_select(&plan, problem, &o, only, &cost, err));
    plan.magic = CKCI_MAGIC;
    plan.version = CKCONV_VERSION;
    *out = plan;
    return ckci_ok(err);
}

/* Everything behind the ckconv_plan_... functions. only: an instance index, or -1. like: NULL, or a plan
   whose two kernels of a pair are taken without looking at others. desc_bytes of desc are copied. */
CKCI_FN ckconv_status ckci_make_plan(ckconv_plan *out, ckconv_op op, const void *desc, size_t desc_bytes,
                                     const ckconv_options *options, const ckconv_device *device, int32_t only,
                                     const ckconv_plan *like, ckci_problem *problem, ckconv_error *err)
{
    ckconv_error why;
    memset(&why, 0, sizeof why);
    if (!out) {
        return ckci_fail(err, CKCONV_ERR_NULL, "plan is NULL");
    }
    if (ckci_try_plan(out, op, desc, desc_bytes, options, device, only, like, problem, &why) != CKCONV_OK) {
        return ckci_refuse(out, &why, err);
    }
    return ckci_ok(err);
}

CKCI_FN size_t ckci_desc_bytes(ckconv_op op)
{
    return op == CKCONV_CONV_CONV_FWD                                 ? sizeof(ckconv_conv_conv_desc)
           : op == CKCONV_GROUPNORM_FWD || op == CKCONV_GROUPNORM_BWD ? sizeof(ckconv_groupnorm_desc)
                                                                      : sizeof(ckconv_conv_desc);
}

CKCI_FN ckconv_status ckci_check_magic(const ckconv_plan *plan, const char *name, ckconv_error *err)
{
    if (!plan) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", name);
    }
    ckconv_error why;
    if (ckci_refused(plan, &why)) {
        return ckci_fail(err, CKCONV_ERR_PLAN, "%s was refused when it was made: %s", name, why.text);
    }
    if (plan->magic != CKCI_MAGIC || plan->version != CKCONV_VERSION) {
        return ckci_fail(err, CKCONV_ERR_PLAN,
                         "%s was not made by version %d.%d.%d of this header (a planning function fills it)",
                         name, CKCONV_VERSION_MAJOR, CKCONV_VERSION_MINOR, CKCONV_VERSION_PATCH);
    }
    return CKCONV_OK;
}

/* The problem of a plan. Planning again must give the same plan, bit for bit: that refuses a damaged one. */
CKCI_FN ckconv_status ckci_recover(const ckconv_plan *plan, const char *name, ckci_problem *p,
                                   ckconv_error *err)
{
    ckconv_plan again;
    ckconv_options o;
    CKCI_TRY(ckci_check_magic(plan, name, err));
    memset(&o, 0, sizeof o);
    o.engine = plan->engine;
    o.max_workspace = plan->tune[CKCI_TUNE_LIMIT];
    o.split_k = plan->tune[CKCI_TUNE_SPLIT] < 0 || plan->tune[CKCI_TUNE_SPLIT] > CKCI_MOST_PARTS
                    ? -1
                    : (int32_t)plan->tune[CKCI_TUNE_SPLIT];
    o.flags = plan->tune[CKCI_TUNE_FLAGS] == 0 ? 0 : CKCONV_ALLOW_ATOMICS;
    ckconv_status s = ckci_make_plan(&again, plan->op, &plan->u, ckci_desc_bytes(plan->op), &o, &plan->device,
                                     plan->instance, plan, p, err);
    if (s != CKCONV_OK || memcmp(&again, plan, sizeof again) != 0) {
        return ckci_fail(err, CKCONV_ERR_PLAN, "%s is damaged: its members do not belong together", name);
    }
    return CKCONV_OK;
}


/*------------------------------------------------------------------------------------------------------------
  >>device
  Facts, memory and time of the CPU, and of a GPU when a GPU compiler reads this.
*/
#if CKCI_GPU_COMPILER
#include "kernels.hip.h" /* CKCONV-SINGLE: copy it with ckconv.h */
#endif

CKCI_FN int32_t ckci_cpu_features(void)
{
    int32_t features = 0;
#if CKCI_X86
    uint32_t leaf[4] = {1, 0, 0, 0}; /* the f16c bit: not every compiler's builtin knows its name */
    __asm__("cpuid" : "+a"(leaf[0]), "=b"(leaf[1]), "+c"(leaf[2]), "=d"(leaf[3]));
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (leaf[2] >> 29 & 1)) {
        features |= CKCONV_CPU_AVX2;
        if (__builtin_cpu_supports("avx512f")) {
            features |= CKCONV_CPU_AVX512;
#if CKCI_BF16_DOT
            if (__builtin_cpu_supports("avx512bf16")) {
                features |= CKCONV_CPU_AVX512_BF16;
            }
#endif
        }
    }
#endif
    return features;
}

#if CKCI_GPU_COMPILER
/* The status of a call of the runtime. Its memory of the last error is cleared: this one is reported here,
   and whoever asks next would blame his own call. */
CKCI_FN ckconv_status ckci_gpu_status(int code, const char *what, ckconv_status bad, ckconv_error *err)
{
    if (code == 0) {
        return CKCONV_OK;
    }
    (void)CKCI_GPU(GetLastError)();
    return ckci_fail(err, bad, "%s: %s", what, CKCI_GPU(GetErrorString)((ckci_gpu_error)code));
}

/* Number of GPUs; 0 without a driver. Any other trouble is an error: a GPU may be there. */
CKCI_FN ckconv_status ckci_count_gpus(const char *what, int *count, ckconv_error *err)
{
    int code = (int)CKCI_GPU(GetDeviceCount)(count);
    if (code == (int)CKCI_GPU(ErrorNoDevice) || code == (int)CKCI_GPU(ErrorInsufficientDriver)) {
        (void)CKCI_GPU(GetLastError)();
        *count = 0;
        return CKCONV_OK;
    }
    return ckci_gpu_status(code, what, CKCONV_ERR_NO_DEVICE, err);
}
#endif

/* Why there is no GPU to compute on. */
CKCI_FN ckconv_status ckci_no_gpu(const char *what, ckconv_error *err)
{
#if CKCI_GPU_COMPILER
    int count = 0;
    CKCI_TRY(ckci_count_gpus(what, &count, err));
    return ckci_fail(err, CKCONV_ERR_NO_DEVICE, "%s: no GPU was found", what);
#else
    return ckci_fail(err, CKCONV_ERR_NO_DEVICE_CODE,
                     "%s: this build holds no GPU code; compile as .hip or .cu, or with -x hip", what);
#endif
}

CKCI_FN ckconv_status ckci_no_device_code(int32_t ordinal, ckconv_error *err)
{
    char what[32];
    snprintf(what, sizeof what, "GPU %d", (int)ordinal);
    return ckci_no_gpu(what, err);
}

/* The current GPU where there is one, else this CPU. A GPU in trouble is an error: the CPU would follow
   pointers of its memory. */
CKCI_FN ckconv_status ckci_default_device(ckconv_device *device, ckconv_error *err)
{
#if CKCI_GPU_COMPILER
    int count = 0, ordinal = 0;
    CKCI_TRY(ckci_count_gpus("default device", &count, err));
    if (count > 0) {
        CKCI_TRY(
            ckci_gpu_status((int)CKCI_GPU(GetDevice)(&ordinal), "current device", CKCONV_ERR_NO_DEVICE, err));
        return ckconv_device_gpu(ordinal, device, err);
    }
#else
    (void)err;
#endif
    ckconv_device_cpu(device);
    return CKCONV_OK;
}

#if defined(_WIN32)
/* As windows.h declares them, which is not read for them: it defines macros with common names. */
union _LARGE_INTEGER;
__declspec(dllimport) int __stdcall QueryPerformanceCounter(union _LARGE_INTEGER *);
__declspec(dllimport) int __stdcall QueryPerformanceFrequency(union _LARGE_INTEGER *);
#endif

/* Seconds from any fixed point; wall time wherever the C library tells it. MinGW's clock_gettime is one of
   its thread library's, which not all of its programs have. */
CKCI_FN double ckci_now(void)
{
#if defined(_WIN32)
    int64_t ticks = 0, each = 1;
    (void)QueryPerformanceCounter((union _LARGE_INTEGER *)(void *)&ticks);
    (void)QueryPerformanceFrequency((union _LARGE_INTEGER *)(void *)&each);
    return (double)ticks / (double)each;
#elif defined(CLOCK_MONOTONIC)
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#elif defined(_OPENMP)
    return omp_get_wtime();
#elif defined(TIME_UTC)
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#else
    return (double)clock() / CLOCKS_PER_SEC;
#endif
}

CKCONV_API void ckconv_device_cpu(ckconv_device *device)
{
    if (!device) {
        return;
    }
    memset(device, 0, sizeof *device);
    device->kind = CKCONV_DEVICE_CPU;
#if defined(__x86_64__) || defined(_M_X64)
    memcpy(device->arch, "x86_64", 7);
#elif defined(__aarch64__)
    memcpy(device->arch, "aarch64", 8);
#else
    memcpy(device->arch, "cpu", 4);
#endif
#ifdef _OPENMP
    device->threads = omp_get_max_threads();
#else
    device->threads = 1;
#endif
    device->features = ckci_cpu_features();
}

/* Typical figures by architecture name; what planning needs, no more. */
CKCONV_API ckconv_status ckconv_device_named(const char *arch, ckconv_device *device, ckconv_error *err)
{
    if (!arch || !device) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", arch ? "device" : "arch");
    }
    memset(device, 0, sizeof *device);
    if (ckci_same_text(arch, "x86_64") || ckci_same_text(arch, "aarch64") || ckci_same_text(arch, "cpu")) {
        device->threads = 1;
        memcpy(device->arch, arch, strlen(arch) + 1);
        return ckci_ok(err);
    }
    const ckci_architecture *row = ckci_find_architecture(arch);
    size_t length = ckci_architecture_length(arch);
    int32_t vendor = row ? row->kind : ckci_architecture_vendor(arch);
    if (vendor == CKCONV_DEVICE_CPU || length >= sizeof device->arch) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "arch is '%.30s': must be gfx..., sm_... (in lower case), x86_64, aarch64 or cpu",
                         arch);
    }
    /* without a row: cautious facts, so that portable kernels can be planned */
    device->kind = vendor;
    memcpy(device->arch, arch, length);
    device->wave_size = row ? row->wave : ckci_architecture_wave(arch);
    device->compute_units = row ? row->units : 32;
    device->lds_bytes = row ? row->lds : vendor == CKCONV_DEVICE_AMD ? 65536 : CKCI_LEAST_LDS;
    return ckci_ok(err);
}

/* Is the current GPU the one that the plan was made for? */
CKCI_FN ckconv_status ckci_check_current(const ckconv_device *device, ckconv_error *err)
{
#if CKCI_GPU_COMPILER
    int ordinal = -1, units = 0, wave = 0;
    ckconv_device now;
    int count = 0;
    CKCI_TRY(ckci_count_gpus("engine gpu", &count, err));
    if (count == 0) {
        return ckci_no_gpu("engine gpu", err);
    }
    CKCI_TRY(
        ckci_gpu_status((int)CKCI_GPU(GetDevice)(&ordinal), "current device", CKCONV_ERR_NO_DEVICE, err));
    (void)CKCI_GPU(DeviceGetAttribute)(&units, CKCI_GPU_UNITS, ordinal);
    (void)CKCI_GPU(DeviceGetAttribute)(&wave, CKCI_GPU_WAVE, ordinal);
    if (ordinal != device->ordinal || units != device->compute_units || wave != device->wave_size) {
        (void)ckconv_device_gpu(ordinal, &now, NULL);
        return ckci_fail(
            err, CKCONV_ERR_WRONG_DEVICE,
            "the plan is for GPU %d (%s, %d units, wave %d); current is GPU %d (%s, %d units, wave %d)",
            (int)device->ordinal, device->arch, (int)device->compute_units, (int)device->wave_size, ordinal,
            now.arch, units, wave);
    }
    return CKCONV_OK;
#else
    return ckci_no_device_code(device->ordinal, err);
#endif
}

/* The emitter of ckconv_run. */
typedef struct ckci_stream {
    const ckconv_device *device;
    void *stream;
    int32_t launches; /* so far */
} ckci_stream;

CKCI_FN ckconv_status ckci_launch_on_stream(void *context, const ckci_launch *launch, ckconv_error *err)
{
    ckci_stream *s = (ckci_stream *)context;
    CKCI_TRY(ckci_check_launch(s->device, launch, err));
#if CKCI_GPU_COMPILER
    char what[64];
    const int after = s->launches++ > 0 && ckci_sm(s->device) >= 90;
    snprintf(what, sizeof what, "launch of %s", ckci_kernel_name(launch->kernel));
    return ckci_gpu_status((int)ckci_k_launch(launch, after, (ckci_gpu_stream)s->stream), what,
                           CKCONV_ERR_LAUNCH, err);
#else
    return ckci_no_gpu("launch", err);
#endif
}

#if !CKCI_GPU_COMPILER
CKCONV_API int32_t ckconv_device_count(void)
{
    return 0;
}

CKCONV_API ckconv_status ckconv_device_gpu(int32_t ordinal, ckconv_device *device, ckconv_error *err)
{
    if (device) {
        memset(device, 0, sizeof *device);
    }
    return ckci_no_device_code(ordinal, err);
}

/* The helpers' GPU half, for a build that has none. */
#define CKCI_IF_GPU(device, statement)                                                                       \
    if ((device)->kind != CKCONV_DEVICE_CPU) {                                                               \
        return ckci_no_device_code((device)->ordinal, err);                                                  \
    }
#define CKCI_IF_GPU_QUIET(device, statement)                                                                 \
    if ((device)->kind != CKCONV_DEVICE_CPU) {                                                               \
        return;                                                                                              \
    }
#define CKCI_IF_GPU_VALUE(device, statement, value)                                                          \
    if ((device)->kind != CKCONV_DEVICE_CPU) {                                                               \
        return (value);                                                                                      \
    }
#else
/* The same, with the text of a success. */
CKCI_FN ckconv_status ckci_gpu_answer(int code, const char *what, ckconv_status bad, ckconv_error *err)
{
    return code == 0 ? ckci_ok(err) : ckci_gpu_status(code, what, bad, err);
}

CKCONV_API int32_t ckconv_device_count(void)
{
    int count = 0;
    return ckci_count_gpus("", &count, NULL) == CKCONV_OK ? count : 0;
}

CKCONV_API ckconv_status ckconv_device_gpu(int32_t ordinal, ckconv_device *device, ckconv_error *err)
{
    ckci_gpu_properties prop;
    int count = 0;
    memset(&prop, 0, sizeof prop);
    if (!device) {
        return ckci_fail(err, CKCONV_ERR_NULL, "device is NULL");
    }
    memset(device, 0, sizeof *device);
    CKCI_TRY(ckci_count_gpus("device", &count, err));
    if (count == 0) {
        return ckci_no_gpu("device", err);
    }
    if (ordinal < 0 || ordinal >= count) {
        return ckci_fail(err, CKCONV_ERR_NO_DEVICE, "ordinal is %d: there %s %d GPU%s", (int)ordinal,
                         count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    }
    CKCI_TRY(ckci_gpu_status((int)CKCI_GPU(GetDeviceProperties)(&prop, ordinal), "device properties",
                             CKCONV_ERR_NO_DEVICE, err));
    device->ordinal = ordinal;
    device->wave_size = prop.warpSize;
    device->compute_units = prop.multiProcessorCount;
    ckci_gpu_describe(&prop, device);
    return ckci_ok(err);
}

#define CKCI_IF_GPU(device, statement)                                                                       \
    if ((device)->kind != CKCONV_DEVICE_CPU) {                                                               \
        statement;                                                                                           \
    }
#define CKCI_IF_GPU_QUIET(device, statement) CKCI_IF_GPU(device, statement; return )
#define CKCI_IF_GPU_VALUE(device, statement, value) CKCI_IF_GPU(device, return statement)
#endif

CKCI_FN ckconv_status ckci_need_device(const ckconv_device *device, ckconv_error *err)
{
    return device ? CKCONV_OK : ckci_fail(err, CKCONV_ERR_NULL, "device is NULL");
}

CKCONV_API ckconv_status ckconv_device_open(const ckconv_device *device, ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    CKCI_IF_GPU(device, return ckci_gpu_answer((int)CKCI_GPU(SetDevice)(device->ordinal), "open",
                                               CKCONV_ERR_NO_DEVICE, err))
    return ckci_ok(err);
}

#if CKCI_GPU_COMPILER
CKCI_FN void *ckci_gpu_alloc(size_t bytes, ckconv_error *err)
{
    void *memory = NULL;
    ckconv_status s =
        ckci_gpu_answer((int)CKCI_GPU(Malloc)(&memory, bytes ? bytes : 1), "alloc", CKCONV_ERR_MEMORY, err);
    return s == CKCONV_OK ? memory : NULL;
}
#endif

CKCONV_API void *ckconv_device_alloc(const ckconv_device *device, size_t bytes, ckconv_error *err)
{
    if (ckci_need_device(device, err) != CKCONV_OK) {
        return NULL;
    }
    CKCI_IF_GPU_VALUE(device, ckci_gpu_alloc(bytes, err),
                      (ckci_no_device_code(device->ordinal, err), (void *)NULL))
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        ckci_fail(err, CKCONV_ERR_MEMORY, "alloc: no %lld bytes of host memory", CKCI_LL(bytes));
        return NULL;
    }
    ckci_ok(err);
    return memory;
}

CKCONV_API void ckconv_device_free(const ckconv_device *device, void *memory)
{
    if (!device || !memory) {
        return;
    }
    CKCI_IF_GPU_QUIET(device, (void)CKCI_GPU(Free)(memory))
    free(memory);
}

CKCONV_API ckconv_status ckconv_device_upload(const ckconv_device *device, void *dst, const void *src,
                                              size_t bytes, ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    if (bytes && (!dst || !src)) {
        return ckci_fail(err, CKCONV_ERR_NULL, "upload: %s is NULL", dst ? "src" : "dst");
    }
    CKCI_IF_GPU(device,
                return ckci_gpu_answer((int)CKCI_GPU(Memcpy)(dst, src, bytes, CKCI_GPU(MemcpyHostToDevice)),
                                       "upload", CKCONV_ERR_LAUNCH, err))
    if (bytes) {
        memcpy(dst, src, bytes);
    }
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_device_download(const ckconv_device *device, void *dst, const void *src,
                                                size_t bytes, ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    if (bytes && (!dst || !src)) {
        return ckci_fail(err, CKCONV_ERR_NULL, "download: %s is NULL", dst ? "src" : "dst");
    }
    CKCI_IF_GPU(device,
                return ckci_gpu_answer((int)CKCI_GPU(Memcpy)(dst, src, bytes, CKCI_GPU(MemcpyDeviceToHost)),
                                       "download", CKCONV_ERR_LAUNCH, err))
    if (bytes) {
        memcpy(dst, src, bytes);
    }
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_device_fill(const ckconv_device *device, void *dst, int byte, size_t bytes,
                                            ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    if (bytes && !dst) {
        return ckci_fail(err, CKCONV_ERR_NULL, "fill: dst is NULL");
    }
    CKCI_IF_GPU(device, return ckci_gpu_answer((int)CKCI_GPU(Memset)(dst, byte, bytes), "fill",
                                               CKCONV_ERR_LAUNCH, err))
    if (bytes) {
        memset(dst, byte, bytes);
    }
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_device_synchronise(const ckconv_device *device, ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    CKCI_IF_GPU(device, return ckci_gpu_answer((int)CKCI_GPU(DeviceSynchronize)(), "synchronise",
                                               CKCONV_ERR_LAUNCH, err))
    return ckci_ok(err);
}

#if CKCI_GPU_COMPILER
CKCI_FN ckconv_status ckci_gpu_timer(ckconv_timer *timer, ckconv_error *err)
{
    ckci_gpu_event from = NULL, to = NULL;
    CKCI_TRY(ckci_gpu_status((int)CKCI_GPU(EventCreate)(&from), "timer", CKCONV_ERR_LAUNCH, err));
    int code = (int)CKCI_GPU(EventCreate)(&to);
    if (code != 0) {
        (void)CKCI_GPU(EventDestroy)(from);
        return ckci_gpu_status(code, "timer", CKCONV_ERR_LAUNCH, err);
    }
    timer->from = (void *)from;
    timer->to = (void *)to;
    return ckci_ok(err);
}

/* 0, or -1 when the event could not be recorded. */
CKCI_FN double ckci_gpu_record(void *event, void *stream)
{
    if (!event) {
        return -1;
    }
    int code = (int)CKCI_GPU(EventRecord)((ckci_gpu_event)event, (ckci_gpu_stream)stream);
    return ckci_gpu_status(code, "timer", CKCONV_ERR_LAUNCH, NULL) == CKCONV_OK ? 0 : -1;
}

CKCI_FN double ckci_gpu_seconds(const ckconv_timer *timer)
{
    float ms = 0;
    if (!timer->from || timer->cpu_from < 0 || timer->cpu_to < 0) {
        return -1;
    }
    int code = (int)CKCI_GPU(EventSynchronize)((ckci_gpu_event)timer->to);
    if (code == 0) {
        code = (int)CKCI_GPU(EventElapsedTime)(&ms, (ckci_gpu_event)timer->from, (ckci_gpu_event)timer->to);
    }
    return ckci_gpu_status(code, "timer", CKCONV_ERR_LAUNCH, NULL) == CKCONV_OK ? (double)ms * 1e-3 : -1;
}

CKCI_FN void ckci_gpu_timer_end(const ckconv_timer *timer)
{
    if (timer->from) {
        (void)CKCI_GPU(EventDestroy)((ckci_gpu_event)timer->from);
        (void)CKCI_GPU(EventDestroy)((ckci_gpu_event)timer->to);
    }
}
#endif

CKCONV_API ckconv_status ckconv_timer_create(const ckconv_device *device, ckconv_timer *timer,
                                             ckconv_error *err)
{
    if (!timer) {
        return ckci_fail(err, CKCONV_ERR_NULL, "timer is NULL");
    }
    memset(timer, 0, sizeof *timer);
    CKCI_TRY(ckci_need_device(device, err));
    CKCI_IF_GPU(device, return ckci_gpu_timer(timer, err))
    return ckci_ok(err);
}

CKCONV_API void ckconv_timer_start(const ckconv_device *device, ckconv_timer *timer, void *stream)
{
    (void)stream;
    if (!device || !timer) {
        return;
    }
    CKCI_IF_GPU_QUIET(device, timer->cpu_from = ckci_gpu_record(timer->from, stream))
    timer->cpu_from = ckci_now();
}

CKCONV_API void ckconv_timer_stop(const ckconv_device *device, ckconv_timer *timer, void *stream)
{
    (void)stream;
    if (!device || !timer) {
        return;
    }
    CKCI_IF_GPU_QUIET(device, timer->cpu_to = ckci_gpu_record(timer->to, stream))
    timer->cpu_to = ckci_now();
}

CKCONV_API double ckconv_timer_seconds(const ckconv_device *device, ckconv_timer *timer)
{
    if (!device || !timer) {
        return -1;
    }
    CKCI_IF_GPU_VALUE(device, ckci_gpu_seconds(timer), -1.0)
    return timer->cpu_to - timer->cpu_from;
}

CKCONV_API void ckconv_timer_destroy(const ckconv_device *device, ckconv_timer *timer)
{
    if (!device || !timer) {
        return;
    }
    CKCI_IF_GPU_QUIET(device, ckci_gpu_timer_end(timer); memset(timer, 0, sizeof *timer))
    memset(timer, 0, sizeof *timer);
}
#undef CKCI_IF_GPU
#undef CKCI_IF_GPU_QUIET
#undef CKCI_IF_GPU_VALUE


/*------------------------------------------------------------------------------------------------------------
  >>public
  Definitions, in the order of >>api.
*/
CKCONV_API ckconv_status ckconv_plan_conv(ckconv_plan *plan, ckconv_op op, const ckconv_conv_desc *desc,
                                          const ckconv_options *options, const ckconv_device *device,
                                          ckconv_error *err)
{
    ckci_problem p;
    if (op < CKCONV_FWD || op > CKCONV_BWD_WEIGHT) {
        ckconv_error why;
        memset(&why, 0, sizeof why);
        ckci_fail(&why, CKCONV_ERR_ARGUMENT,
                  "op is %d: must be CKCONV_FWD (1), CKCONV_BWD_DATA (2) or CKCONV_BWD_WEIGHT (3)", (int)op);
        return ckci_refuse(plan, &why, err);
    }
    return ckci_make_plan(plan, op, desc, sizeof *desc, options, device, -1, NULL, &p, err);
}

CKCONV_API ckconv_status ckconv_plan_conv_conv(ckconv_plan *plan, const ckconv_conv_conv_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err)
{
    ckci_problem p;
    return ckci_make_plan(plan, CKCONV_CONV_CONV_FWD, desc, sizeof *desc, options, device, -1, NULL, &p, err);
}

CKCONV_API ckconv_status ckconv_plan_groupnorm(ckconv_plan *plan, ckconv_op op,
                                               const ckconv_groupnorm_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err)
{
    ckci_problem p;
    if (op != CKCONV_GROUPNORM_FWD && op != CKCONV_GROUPNORM_BWD) {
        ckconv_error why;
        memset(&why, 0, sizeof why);
        ckci_fail(&why, CKCONV_ERR_ARGUMENT,
                  "op is %d: must be CKCONV_GROUPNORM_FWD (5) or CKCONV_GROUPNORM_BWD (6)", (int)op);
        return ckci_refuse(plan, &why, err);
    }
    return ckci_make_plan(plan, op, desc, sizeof *desc, options, device, -1, NULL, &p, err);
}

/* plan_again, with one instance by index or -1 */
CKCI_FN ckconv_status ckci_plan_again(ckconv_plan *plan, const ckconv_plan *base,
                                      const ckconv_options *options, int32_t only, ckconv_error *err)
{
    ckci_problem p;
    ckconv_plan copy;
    if (!plan) {
        return ckci_fail(err, CKCONV_ERR_NULL, "plan is NULL");
    }
    ckconv_error why;
    memset(&why, 0, sizeof why);
    if (ckci_recover(base, "base", &p, &why) != CKCONV_OK) {
        return ckci_refuse(plan, &why, err);
    }
    copy = *base;
    return ckci_make_plan(plan, copy.op, &copy.u, ckci_desc_bytes(copy.op), options, &copy.device, only, NULL,
                          &p, err);
}

CKCONV_API ckconv_status ckconv_plan_again(ckconv_plan *plan, const ckconv_plan *base,
                                           const ckconv_options *options, ckconv_error *err)
{
    return ckci_plan_again(plan, base, options, -1, err);
}

/* One buffer of a run, for the checks of pointers and overlap. */
typedef struct ckci_buffer {
    const char *name;
    const void *p;
    int64_t bytes;
    int32_t written, optional;
    int32_t takes_d; /* its epilogue reads the D tensors */
    int32_t element; /* bytes */
    const ckci_tensor *shape;
} ckci_buffer;

CKCI_FN void ckci_add_buffer(ckci_buffer *list, int *count, const char *name, const void *p, int64_t bytes,
                             int written, int optional, const ckci_tensor *shape)
{
    ckci_buffer *b = &list[(*count)++];
    b->name = name;
    b->p = p;
    b->bytes = bytes;
    b->written = written;
    b->optional = optional;
    b->takes_d = 0;
    b->element = shape ? (int32_t)ckci_size(shape->dtype) : 1;
    b->shape = shape;
}

/* All buffers of an operation, from the arguments that it uses; pointers go into the problem's tensors. */
CKCI_FN int ckci_list_conv(ckci_conv *p, const ckconv_args *a, ckci_buffer *list)
{
    static const char *const d_names[4] = {"d[0]", "d[1]", "d[2]", "d[3]"};
    int count = 0, w = ckci_written(p->op);
    const void *pointers[3];
    const char *names[3];
    pointers[CKCI_IN] = w == CKCI_IN ? a->din : a->in;
    pointers[CKCI_WEI] = w == CKCI_WEI ? a->dwei : a->wei;
    pointers[CKCI_OUT] = w == CKCI_OUT ? a->out : a->dout;
    names[CKCI_IN] = w == CKCI_IN ? "din" : "in";
    names[CKCI_WEI] = w == CKCI_WEI ? "dwei" : "wei";
    names[CKCI_OUT] = w == CKCI_OUT ? "out" : "dout";
    for (int i = 0; i < 3; i++) {
        p->t[i].p = (unsigned char *)(uintptr_t)pointers[i];
        ckci_add_buffer(list, &count, names[i], pointers[i], ckci_span(&p->t[i]), i == w, 0, &p->t[i]);
        list[i].takes_d = i == w;
    }
    for (int i = 0; i < p->num_d; i++) {
        p->d[i].p = (unsigned char *)(uintptr_t)a->d[i];
        ckci_add_buffer(list, &count, d_names[i], a->d[i], ckci_span(&p->d[i]), 0, 0, &p->d[i]);
    }
    return count;
}

CKCI_FN int ckci_list_pair(ckci_conv_conv *p, const ckconv_args *a, ckci_buffer *list)
{
    ckconv_args second = *a;
    ckci_buffer more[8];
    int64_t channels = p->first.g * p->first.k * (p->first.t[0].dtype == CKCONV_F64 ? 8 : 4);
    second.out = a->mid;
    int count = ckci_list_conv(&p->first, &second, list);
    list[2].name = "mid";
    list[2].optional = 1;
    list[2].takes_d = 0;
    second.wei = a->wei1;
    second.out = a->out;
    second.in = NULL;
    int rest = ckci_list_conv(&p->second, &second, more);
    more[1].name = "wei1";
    for (int i = 1; i < rest; i++) {
        list[count++] = more[i];
    }
    ckci_add_buffer(list, &count, "scale", a->scale, channels, 0, 1, NULL);
    ckci_add_buffer(list, &count, "shift", a->shift, channels, 0, 1, NULL);
    list[count - 2].element = list[count - 1].element = p->first.t[0].dtype == CKCONV_F64 ? 8 : 4;
    return count;
}

CKCI_FN int ckci_list_norm(ckci_groupnorm *p, const ckconv_args *a, ckci_buffer *list)
{
    int count = 0, fwd = p->op == CKCONV_GROUPNORM_FWD;
    int64_t vector = p->g * p->c * (int64_t)ckci_size(p->param);
    int64_t stat = p->n * p->g * (int64_t)ckci_size(p->stat);
    const void *y = fwd ? a->out : a->dout;
    p->in.p = (unsigned char *)(uintptr_t)a->in;
    p->out.p = (unsigned char *)(uintptr_t)y;
    p->din.p = (unsigned char *)a->din;
    ckci_add_buffer(list, &count, "in", a->in, ckci_span(&p->in), 0, 0, &p->in);
    ckci_add_buffer(list, &count, fwd ? "out" : "dout", y, ckci_span(&p->out), fwd, 0, &p->out);
    ckci_add_buffer(list, &count, "gamma", a->gamma, vector, 0, 1, NULL);
    ckci_add_buffer(list, &count, "beta", a->beta, vector, 0, 1, NULL);
    if (fwd) {
        ckci_add_buffer(list, &count, "mean", a->mean, stat, 1, 1, NULL);
        ckci_add_buffer(list, &count, "inv_std", a->inv_std, stat, 1, 1, NULL);
    } else {
        ckci_add_buffer(list, &count, "saved_mean", a->saved_mean, stat, 0, 1, NULL);
        ckci_add_buffer(list, &count, "saved_inv_std", a->saved_inv_std, stat, 0, 1, NULL);
        ckci_add_buffer(list, &count, "din", a->din, ckci_span(&p->din), 1, 1, &p->din);
        ckci_add_buffer(list, &count, "dgamma", a->dgamma, vector, 1, 1, NULL);
        ckci_add_buffer(list, &count, "dbeta", a->dbeta, vector, 1, 1, NULL);
    }
    for (int i = 2; i < count; i++) {
        const char *name = list[i].name;
        int statistic = strstr(name, "mean") != NULL || strstr(name, "inv_std") != NULL;
        list[i].element =
            list[i].shape ? list[i].element : (int32_t)ckci_size(statistic ? p->stat : p->param);
    }
    return count;
}

/* May these overlap? Only a D tensor and the tensor whose epilogue reads it, with the same elements in the
   same places: each is read just before it is written. */
CKCI_FN int ckci_may_alias(const ckci_buffer *written, const ckci_buffer *read)
{
    return written->takes_d && written->p == read->p && read->shape && read->name[1] == '[' &&
           written->shape->dtype == read->shape->dtype &&
           memcmp(written->shape->stride, read->shape->stride, sizeof read->shape->stride) == 0;
}

/* Do two strided tensors whose spans overlap share no element, because they lie in different slices of a
   common period (channels 0..7 and 8..15 of one NHWC buffer)? Tried for each stride of either as the smallest
   one of the period: all larger strides must be multiples of it, and what the smaller ones address must not
   meet. */
CKCI_FN int ckci_interleaved(const ckci_buffer *a, const ckci_buffer *b)
{
    const ckci_tensor *t[2];
    t[0] = a->shape;
    t[1] = b->shape;
    int64_t size = a->shape && b->shape ? (int64_t)ckci_size(t[0]->dtype) : 0;
    if (size == 0 || size != (int64_t)ckci_size(t[1]->dtype)) {
        return 0;
    }
    uintptr_t low = (uintptr_t)a->p < (uintptr_t)b->p ? (uintptr_t)a->p : (uintptr_t)b->p;
    int64_t gap = (int64_t)((uintptr_t)a->p + (uintptr_t)b->p - 2 * low);
    for (int pick = 0; pick < 12 && gap % size == 0; pick++) {
        int64_t least = t[pick / 6]->stride[pick % 6], period = 0, reach[2] = {0, 0};
        for (int k = 0; k < 12; k++) {
            int64_t stride = t[k / 6]->stride[k % 6], steps = t[k / 6]->len[k % 6] - 1;
            if (steps > 0 && stride >= least) {
                period = ckci_gcd(stride, period);
            } else if (steps > 0) {
                reach[k / 6] += steps * stride;
            }
        }
        /* the lower tensor's slice begins at 0 of the period, the other one's at `place` */
        int first = (uintptr_t)a->p == low ? 0 : 1;
        int64_t place = period ? gap / size % period : 0;
        if (period && place > reach[first] && place + reach[1 - first] < period) {
            return 1;
        }
    }
    return 0;
}

CKCI_FN ckconv_status ckci_check_buffers(const ckci_buffer *list, int count, ckconv_error *err)
{
    for (int i = 0; i < count; i++) {
        if (!list[i].p && !list[i].optional && list[i].bytes > 0) {
            return ckci_fail(err, CKCONV_ERR_NULL, "args.%s is NULL: the operation needs it", list[i].name);
        }
    }
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) {
            const ckci_buffer *a = &list[i], *b = &list[j];
            if (i == j || !a->written || !a->p || !b->p || a->bytes == 0 || b->bytes == 0) {
                continue;
            }
            uintptr_t p = (uintptr_t)a->p, q = (uintptr_t)b->p;
            if (p < q + (uintptr_t)b->bytes && q < p + (uintptr_t)a->bytes && !ckci_may_alias(a, b) &&
                !ckci_interleaved(a, b)) {
                return ckci_fail(
                    err, CKCONV_ERR_ALIAS,
                    "args.%s overlaps args.%s: a written tensor must have its own memory%s", a->name, b->name,
                    b->name[1] == '[' ? " (a D tensor may be it, with the same type and strides)" : "");
            }
        }
    }
    return CKCONV_OK;
}

/* GPUs load whole elements: each pointer must be aligned to its tensor's element. */
CKCI_FN ckconv_status ckci_check_alignment(const ckci_buffer *list, int count, ckconv_error *err)
{
    for (int i = 0; i < count; i++) {
        if ((uintptr_t)list[i].p % (uintptr_t)list[i].element != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "args.%s is not aligned to its elements of %d bytes: a GPU needs that",
                             list[i].name, (int)list[i].element);
        }
    }
    return CKCONV_OK;
}

/* The buffers of any operation (ckci_list_conv and its neighbours); list has room for 20. */
CKCI_FN int ckci_list_buffers(ckconv_op op, ckci_problem *p, const ckconv_args *args, ckci_buffer *list)
{
    return op == CKCONV_CONV_CONV_FWD ? ckci_list_pair(&p->pair, args, list)
           : op <= CKCONV_BWD_WEIGHT  ? ckci_list_conv(&p->conv, args, list)
                                      : ckci_list_norm(&p->norm, args, list);
}

/* Everything that is checked before anything is touched: *p gets the problem with its pointers, *ws the
   aligned workspace. */
CKCI_FN ckconv_status ckci_check_run(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                     size_t workspace_bytes, ckci_problem *p, unsigned char **ws,
                                     ckconv_error *err)
{
    ckci_buffer list[20];
    int count;
    CKCI_TRY(ckci_recover(plan, "plan", p, err));
    if (!args) {
        return ckci_fail(err, CKCONV_ERR_NULL, "args is NULL");
    }
    count = ckci_list_buffers(plan->op, p, args, list);
    if (plan->op == CKCONV_GROUPNORM_BWD) {
        if ((args->saved_mean == NULL) != (args->saved_inv_std == NULL)) {
            return ckci_fail(err, CKCONV_ERR_NULL,
                             "args.saved_mean and args.saved_inv_std: give both or none");
        }
        if (!args->din && !args->dgamma && !args->dbeta) {
            return ckci_fail(err, CKCONV_ERR_NULL,
                             "args.din, args.dgamma and args.dbeta are all NULL: nothing to do");
        }
    }
    if (plan->workspace_bytes > 0) {
        if (!workspace || (uint64_t)workspace_bytes < (uint64_t)plan->workspace_bytes) {
            return ckci_fail(err, CKCONV_ERR_WORKSPACE,
                             "workspace %s %lld bytes: the plan needs %lld (options.max_workspace limits it)",
                             workspace ? "has" : "is NULL, with", CKCI_LL(workspace_bytes),
                             CKCI_LL(plan->workspace_bytes));
        }
        ckci_add_buffer(list, &count, "workspace", workspace, plan->workspace_bytes, 1, 0, NULL);
    }
    CKCI_TRY(ckci_check_buffers(list, count, err));
    if (plan->engine == CKCONV_ENGINE_GPU) {
        CKCI_TRY(ckci_check_alignment(list, count, err));
    }
    *ws = NULL;
    if (plan->workspace_bytes > 0) {
        uintptr_t past = (uintptr_t)workspace % CKCI_ALIGN;
        *ws = (unsigned char *)workspace + (past ? CKCI_ALIGN - past : 0);
    }
    return CKCONV_OK;
}

/* All launches of a run, after a look at each: what cannot be launched is refused before the first one. */
CKCI_FN ckconv_status ckci_queue(const ckconv_plan *plan, const ckci_instance *instance,
                                 const ckci_problem *p, const ckconv_args *args, unsigned char *ws,
                                 void *stream, ckconv_error *err)
{
    ckci_launch_count c;
    ckci_stream s;
    ckci_emitter e;
    c.device = s.device = &plan->device;
    c.count = c.mid = 0;
    s.stream = stream;
    s.launches = 0;
    if (plan->launches > 1 || plan->op == CKCONV_CONV_CONV_FWD) {
        e.emit = ckci_count_launch;
        e.context = &c;
        CKCI_TRY(instance->list(plan, p, args, ws, instance->tile_rows, &e, err));
    }
    e.emit = ckci_launch_on_stream;
    e.context = &s;
    return instance->list(plan, p, args, ws, instance->tile_rows, &e, err);
}

CKCONV_API ckconv_status ckconv_run(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                    size_t workspace_bytes, void *stream, ckconv_error *err)
{
    ckci_problem p;
    unsigned char *ws;
    CKCI_TRY(ckci_check_run(plan, args, workspace, workspace_bytes, &p, &ws, err));
    const ckci_instance *instance = ckci_find_instance(plan->instance);
    if (plan->engine == CKCONV_ENGINE_GPU) {
        CKCI_TRY(ckci_check_current(&plan->device, err));
        CKCI_TRY(ckci_queue(plan, instance, &p, args, ws, stream, err));
        return ckci_ok(err);
    }
    if ((plan->device.features & ~ckci_cpu_features()) != 0) {
        return ckci_fail(err, CKCONV_ERR_WRONG_DEVICE,
                         "the plan uses CPU features (%d) that this CPU lacks (%d)",
                         (int)plan->device.features, (int)ckci_cpu_features());
    }
    instance->run(plan, &p, args, ws, instance->features);
    return ckci_ok(err);
}

/* An emitter that copies launches for a caller. */
typedef struct ckci_launch_list {
    const ckconv_device *device;
    ckconv_launch *launches;
    int32_t capacity, count;
} ckci_launch_list;

CKCI_FN ckconv_status ckci_keep_launch(void *context, const ckci_launch *launch, ckconv_error *err)
{
    ckci_launch_list *list = (ckci_launch_list *)context;
    CKCI_TRY(ckci_check_launch(list->device, launch, err));
    if (list->count < list->capacity) {
        ckconv_launch *l = &list->launches[list->count];
        memset(l, 0, sizeof *l);
        l->kernel = ckci_kernel_name(launch->kernel);
        l->grid = launch->grid;
        l->block = launch->threads;
        l->cluster = launch->cluster;
        l->arg_bytes = (int32_t)launch->bytes;
        memcpy(l->arg, &launch->a, launch->bytes);
    }
    list->count++;
    return CKCONV_OK;
}

CKCONV_API ckconv_status ckconv_plan_launches(const ckconv_plan *plan, const ckconv_args *args,
                                              void *workspace, size_t workspace_bytes,
                                              ckconv_launch *launches, int32_t capacity, int32_t *count,
                                              ckconv_error *err)
{
    ckci_problem p;
    unsigned char *ws;
    ckci_launch_list list;
    ckci_emitter e;
    if (!count || (!launches && capacity > 0)) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", count ? "launches" : "count");
    }
    *count = 0;
    CKCI_TRY(ckci_check_magic(plan, "plan", err));
    if (plan->engine != CKCONV_ENGINE_GPU) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "engine %s has no launches: the plan must be for a GPU",
                         ckconv_engine_name(plan->engine));
    }
    CKCI_TRY(ckci_check_run(plan, args, workspace, workspace_bytes, &p, &ws, err));
    list.device = &plan->device;
    list.launches = launches;
    list.capacity = capacity;
    list.count = 0;
    e.emit = ckci_keep_launch;
    e.context = &list;
    const ckci_instance *instance = ckci_find_instance(plan->instance);
    CKCI_TRY(instance->list(plan, &p, args, ws, instance->tile_rows, &e, err));
    *count = list.count;
    return ckci_ok(err);
}

/* Append to a text that may be cut; returns the length it would have. */
CKCI_FN size_t ckci_append(char *text, size_t size, size_t at, const char *format, ...) CKCI_PRINTF(4, 5);
CKCI_FN size_t ckci_append(char *text, size_t size, size_t at, const char *format, ...)
{
    char piece[256];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(piece, sizeof piece, format, list);
    va_end(list);
    size_t length = n < 0 ? 0 : ckci_min(n, (int64_t)sizeof piece - 1) > 0 ? (size_t)ckci_min(n, 255) : 0;
    for (size_t i = 0; i < length && at + i + 1 < size; i++) {
        text[at + i] = piece[i];
    }
    if (size > 0) {
        text[at + length < size ? at + length : size - 1] = 0;
    }
    return at + length;
}

CKCI_FN size_t ckci_append_sizes(char *text, size_t size, size_t at, const char *label, const int64_t *v,
                                 int32_t ndim)
{
    for (int32_t i = 0; i < ndim; i++) {
        at = ckci_append(text, size, at, "%s%lld", i == 0 ? label : "x", CKCI_LL(v[i]));
    }
    return at;
}

CKCI_FN size_t ckci_describe_conv(char *text, size_t size, size_t at, const ckconv_conv_desc *d)
{
    at = ckci_append(text, size, at, " %s/%s/%s G%lld N%lld K%lld C%lld", ckconv_dtype_name(d->in.dtype),
                     ckconv_dtype_name(d->wei.dtype), ckconv_dtype_name(d->out.dtype), CKCI_LL(d->g),
                     CKCI_LL(d->n), CKCI_LL(d->k), CKCI_LL(d->c));
    at = ckci_append_sizes(text, size, at, " filter ", d->filter, d->ndim);
    at = ckci_append_sizes(text, size, at, " input ", d->input, d->ndim);
    return ckci_append_sizes(text, size, at, " stride ", d->stride, d->ndim);
}

/* One clause for ckconv_plan_describe: why this family. */
CKCI_FN const char *ckci_why(const ckconv_plan *plan, const ckci_problem *p, ckconv_family family)
{
    switch (family) {
    case CKCONV_FAMILY_REF:
        return "the specification, asked for by name or engine";
    case CKCONV_FAMILY_SINGLE_STAGE:
        return plan->workspace_bytes
                   ? "implicit GEMM: groups are wide enough to fill vectors, or nothing else fits"
                   : "implicit GEMM with packed blocks on the stack: no workspace allowed";
    case CKCONV_FAMILY_TWO_STAGE:
        return "implicit GEMM with a split reduction: few outputs, a long sum over batch and positions";
    case CKCONV_FAMILY_DIRECT:
        return "direct: few channels per group; lanes run over groups or positions";
    case CKCONV_FAMILY_FUSED:
        return plan->workspace_bytes
                   ? "the intermediate stays in each thread's scratch"
                   : "slow: no workspace allowed, the intermediate is computed again for each use";
    case CKCONV_FAMILY_UNFUSED:
        return ckci_pointwise(&p->pair.second)
                   ? "two convolutions through workspace"
                   : "two convolutions through workspace: the second one is not pointwise";
    default:
        return "two-pass statistics in double";
    }
}

/* Why the planner took this one; rates are the planner's model, not measurements. */
CKCI_FN const char *ckci_why_gpu(const ckconv_plan *plan, const ckci_problem *p,
                                 const ckci_instance *instance)
{
    static const char *const unit[2][2] = {
        {"implicit GEMM on the matrix unit",
         "implicit GEMM on the matrix unit; parts of the reduction go through "
         "workspace and are added in a fixed order"},
        {"implicit GEMM on the matrix unit; what it does not read as it is, it packs into workspace first",
         "implicit GEMM on the matrix unit; what it does not read as it is, it packs into workspace first; "
         "parts "
         "of the reduction are added in a fixed order"}};
    int back = plan->op == CKCONV_GROUPNORM_BWD, split = plan->split_k > 1;
    switch (instance->family) {
    case CKCONV_FAMILY_MFMA:
    case CKCONV_FAMILY_WMMA:
    case CKCONV_FAMILY_MMA:
        return unit[plan->launches > 1 + split][split];
    case CKCONV_FAMILY_DIRECT:
        return plan->op == CKCONV_BWD_WEIGHT
                   ? "few channels per group: a block owns filters, its threads share the positions"
                   : "few channels per group: a thread owns outputs, one or a strip of them";
    case CKCONV_FAMILY_FUSED:
        return instance->tile_rows == 0 ? "slow: each thread computes mid again for each use"
                                        : "mid stays in LDS";
    case CKCONV_FAMILY_UNFUSED:
        return p->pair.second.filter[0] * p->pair.second.filter[1] * p->pair.second.filter[2] > 1
                   ? "mid goes through workspace: the second filter has more than one tap"
               : ckci_conv_kind(&p->pair.first) != CKCONV_F32
                   ? "mid goes through workspace: fused kernels have f32 sums only"
                   : "mid goes through workspace: by the planner's estimate one kernel for both takes longer";
    case CKCONV_FAMILY_GROUPNORM:
        return plan->launches > (back ? 2 : 1)   ? "slabs are shared by several blocks"
               : plan->tune[CKCI_TUNE_KEPT] > 1  ? "the blocks of a cluster share a slab, which stays in LDS"
               : plan->tune[CKCI_TUNE_KEPT] == 1 ? "a block owns a slab, which stays in LDS"
                                                 : "a block owns a slab";
    default:
        return split ? "implicit GEMM on multiply-adds; parts of the reduction go through "
                       "workspace and are added in a fixed order"
                     : "implicit GEMM on multiply-adds";
    }
}

/* A text to which launches add the names of their kernels, but for the two that stand last in it: they take
   turns where a plan has many launches. */
typedef struct ckci_name_list {
    char *text;
    size_t size, at;
    int32_t count, last[2];
} ckci_name_list;

CKCI_FN ckconv_status ckci_keep_name(void *context, const ckci_launch *launch, ckconv_error *err)
{
    ckci_name_list *list = (ckci_name_list *)context;
    (void)err;
    if (launch->kernel == list->last[0] || launch->kernel == list->last[1]) {
        return CKCONV_OK;
    }
    list->last[0] = list->last[1];
    list->last[1] = launch->kernel;
    list->at = ckci_append(list->text, list->size, list->at, "%s%s", list->count++ ? ", " : "; kernels ",
                           ckci_kernel_name(launch->kernel));
    return CKCONV_OK;
}

/* The kernels that run where all tensors (but mid and saved statistics) are there and aligned: at an address
   that nothing reads. */
CKCI_FN size_t ckci_append_kernels(const ckconv_plan *plan, ckci_problem *p, const ckci_instance *instance,
                                   char *text, size_t size, size_t at)
{
    unsigned char *place = (unsigned char *)(uintptr_t)4096;
    ckci_name_list list = {text, size, at, 0, {-1, -1}};
    ckci_buffer buffers[20];
    ckci_emitter e;
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = a.wei = a.dout = a.wei1 = a.gamma = a.beta = place;
    a.d[0] = a.d[1] = a.d[2] = a.d[3] = place;
    a.out = a.din = a.dwei = a.dgamma = a.dbeta = place;
    (void)ckci_list_buffers(plan->op, p, &a, buffers);
    e.emit = ckci_keep_name;
    e.context = &list;
    return instance->list(plan, p, &a, place, instance->tile_rows, &e, NULL) == CKCONV_OK ? list.at : at;
}

CKCONV_API size_t ckconv_plan_describe(const ckconv_plan *plan, char *text, size_t size)
{
    ckci_problem p;
    size_t at = 0;
    if (!text) {
        size = 0;
    }
    ckconv_error why;
    if (ckci_refused(plan, &why)) {
        return ckci_append(text, size, 0, "refused when it was made: %s", why.text);
    }
    if (ckci_recover(plan, "plan", &p, NULL) != CKCONV_OK) {
        return ckci_append(text, size, 0, "not a plan of this version");
    }
    const ckci_instance *instance = ckci_find_instance(plan->instance);
    at = ckci_append(text, size, at, "%s", ckconv_op_name(plan->op));
    if (plan->op == CKCONV_CONV_CONV_FWD) {
        const ckconv_conv_conv_desc *d = &plan->u.conv_conv;
        at = ckci_describe_conv(text, size, at, &d->conv0);
        at = ckci_append(text, size, at, " then G%lld K%lld", CKCI_LL(d->g1), CKCI_LL(d->k1));
        at = ckci_append_sizes(text, size, at, " filter ", d->filter1, d->conv0.ndim);
    } else if (plan->op <= CKCONV_BWD_WEIGHT) {
        at = ckci_describe_conv(text, size, at, &plan->u.conv);
    } else {
        const ckconv_groupnorm_desc *d = &plan->u.groupnorm;
        at = ckci_append(text, size, at, " %s G%lld N%lld C%lld", ckconv_dtype_name(d->in.dtype),
                         CKCI_LL(d->g), CKCI_LL(d->n), CKCI_LL(d->c));
        at = ckci_append_sizes(text, size, at, " input ", d->input, d->ndim);
    }
    at = ckci_append(text, size, at, ": engine %s, %s (family %s", ckconv_engine_name(plan->engine),
                     instance->name, ckconv_family_name(instance->family));
    if (plan->engine == CKCONV_ENGINE_GPU) {
        /* codes of tiles: rows * 1000 + columns, millions are of a kind */
        int rows = (int)instance->tile_rows % CKCI_TILE_KIND, both = rows < 1000;
        at = rows == 0 ? ckci_append(text, size, at, ")")
                       : ckci_append(text, size, at, ", tile %dx%d)", both ? rows : rows / 1000, rows % 1000);
        if (instance->family == CKCONV_FAMILY_UNFUSED && plan->tune[CKCI_TUNE_SECOND] != 0) {
            at = ckci_append(text, size, at, " of %s and %s",
                             ckconv_instance_name((int32_t)plan->tune[CKCI_TUNE_FIRST]),
                             ckconv_instance_name((int32_t)plan->tune[CKCI_TUNE_SECOND]));
        }
        at = ckci_append(text, size, at,
                         ", split_k %d, %d launch%s on %s, %lld blocks of %d threads, workspace %lld bytes",
                         (int)plan->split_k, (int)plan->launches, plan->launches == 1 ? "" : "es",
                         plan->device.arch, CKCI_LL(plan->grid[0]), (int)plan->block[0],
                         CKCI_LL(plan->workspace_bytes));
        at = ckci_append(text, size, at, "; %s", ckci_why_gpu(plan, &p, instance));
        if (!ckci_find_architecture(plan->device.arch)) {
            at = ckci_append(text, size, at,
                             "; %s: no row in the table of architectures, so no matrix unit is known: "
                             "portable kernels",
                             plan->device.arch);
        }
        return ckci_append_kernels(plan, &p, instance, text, size, at);
    }
    at = ckci_append(text, size, at, ", tile %dx%d, vector %d)", (int)instance->tile_rows,
                     (int)instance->tile_columns, (int)instance->lanes);
    at = ckci_append(text, size, at,
                     ", split_k %d, %d parallel loop%s, %lld work items on %d thread%s, workspace %lld bytes",
                     (int)plan->split_k, (int)plan->launches, plan->launches == 1 ? "" : "s",
                     CKCI_LL(plan->grid[0]), (int)plan->block[0], plan->block[0] == 1 ? "" : "s",
                     CKCI_LL(plan->workspace_bytes));
    return ckci_append(text, size, at, "; %s", ckci_why(plan, &p, instance->family));
}

CKCI_FN void ckci_show_tensor(const ckci_tensor *t, const ckconv_tensor *d, int32_t ndim, int written,
                              ckconv_tensor_info *info)
{
    memset(info, 0, sizeof *info);
    info->dtype = d->dtype;
    info->layout = d->layout;
    info->rank = 3 + ndim;
    info->written = written;
    for (int i = 0; i < 3 + ndim; i++) {
        int from = i < 3 ? i : i + 3 - ndim;
        info->length[i] = t->len[from];
        info->stride[i] = t->stride[from];
    }
    info->count = ckci_count(t);
    info->bytes = ckci_span(t);
}

/* A packed vector or matrix: [a, b]. */
CKCI_FN void ckci_show_vector(ckconv_dtype dtype, int64_t a, int64_t b, ckconv_tensor_info *info)
{
    memset(info, 0, sizeof *info);
    info->dtype = dtype;
    info->rank = 2;
    info->length[0] = a;
    info->length[1] = b;
    info->stride[0] = b;
    info->stride[1] = 1;
    info->count = a * b;
    info->bytes = info->count * (int64_t)ckci_size(dtype);
}

CKCI_FN int ckci_show_conv(const ckci_conv *p, const ckconv_conv_desc *d, int32_t which,
                           ckconv_tensor_info *info)
{
    int w = ckci_written(p->op);
    const ckconv_tensor *desc[3];
    desc[CKCI_IN] = &d->in;
    desc[CKCI_WEI] = &d->wei;
    desc[CKCI_OUT] = &d->out;
    if (which >= CKCONV_TENSOR_IN && which <= CKCONV_TENSOR_OUT) {
        ckci_show_tensor(&p->t[which], desc[which], d->ndim, which == w, info);
        return 1;
    }
    if (which >= CKCONV_TENSOR_D0 && which < CKCONV_TENSOR_D0 + p->num_d) {
        int i = which - CKCONV_TENSOR_D0;
        ckci_show_tensor(&p->d[i], &d->d[i], d->ndim, 0, info);
        return 1;
    }
    return 0;
}

CKCI_FN int ckci_show_pair(const ckci_conv_conv *p, const ckconv_conv_conv_desc *d, int32_t which,
                           ckconv_tensor_info *info)
{
    ckconv_conv_desc second;
    memset(&second, 0, sizeof second);
    second.ndim = d->conv0.ndim;
    second.wei = d->wei1;
    second.out = d->out;
    memcpy(second.d, d->d, sizeof second.d);
    if (which == CKCONV_TENSOR_IN || which == CKCONV_TENSOR_WEI) {
        return ckci_show_conv(&p->first, &d->conv0, which, info);
    }
    if (which == CKCONV_TENSOR_MID) {
        ckci_show_tensor(&p->first.t[CKCI_OUT], &d->conv0.out, d->conv0.ndim, 1, info);
        return 1;
    }
    if (which == CKCONV_TENSOR_WEI1) {
        return ckci_show_conv(&p->second, &second, CKCONV_TENSOR_WEI, info);
    }
    if (which == CKCONV_TENSOR_CHANNEL) {
        ckci_show_vector(p->first.t[0].dtype == CKCONV_F64 ? (ckconv_dtype)CKCONV_F64
                                                           : (ckconv_dtype)CKCONV_F32,
                         p->first.g, p->first.k, info);
        return 1;
    }
    return ckci_show_conv(&p->second, &second, which, info);
}

CKCI_FN int ckci_show_norm(const ckci_groupnorm *p, const ckconv_groupnorm_desc *d, int32_t which,
                           ckconv_tensor_info *info)
{
    int fwd = p->op == CKCONV_GROUPNORM_FWD;
    if (which == CKCONV_TENSOR_IN) {
        ckci_show_tensor(&p->in, &d->in, d->ndim, 0, info);
    } else if (which == CKCONV_TENSOR_OUT) {
        ckci_show_tensor(&p->out, &d->out, d->ndim, fwd, info);
    } else if (which == CKCONV_TENSOR_DIN && !fwd) {
        ckci_show_tensor(&p->din, &d->din, d->ndim, 1, info);
    } else if (which == CKCONV_TENSOR_CHANNEL) {
        ckci_show_vector(p->param, p->g, p->c, info);
    } else if (which == CKCONV_TENSOR_STAT) {
        ckci_show_vector(p->stat, p->n, p->g, info);
    } else {
        return 0;
    }
    return 1;
}

CKCONV_API ckconv_status ckconv_plan_tensor(const ckconv_plan *plan, int32_t which, ckconv_tensor_info *info,
                                            ckconv_error *err)
{
    ckci_problem p;
    if (!info) {
        return ckci_fail(err, CKCONV_ERR_NULL, "info is NULL");
    }
    CKCI_TRY(ckci_recover(plan, "plan", &p, err));
    int found = plan->op == CKCONV_CONV_CONV_FWD ? ckci_show_pair(&p.pair, &plan->u.conv_conv, which, info)
                : plan->op <= CKCONV_BWD_WEIGHT  ? ckci_show_conv(&p.conv, &plan->u.conv, which, info)
                                                 : ckci_show_norm(&p.norm, &plan->u.groupnorm, which, info);
    if (!found) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "which is %d: %s has no such tensor", (int)which,
                         ckconv_op_name(plan->op));
    }
    return ckci_ok(err);
}

/* One call. A workspace that is too small for the best plan selects one that it holds. */
CKCI_FN ckconv_options ckci_one_call(const void *workspace, size_t bytes)
{
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.max_workspace = !workspace || bytes == 0                     ? -1
                      : (uint64_t)bytes < (uint64_t)CKCI_MAX_BYTES ? (int64_t)bytes
                                                                   : CKCI_MAX_BYTES;
    return o;
}

CKCI_FN ckconv_status ckci_call_conv(ckconv_op op, const ckconv_conv_desc *desc, const ckconv_args *args,
                                     void *workspace, size_t bytes, void *stream, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_one_call(workspace, bytes);
    CKCI_TRY(ckconv_plan_conv(&plan, op, desc, &o, NULL, err));
    return ckconv_run(&plan, args, workspace, bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_fwd(const ckconv_conv_desc *desc, const void *in, const void *wei, void *out,
                                    void *workspace, size_t workspace_bytes, void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.wei = wei;
    a.out = out;
    return ckci_call_conv(CKCONV_FWD, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_bwd_data(const ckconv_conv_desc *desc, void *din, const void *wei,
                                         const void *dout, void *workspace, size_t workspace_bytes,
                                         void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.din = din;
    a.wei = wei;
    a.dout = dout;
    return ckci_call_conv(CKCONV_BWD_DATA, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_bwd_weight(const ckconv_conv_desc *desc, const void *in, void *dwei,
                                           const void *dout, void *workspace, size_t workspace_bytes,
                                           void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.dwei = dwei;
    a.dout = dout;
    return ckci_call_conv(CKCONV_BWD_WEIGHT, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_conv_conv_fwd(const ckconv_conv_conv_desc *desc, const void *in,
                                              const void *wei0, const void *wei1, void *out, void *workspace,
                                              size_t workspace_bytes, void *stream, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_args a;
    ckconv_options o = ckci_one_call(workspace, workspace_bytes);
    memset(&a, 0, sizeof a);
    a.in = in;
    a.wei = wei0;
    a.wei1 = wei1;
    a.out = out;
    CKCI_TRY(ckconv_plan_conv_conv(&plan, desc, &o, NULL, err));
    return ckconv_run(&plan, &a, workspace, workspace_bytes, stream, err);
}

CKCI_FN ckconv_status ckci_call_norm(ckconv_op op, const ckconv_groupnorm_desc *desc, const ckconv_args *args,
                                     void *workspace, size_t bytes, void *stream, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_one_call(workspace, bytes);
    CKCI_TRY(ckconv_plan_groupnorm(&plan, op, desc, &o, NULL, err));
    return ckconv_run(&plan, args, workspace, bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_groupnorm_fwd(const ckconv_groupnorm_desc *desc, const void *in,
                                              const void *gamma, const void *beta, void *out, void *mean,
                                              void *inv_std, void *workspace, size_t workspace_bytes,
                                              void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.gamma = gamma;
    a.beta = beta;
    a.out = out;
    a.mean = mean;
    a.inv_std = inv_std;
    return ckci_call_norm(CKCONV_GROUPNORM_FWD, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_groupnorm_bwd(const ckconv_groupnorm_desc *desc, const void *in,
                                              const void *gamma, const void *beta, const void *dout,
                                              const void *mean, const void *inv_std, void *din, void *dgamma,
                                              void *dbeta, void *workspace, size_t workspace_bytes,
                                              void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.gamma = gamma;
    a.beta = beta;
    a.dout = dout;
    a.saved_mean = mean;
    a.saved_inv_std = inv_std;
    a.din = din;
    a.dgamma = dgamma;
    a.dbeta = dbeta;
    return ckci_call_norm(CKCONV_GROUPNORM_BWD, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API int32_t ckconv_instance_count(void)
{
    int32_t count = 0;
    while (ckci_find_instance(count)) {
        count++;
    }
    return count;
}

CKCONV_API const char *ckconv_instance_name(int32_t index)
{
    const ckci_instance *i = ckci_find_instance(index);
    return i ? i->name : NULL;
}

CKCONV_API ckconv_engine ckconv_instance_engine(int32_t index)
{
    const ckci_instance *i = ckci_find_instance(index);
    return i ? i->engine : 0;
}

CKCONV_API ckconv_family ckconv_instance_family(int32_t index)
{
    const ckci_instance *i = ckci_find_instance(index);
    return i ? i->family : 0;
}

CKCONV_API int ckconv_instance_does(int32_t index, ckconv_op op)
{
    const ckci_instance *i = ckci_find_instance(index);
    return i && op >= CKCONV_FWD && op <= CKCONV_GROUPNORM_BWD && (i->op == 0 || i->op == op);
}

/* The options under which an instance is tried: those that base was planned with. */
CKCI_FN ckconv_options ckci_options_of(const ckconv_plan *base, int32_t index)
{
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.engine = ckconv_instance_engine(index);
    o.max_workspace = base->tune[CKCI_TUNE_LIMIT];
    o.split_k = (int32_t)base->tune[CKCI_TUNE_SPLIT];
    o.flags = (int32_t)base->tune[CKCI_TUNE_FLAGS];
    return o;
}

CKCONV_API ckconv_status ckconv_instance_supports(int32_t index, const ckconv_plan *base, ckconv_error *err)
{
    ckconv_plan plan;
    if (!ckci_find_instance(index)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "index is %d: there are %d instances", (int)index,
                         (int)ckconv_instance_count());
    }
    CKCI_TRY(ckci_check_magic(base, "base", err));
    ckconv_options o = ckci_options_of(base, index);
    return ckci_plan_again(&plan, base, &o, index, err);
}

CKCONV_API const char *ckconv_family_name(ckconv_family family)
{
    static const char *const names[] = {"ref",    "single_stage", "two_stage", "direct",
                                        "fused",  "unfused",      "groupnorm", "multiple_d",
                                        "vector", "mfma",         "wmma",      "mma"};
    return family >= CKCONV_FAMILY_REF && family <= CKCONV_FAMILY_MMA ? names[family - 1] : NULL;
}

/* Median seconds of `repeats` runs after one warm-up. */
CKCI_FN ckconv_status ckci_time_plan(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                     size_t bytes, void *stream, int32_t repeats, double *seconds,
                                     ckconv_error *err)
{
    enum { CKCI_MOST = 64 };
    double t[CKCI_MOST];
    ckconv_timer timer;
    CKCI_TRY(ckconv_timer_create(&plan->device, &timer, err));
    for (int32_t i = -1; i < repeats; i++) {
        ckconv_timer_start(&plan->device, &timer, stream);
        ckconv_status s = ckconv_run(plan, args, workspace, bytes, stream, err);
        if (s != CKCONV_OK) {
            ckconv_timer_destroy(&plan->device, &timer);
            return s;
        }
        ckconv_timer_stop(&plan->device, &timer, stream);
        if (i < 0) {
            continue;
        }
        double now = ckconv_timer_seconds(&plan->device, &timer);
        if (now < 0) {
            ckconv_timer_destroy(&plan->device, &timer);
            return ckci_fail(err, CKCONV_ERR_LAUNCH, "%s: its time could not be taken, or it failed",
                             ckconv_instance_name(plan->instance));
        }
        int32_t at = i;
        while (at > 0 && t[at - 1] > now) {
            t[at] = t[at - 1];
            at--;
        }
        t[at] = now;
    }
    ckconv_timer_destroy(&plan->device, &timer);
    *seconds = t[repeats / 2];
    return CKCONV_OK;
}

CKCONV_API ckconv_status ckconv_tune(const ckconv_plan *base, const ckconv_args *args, void *workspace,
                                     size_t workspace_bytes, void *stream, int32_t repeats,
                                     ckconv_choice *choices, int32_t capacity, int32_t *count,
                                     ckconv_error *err)
{
    ckci_problem p;
    if (!choices || !count || !args) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL",
                         !choices ? "choices"
                         : !count ? "count"
                                  : "args");
    }
    *count = 0;
    if (capacity < 1) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "capacity is %d: must be 1 or more", (int)capacity);
    }
    if (repeats < 1 || repeats > 64) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "repeats is %d: must be 1 to 64", (int)repeats);
    }
    CKCI_TRY(ckci_recover(base, "base", &p, err));
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        ckconv_plan plan;
        ckconv_choice choice;
        ckconv_options o = ckci_options_of(base, i);
        ckconv_options given = ckci_one_call(workspace, workspace_bytes);
        if (o.max_workspace == 0 || (given.max_workspace < o.max_workspace && o.max_workspace > 0)) {
            o.max_workspace = given.max_workspace;
        }
        if (ckconv_instance_engine(i) != base->engine ||
            ckci_plan_again(&plan, base, &o, i, NULL) != CKCONV_OK) {
            continue;
        }
        memset(&choice, 0, sizeof choice);
        choice.instance = i;
        choice.split_k = plan.split_k;
        choice.workspace_bytes = plan.workspace_bytes;
        CKCI_TRY(
            ckci_time_plan(&plan, args, workspace, workspace_bytes, stream, repeats, &choice.seconds, err));
        int32_t at = *count < capacity ? (*count)++ : capacity;
        while (at > 0 && choices[at - 1].seconds > choice.seconds) {
            if (at < capacity) {
                choices[at] = choices[at - 1];
            }
            at--;
        }
        if (at < capacity) {
            choices[at] = choice;
        }
    }
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_plan_choice(ckconv_plan *plan, const ckconv_plan *base,
                                            const ckconv_choice *choice, ckconv_error *err)
{
    ckconv_error why;
    memset(&why, 0, sizeof why);
    if (!choice || !base) {
        ckci_fail(&why, CKCONV_ERR_NULL, "%s is NULL", choice ? "base" : "choice");
    } else if (!ckci_find_instance(choice->instance)) {
        ckci_fail(&why, CKCONV_ERR_ARGUMENT, "choice.instance is %d: there are %d instances",
                  (int)choice->instance, (int)ckconv_instance_count());
    }
    if (why.status != CKCONV_OK) {
        return ckci_refuse(plan, &why, err);
    }
    ckconv_options o = ckci_options_of(base, choice->instance);
    o.split_k = choice->split_k;
    o.max_workspace = choice->workspace_bytes > 0 ? choice->workspace_bytes : -1;
    return ckci_plan_again(plan, base, &o, choice->instance, err);
}

CKCONV_API size_t ckconv_choice_to_text(const ckconv_choice *choice, char *text, size_t size)
{
    const char *name = choice ? ckconv_instance_name(choice->instance) : NULL;
    if (!text) {
        size = 0;
    }
    return ckci_append(text, size, 0, "%s split_k=%d seconds=%.9g workspace=%lld", name ? name : "?",
                       choice ? (int)choice->split_k : 0, choice ? choice->seconds : 0.0,
                       CKCI_LL(choice ? choice->workspace_bytes : 0));
}

CKCONV_API ckconv_status ckconv_choice_from_text(ckconv_choice *choice, const char *text, ckconv_error *err)
{
    char name[64];
    long long split = 0, bytes = 0;
    double seconds = 0;
    int end = 0;
    if (!choice || !text) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", choice ? "text" : "choice");
    }
    /* bounded field widths: scanning a number that overflows is undefined */
    int fields = sscanf(text, "%63s split_k=%9lld seconds=%30lf workspace=%18lld%n", name, &split, &seconds,
                        &bytes, &end);
    end += fields == 4 && text[end] == '\n';
    if (fields != 4 || text[end] != 0 || split < 0 || split > 65536 || !(seconds >= 0) || bytes < 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "text is '%.60s': not a line of ckconv_choice_to_text",
                         text);
    }
    for (int32_t i = 0; ckconv_instance_name(i); i++) {
        if (strcmp(ckconv_instance_name(i), name) == 0) {
            memset(choice, 0, sizeof *choice);
            choice->instance = i;
            choice->split_k = (int32_t)split;
            choice->seconds = seconds;
            choice->workspace_bytes = bytes;
            return ckci_ok(err);
        }
    }
    return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                     "text names instance '%.63s': this version has none of that name", name);
}

typedef struct ckci_move {
    const ckci_tensor *src, *dst;
} ckci_move;

/* One work item moves the positions of one (outermost two axes) pair. */
CKCI_FN void ckci_move_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_move *m = (const ckci_move *)context;
    const int64_t *len = m->dst->len;
    int64_t at[6], from = (int64_t)ckci_size(m->src->dtype), to = (int64_t)ckci_size(m->dst->dtype);
    (void)scratch;
    at[1] = item % len[1];
    at[0] = item / len[1];
    for (at[2] = 0; at[2] < len[2]; at[2]++) {
        for (at[3] = 0; at[3] < len[3]; at[3]++) {
            for (at[4] = 0; at[4] < len[4]; at[4]++) {
                at[5] = 0;
                const unsigned char *p = m->src->p + ckci_offset(m->src->stride, at) * from;
                unsigned char *q = m->dst->p + ckci_offset(m->dst->stride, at) * to;
                for (int64_t x = 0; x < len[5]; x++) {
                    const unsigned char *r = p + x * m->src->stride[5] * from;
                    unsigned char *w = q + x * m->dst->stride[5] * to;
                    if (m->src->dtype == m->dst->dtype) {
                        memcpy(w, r, (size_t)to);
                    } else {
                        ckci_store(m->dst->dtype, w, ckci_load(m->src->dtype, r));
                    }
                }
            }
        }
    }
}

/* Both tensors of a transform in their final form; element: alignment that pointers must have. */
CKCI_FN ckconv_status ckci_check_transform(int32_t ndim, const int64_t *length, const ckconv_tensor *src_desc,
                                           const void *src, const ckconv_tensor *dst_desc, void *dst, int gpu,
                                           ckci_tensor t[2], ckconv_error *err)
{
    int64_t len[6];
    if (ndim < 1 || ndim > 3) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "ndim is %d: must be 1, 2 or 3", (int)ndim);
    }
    if (!length || !src_desc || !dst_desc) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL",
                         !length     ? "length"
                         : !src_desc ? "src_desc"
                                     : "dst_desc");
    }
    for (int i = 0; i < 6; i++) {
        int from = i < 3 ? i : i - (3 - ndim);
        len[i] = i < 3 || from >= 3 ? length[from] : 1;
        if (i < 3 || from >= 3) {
            CKCI_TRY(
                ckci_check_range("", "length", "", from, len[i], i == 1 ? 0 : 1, "1 or more (0 for N)", err));
        }
    }
    for (int i = 0; i < 2; i++) {
        ckconv_tensor d = i == 0 ? *src_desc : *dst_desc;
        const char *name = i == 0 ? "src_desc" : "dst_desc";
        int weight = d.layout == CKCONV_GKYXC || d.layout == CKCONV_GKCYX;
        ckci_default_tensor(&d, CKCONV_F32, CKCONV_NHWGC);
        CKCI_TRY(ckci_check_tensor("", name, &d, weight ? CKCI_ROLE_WEIGHT : CKCI_ROLE_ACTIVATION, 3 + ndim,
                                   0, err));
        CKCI_TRY(ckci_resolve("", name, &d, ndim, len, i == 1, &t[i], err));
    }
    t[0].p = (unsigned char *)(uintptr_t)src;
    t[1].p = (unsigned char *)dst;
    ckci_buffer list[2];
    int count = 0;
    ckci_add_buffer(list, &count, "src", src, ckci_span(&t[0]), 0, 0, NULL);
    ckci_add_buffer(list, &count, "dst", dst, ckci_span(&t[1]), 1, 0, NULL);
    for (int i = 0; i < 2; i++) {
        list[i].element = (int32_t)ckci_size(t[i].dtype);
    }
    CKCI_TRY(ckci_check_buffers(list, count, err));
    return gpu ? ckci_check_alignment(list, count, err) : CKCONV_OK;
}

CKCONV_API ckconv_status ckconv_transform(int32_t ndim, const int64_t *length, const ckconv_tensor *src_desc,
                                          const void *src, const ckconv_tensor *dst_desc, void *dst,
                                          void *stream, ckconv_error *err)
{
    ckci_tensor t[2];
    ckci_move m;
    ckconv_device cpu;
    (void)stream;
    CKCI_TRY(ckci_check_transform(ndim, length, src_desc, src, dst_desc, dst, 0, t, err));
    m.src = &t[0];
    m.dst = &t[1];
    ckconv_device_cpu(&cpu);
    ckci_parallel(ckci_count(&t[0]) < 65536 ? 1 : cpu.threads, t[0].len[0] * t[0].len[1], ckci_move_item, &m,
                  NULL, 0);
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_device_transform(const ckconv_device *device, int32_t ndim,
                                                 const int64_t *length, const ckconv_tensor *src_desc,
                                                 const void *src, const ckconv_tensor *dst_desc, void *dst,
                                                 void *stream, ckconv_error *err)
{
    ckci_tensor t[2];
    ckci_launch l;
    if (!device) {
        return ckci_fail(err, CKCONV_ERR_NULL, "device is NULL");
    }
    CKCI_TRY(ckci_check_device(device, err));
    if (device->kind == CKCONV_DEVICE_CPU) {
        return ckconv_transform(ndim, length, src_desc, src, dst_desc, dst, stream, err);
    }
    CKCI_TRY(ckci_check_transform(ndim, length, src_desc, src, dst_desc, dst, 1, t, err));
    CKCI_TRY(ckci_check_current(device, err));
    if (ckci_count(&t[0]) > 0) {
        ckci_stream s;
        s.device = device;
        s.stream = stream;
        s.launches = 0;
        CKCI_TRY(ckci_make_move(device, &t[0], &t[1], &l, err));
        CKCI_TRY(ckci_launch_on_stream(&s, &l, err));
    }
    return ckci_ok(err);
}

CKCI_FN ckconv_options ckci_ref_options(void)
{
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.engine = CKCONV_ENGINE_REF;
    return o;
}

CKCONV_API ckconv_status ckconv_ref_conv(ckconv_op op, const ckconv_conv_desc *desc, const ckconv_args *args,
                                         ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_ref_options();
    CKCI_TRY(ckconv_plan_conv(&plan, op, desc, &o, NULL, err));
    return ckconv_run(&plan, args, NULL, 0, NULL, err);
}

CKCONV_API ckconv_status ckconv_ref_conv_conv(const ckconv_conv_conv_desc *desc, const ckconv_args *args,
                                              ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_ref_options();
    CKCI_TRY(ckconv_plan_conv_conv(&plan, desc, &o, NULL, err));
    return ckconv_run(&plan, args, NULL, 0, NULL, err);
}

CKCONV_API ckconv_status ckconv_ref_groupnorm(ckconv_op op, const ckconv_groupnorm_desc *desc,
                                              const ckconv_args *args, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_ref_options();
    CKCI_TRY(ckconv_plan_groupnorm(&plan, op, desc, &o, NULL, err));
    return ckconv_run(&plan, args, NULL, 0, NULL, err);
}

CKCONV_API int32_t ckconv_version(void)
{
    return CKCONV_VERSION;
}

CKCONV_API const char *ckconv_status_text(ckconv_status status)
{
    static const char *const texts[] = {"ok",
                                        "argument not allowed",
                                        "required pointer is NULL",
                                        "size does not fit",
                                        "workspace too small",
                                        "not supported",
                                        "not a plan of this version",
                                        "no device code in this build",
                                        "no such device",
                                        "wrong device",
                                        "GPU runtime refused",
                                        "out of memory",
                                        "tensors overlap"};
    return status >= 0 && status < (ckconv_status)(sizeof texts / sizeof texts[0]) ? texts[status]
                                                                                   : "unknown status";
}

/* A name and its value; tables end with NULL. The first name of a value is the one that is printed. */
typedef struct ckci_name {
    const char *name;
    int32_t value;
} ckci_name;

CKCI_FN const char *ckci_name_of(const ckci_name *table, int32_t value)
{
    while (table->name && table->value != value) {
        table++;
    }
    return table->name;
}

CKCI_FN int32_t ckci_value_of(const ckci_name *table, const char *name, int32_t unknown)
{
    while (table->name && !ckci_same_text(table->name, name)) {
        table++;
    }
    return table->name ? table->value : unknown;
}

CKCI_FN const ckci_name *ckci_dtype_names(void)
{
    static const ckci_name table[] = {{"f64", CKCONV_F64},
                                      {"f32", CKCONV_F32},
                                      {"f16", CKCONV_F16},
                                      {"bf16", CKCONV_BF16},
                                      {"f8e4m3", CKCONV_F8E4M3},
                                      {"f8e5m2", CKCONV_F8E5M2},
                                      {"f8e4m3fnuz", CKCONV_F8E4M3FNUZ},
                                      {"f8e5m2fnuz", CKCONV_F8E5M2FNUZ},
                                      {"i8", CKCONV_I8},
                                      {"i32", CKCONV_I32},
                                      {"tf32", CKCONV_TF32},
                                      {"bf16x3", CKCONV_BF16X3},
                                      {NULL, 0}};
    return table;
}

CKCI_FN const ckci_name *ckci_layout_names(void)
{
    static const ckci_name table[] = {
        {"NHWGC", CKCONV_NHWGC},     {"NWGC", CKCONV_NHWGC},      {"NDHWGC", CKCONV_NHWGC},
        {"NHWGK", CKCONV_NHWGC},     {"NWGK", CKCONV_NHWGC},      {"NDHWGK", CKCONV_NHWGC},
        {"GNHWC", CKCONV_GNHWC},     {"GNWC", CKCONV_GNHWC},      {"GNDHWC", CKCONV_GNHWC},
        {"GNHWK", CKCONV_GNHWC},     {"GNWK", CKCONV_GNHWC},      {"GNDHWK", CKCONV_GNHWC},
        {"NGCHW", CKCONV_NGCHW},     {"NGCW", CKCONV_NGCHW},      {"NGCDHW", CKCONV_NGCHW},
        {"NGKHW", CKCONV_NGCHW},     {"NGKW", CKCONV_NGCHW},      {"NGKDHW", CKCONV_NGCHW},
        {"GKYXC", CKCONV_GKYXC},     {"GKXC", CKCONV_GKYXC},      {"GKZYXC", CKCONV_GKYXC},
        {"GKCYX", CKCONV_GKCYX},     {"GKCX", CKCONV_GKCYX},      {"GKCZYX", CKCONV_GKCYX},
        {"CHANNEL", CKCONV_CHANNEL}, {"STRIDED", CKCONV_STRIDED}, {NULL, 0}};
    return table;
}

CKCI_FN const ckci_name *ckci_op_names(void)
{
    static const ckci_name table[] = {{"fwd", CKCONV_FWD},
                                      {"bwd_data", CKCONV_BWD_DATA},
                                      {"bwd_weight", CKCONV_BWD_WEIGHT},
                                      {"conv_conv_fwd", CKCONV_CONV_CONV_FWD},
                                      {"groupnorm_fwd", CKCONV_GROUPNORM_FWD},
                                      {"groupnorm_bwd", CKCONV_GROUPNORM_BWD},
                                      {NULL, 0}};
    return table;
}

CKCI_FN const ckci_name *ckci_element_names(void)
{
    static const ckci_name table[] = {{"pass", CKCONV_PASS},
                                      {"scale", CKCONV_SCALE},
                                      {"relu", CKCONV_RELU},
                                      {"clamp", CKCONV_CLAMP},
                                      {"sigmoid", CKCONV_SIGMOID},
                                      {"silu", CKCONV_SILU},
                                      {"gelu", CKCONV_GELU},
                                      {"bilinear", CKCONV_BILINEAR},
                                      {"scale_add", CKCONV_SCALE_ADD},
                                      {"bias", CKCONV_BIAS},
                                      {"bias_relu", CKCONV_BIAS_RELU},
                                      {"bias_residual_relu", CKCONV_BIAS_RESIDUAL_RELU},
                                      {"add", CKCONV_ADD},
                                      {"add_relu", CKCONV_ADD_RELU},
                                      {NULL, 0}};
    return table;
}

CKCI_FN const ckci_name *ckci_engine_names(void)
{
    static const ckci_name table[] = {{"auto", CKCONV_ENGINE_AUTO},
                                      {"ref", CKCONV_ENGINE_REF},
                                      {"cpu", CKCONV_ENGINE_CPU},
                                      {"gpu", CKCONV_ENGINE_GPU},
                                      {NULL, 0}};
    return table;
}

CKCONV_API const char *ckconv_dtype_name(ckconv_dtype dtype)
{
    return ckci_name_of(ckci_dtype_names(), dtype);
}

CKCONV_API ckconv_dtype ckconv_dtype_from_name(const char *name)
{
    return ckci_value_of(ckci_dtype_names(), name, 0);
}

CKCONV_API const char *ckconv_layout_name(ckconv_layout layout)
{
    return ckci_name_of(ckci_layout_names(), layout);
}

CKCONV_API ckconv_layout ckconv_layout_from_name(const char *name)
{
    return ckci_value_of(ckci_layout_names(), name, 0);
}

CKCONV_API const char *ckconv_op_name(ckconv_op op)
{
    return ckci_name_of(ckci_op_names(), op);
}

CKCONV_API ckconv_op ckconv_op_from_name(const char *name)
{
    return ckci_value_of(ckci_op_names(), name, 0);
}

CKCONV_API const char *ckconv_element_name(ckconv_element kind)
{
    return ckci_name_of(ckci_element_names(), kind);
}

CKCONV_API ckconv_element ckconv_element_from_name(const char *name)
{
    return ckci_value_of(ckci_element_names(), name, -1);
}

CKCONV_API const char *ckconv_engine_name(ckconv_engine engine)
{
    return ckci_name_of(ckci_engine_names(), engine);
}

CKCONV_API ckconv_engine ckconv_engine_from_name(const char *name)
{
    return ckci_value_of(ckci_engine_names(), name, -1);
}

CKCONV_API size_t ckconv_dtype_size(ckconv_dtype dtype)
{
    return ckci_size(dtype);
}

/* x rounded to odd: a second rounding, to half or bf16, then gives what a single one would. */
CKCI_INLINE float ckci_odd_float(double x)
{
    float f = (float)x;
    if ((double)f != x && !ckci_is_nan(x)) {
        uint32_t u = ckci_float_bits(f);
        u -= ((double)f > x && x > 0) || ((double)f < x && x < 0) ? 1U : 0U; /* towards zero */
        f = ckci_bits_float(u | 1);
    }
    return f;
}

CKCONV_API void ckconv_from_double(ckconv_dtype dtype, const double *src, void *dst, size_t count)
{
    size_t size = ckci_size(dtype), done = 0;
    if (dtype == CKCONV_F32) {
        for (; done < count; done++) {
            float f = (float)src[done];
            memcpy((unsigned char *)dst + done * 4, &f, 4);
        }
    } else if (dtype == CKCONV_F16 || dtype == CKCONV_BF16) {
        for (; done < count; done++) {
            float f = ckci_odd_float(src[done]);
            uint16_t h = dtype == CKCONV_F16 ? ckci_float_half(f) : ckci_float_bf16(f);
            memcpy((unsigned char *)dst + done * 2, &h, 2);
        }
    }
    for (size_t i = done; i < count && size; i++) {
        ckci_store(dtype, (unsigned char *)dst + i * size, src[i]);
    }
}

CKCONV_API void ckconv_to_double(ckconv_dtype dtype, const void *src, double *dst, size_t count)
{
    size_t size = ckci_size(dtype), done = 0;
    const unsigned char *p = (const unsigned char *)src;
    if (dtype == CKCONV_F32) {
        for (; done < count; done++) {
            float f;
            memcpy(&f, p + done * 4, 4);
            dst[done] = (double)f;
        }
    } else if (dtype == CKCONV_F16 || dtype == CKCONV_BF16) {
        for (; done < count; done++) {
            uint16_t h;
            memcpy(&h, p + done * 2, 2);
            dst[done] = (double)(dtype == CKCONV_F16 ? ckci_half_float(h) : ckci_bf16_float(h));
        }
    }
    for (size_t i = done; i < count && size; i++) {
        dst[i] = ckci_load(dtype, p + i * size);
    }
}

CKCONV_API ckconv_status ckconv_conv_output(const ckconv_conv_desc *desc, int64_t *out, ckconv_error *err)
{
    if (!desc || !out) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", desc ? "out" : "desc");
    }
    ckconv_conv_desc d = *desc;
    int64_t size[3] = {0, 0, 0};
    CKCI_TRY(ckci_check_ndim("", d.ndim, err));
    ckci_default_sizes(&d);
    CKCI_TRY(ckci_check_sizes("", "", &d, err));
    for (int i = 0; i < d.ndim; i++) {
        CKCI_TRY(ckci_check_output("", "", &d, i, &size[i], err));
    }
    memcpy(out, size, (size_t)d.ndim * sizeof out[0]);
    return ckci_ok(err);
}

#ifdef __cplusplus
}
#endif


/*------------------------------------------------------------------------------------------------------------
  >>undef
*/
#undef CKCI_ARCHITECTURES
#undef CKCI_CPU_ROWS
#undef CKCI_DEPTH_SHEET_COLUMNS
#undef CKCI_DEPTH_DEEP_STRIP
#undef CKCI_DEPTH_DEEP_ALONE
#undef CKCI_DEPTH_DEEP_MOST
#undef CKCI_DEPTH_DOWN_FREE
#undef CKCI_DEPTH_DOWN_LANES
#undef CKCI_DEPTH_DOWN_STRIP
#undef CKCI_FN
#undef CKCI_GPU_DEPTH
#undef CKCI_GPU_FMA
#undef CKCI_GPU_FMA_TILES
#undef CKCI_GROUP_STAGES
#undef CKCI_STREAM_TAPS
#undef CKCI_MATRIX_FAR
#undef CKCI_GPU_INSTANCES
#undef CKCI_GPU_KERNELS
#undef CKCI_GPU_MATRIX
#undef CKCI_GPU_MATRIX_DOUBLE
#undef CKCI_GPU_MATRIX_LARGE
#undef CKCI_GPU_MATRIX_NEAR
#undef CKCI_GPU_MATRIX_STEM
#undef CKCI_GPU_MATRIX_ROW
#undef CKCI_GPU_MATRIX_SINGLE
#undef CKCI_NEAR_AMD_BYTES
#undef CKCI_NEAR_AMD_PIXELS
#undef CKCI_NEAR_AMD_POSITIONS
#undef CKCI_NEAR_BESIDE
#undef CKCI_DIRECT_BESIDE
#undef CKCI_DIRECT_WEIGHT_BESIDE
#undef CKCI_FUSED_BESIDE
#undef CKCI_RECOMPUTE_BESIDE
#undef CKCI_UNFUSED_MORE
#undef CKCI_NEAR_NVIDIA_BYTES
#undef CKCI_NEAR_NVIDIA_PIXELS
#undef CKCI_NEAR_NVIDIA_POSITIONS
#undef CKCI_NEAR_PITCH
#undef CKCI_STEM_BACK_PIXELS
#undef CKCI_STEM_COLUMNS
#undef CKCI_STEM_PAIRS
#undef CKCI_STEM_PIXELS
#undef CKCI_STEM_PLANES
#undef CKCI_STEM_POSITIONS
#undef CKCI_STEM_WEIGHTS
#undef CKCI_PAIR_AMD
#undef CKCI_PAIR_COPIES
#undef CKCI_PAIR_LIST
#undef CKCI_PAIR_NVIDIA
#undef CKCI_PAIR_NVIDIA_WIDE
#undef CKCI_PAIR_POINT_AMD
#undef CKCI_PAIR_POINT_NVIDIA
#undef CKCI_PAIR_STRIPS
#undef CKCI_GPU_MATRIX_TILES
#undef CKCI_GPU_MATRIX_WHOLE
#undef CKCI_GPU_TILES
#undef CKCI_INLINE
#undef CKCI_INSTANCES
#undef CKCI_LL
#undef CKCI_MAX_BYTES
#undef CKCI_PRINTF
#undef CKCI_COLD
#undef CKCI_BF16_DOT
#undef CKCI_TRY
#undef CKCI_X86

#if CKCI_GPU_COMPILER
#undef CKCI_GPU
#undef CKCI_GPU_UNITS
#undef CKCI_GPU_WAVE
#endif
#undef CKCI_GPU_COMPILER
#ifdef CKCI_PRECISE
#if CKCI_PRECISE == 2
#pragma float_control(pop)
#else
#pragma GCC pop_options
#endif
#undef CKCI_PRECISE
#endif
#endif /* CKCONV_IMPLEMENTED */
#endif /* CKCONV_IMPLEMENTATION */


/*------------------------------------------------------------------------------------------------------------
  >>license
  MIT License

  Copyright (c) 2026 the ckconv authors

  Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
  documentation files (the "Software"), to deal in the Software without restriction, including without
  limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of
  the Software, and to permit persons to whom the Software is furnished to do so, subject to the following
  conditions:

  The above copyright notice and this permission notice shall be included in all copies or substantial
  portions of the Software.

  THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
  LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
  EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN
  AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE
  OR OTHER DEALINGS IN THE SOFTWARE.
*/
