/*------------------------------------------------------------------------------------------------------------
  >>gpu-costs
  What families of gpu/ count their time in: nanoseconds of four kinds, each scaled to the device. Constants
  in the families were measured on an H100, or fitted beside it; a term says of what kind a time is, and
  becomes that of the device by the ratio of its figures (core/target.h) to the H100's, and by the caller's
  corrections, ckconv_device.costs. For NVIDIA the ratios are 1: its tiles' slowness is in their table. No
  figure says how long a launch waits, or a block: 1 until a fit knows it. Families were measured each beside
  its like: ckci_fit.ns tells what a run takes.
*/
#pragma once
#include "core/problem.h"
#include "core/target.h"

/* An H100: GHz, bytes of memory in a nanosecond, units, multiply-adds of a unit in a clock. */
#define CKCI_H100_GHZ 1.83
#define CKCI_H100_BYTES 3350.0
#define CKCI_H100_UNITS 132.0
#define CKCI_H100_FMA 128.0
#define CKCI_H100_HALF 2048.0

/* Multiply-adds in a nanosecond, in which kernels outside the matrix unit count; those of FMA tiles are a
   hundred really (H100), and depthwise kernels count theirs in ten. AMD, where f32 tiles of both kinds are
   compared, gets the real ones. */
#define CKCI_FMA_NS 218.0
#define CKCI_FMA_REAL 2.18
#define CKCI_DEPTH_REAL 21.8

/* Beyond all others, by which a plan still runs. */
#define CKCI_LAST 5e10

/* What a run takes, of which one of cost is `real` nanoseconds. */
CKCI_FN double ckci_cost_ns(double cost, double real)
{
    return fmod(cost, CKCI_LAST) * real;
}

/* Nanoseconds in what a family counts whose `cost` takes `of` of them. */
CKCI_FN double ckci_cost_like(double ns, double cost, double of)
{
    return of > 0 ? ns * fmod(cost, CKCI_LAST) / of : ns;
}

/* What compilers make of multiply-adds on AMD seldom pairs them: 64 in a clock whatever the data sheet. */
#define CKCI_FMA_PLAIN 64.0

typedef struct ckci_rates {
    double launch, bytes, fma, matrix, round; /* time of each kind, of the H100's for a unit */
    double thirst; /* bytes that the matrix unit multiplies in a nanosecond, of those of f16 */
} ckci_rates;

CKCI_FN double ckci_correction(const ckconv_device *device, int which)
{
    return device->costs[which] > 0 ? (double)device->costs[which] : 1;
}

/* Multiply-adds in a clock of what the unit multiplies; where it has none, those of f16 by their size. */
CKCI_FN double ckci_figures_rate(const ckci_figures *f, ckconv_dtype type)
{
    const int32_t half = f->half > 0 ? f->half : f->vector;
    switch (type) {
    case CKCONV_F64:
        return f->twice > 0 ? f->twice : half / 8.0;
    case CKCONV_F32:
        return f->single > 0 ? f->single : half / 4.0;
    case CKCONV_TF32:
        return half / 2.0;
    case CKCONV_I8:
        return f->byte > 0 ? f->byte : half;
    default:
        return half;
    }
}

/* type: what a matrix unit multiplies; 0: f16. */
CKCI_FN ckci_rates ckci_device_rates(const ckconv_device *device, ckconv_dtype type)
{
    ckci_rates r = {1, 1, 1, 1, 1, 1};
    const ckci_figures *f =
        device->kind == CKCONV_DEVICE_AMD ? ckci_find_figures(device->arch, device->compute_units) : NULL;
    if (f) {
        const double ghz = f->mhz / 1000.0;
        r.bytes = CKCI_H100_BYTES / CKCI_H100_UNITS * f->units / f->gbytes;
        r.fma = CKCI_FMA_REAL * CKCI_H100_FMA * CKCI_H100_GHZ / (CKCI_FMA_PLAIN * ghz);
        r.matrix = CKCI_H100_HALF * CKCI_H100_GHZ / (ckci_figures_rate(f, type) * ghz);
        r.thirst = ckci_figures_rate(f, type) / ckci_figures_rate(f, CKCONV_F16);
        r.thirst *= type == CKCONV_F64                          ? 4
                    : type == CKCONV_F32 || type == CKCONV_TF32 ? 2
                    : type == CKCONV_I8                         ? 0.5
                                                                : 1;
    }
    r.launch *= ckci_correction(device, CKCONV_COST_LAUNCH);
    r.bytes *= ckci_correction(device, CKCONV_COST_BYTES);
    r.fma *= ckci_correction(device, CKCONV_COST_FMA);
    r.matrix *= ckci_correction(device, CKCONV_COST_MATRIX);
    r.round *= ckci_correction(device, CKCONV_COST_ROUND);
    return r;
}

CKCI_FN double ckci_units(const ckconv_device *device)
{
    return device->compute_units > 1 ? (double)device->compute_units : 1;
}

/* Nanoseconds of a launch, or of what waits like one, that an H100 takes `ns` for. */
CKCI_FN double ckci_cost_launch(const ckconv_device *device, double ns)
{
    return ns * ckci_device_rates(device, 0).launch;
}

/* Of `bytes` that pass through memory, of which a unit of an H100 moves `rate` in a nanosecond. */
CKCI_FN double ckci_cost_bytes(const ckconv_device *device, double bytes, double rate)
{
    return bytes / (rate * ckci_units(device)) * ckci_device_rates(device, 0).bytes;
}

/* Of multiply-adds of one unit outside its matrix unit. */
CKCI_FN double ckci_cost_fma(const ckconv_device *device, double products)
{
    return products / CKCI_FMA_NS * ckci_device_rates(device, 0).fma;
}

/* The same as a run has them. */
CKCI_FN double ckci_fma_real(const ckconv_device *device)
{
    return device->kind == CKCONV_DEVICE_NVIDIA ? CKCI_FMA_REAL : 1;
}

/* Of kernels on a matrix unit that have a time of their own, of f16: an H100 takes `ns`. */
CKCI_FN double ckci_cost_matrix(const ckconv_device *device, double ns)
{
    return ns * ckci_device_rates(device, 0).matrix;
}
