/* Fit of a device's corrections (ckconv_device.costs) to measured times. A run's modelled time is taken as a
   sum of terms, one for each kind of cost; the factors of the terms that bring the sums nearest to the
   measured times, each beside its own, are the corrections. Runs that no factors explain count little
   (Cauchy's weights); a factor that few runs tell anything about stays 1.
       fit f = {0};
       fit_terms(make, context, &choice, terms)          for each run
       fit_add(&f, terms, seconds)
       fit_solve(&f, costs)
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_FIT_H
#define CKCONV_FIT_H

#include "ckconv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define FIT_FUNCTION __attribute__((unused)) static
#else
#define FIT_FUNCTION static
#endif

enum { FIT_MOST = 16384 };

typedef struct fit {
    int count;
    float share[FIT_MOST][CKCONV_COSTS]; /* terms of a run, of its measured time */
} fit;

/* A plan of `base` by `choice` whose device has these corrections: its modelled seconds, or -1. make: the
   base once more, for another device. */
typedef int (*fit_make)(void *context, const float costs[CKCONV_COSTS], ckconv_plan *base);

FIT_FUNCTION double fit_modelled(fit_make make, void *context, const ckconv_choice *choice, int which,
                                 float factor)
{
    float costs[CKCONV_COSTS];
    ckconv_plan base, plan;
    for (int i = 0; i < CKCONV_COSTS; i++) {
        costs[i] = i == which ? factor : 1;
    }
    return make(context, costs, &base) && ckconv_plan_choice(&plan, &base, choice, NULL) == CKCONV_OK
               ? ckconv_plan_seconds(&plan)
               : -1;
}

/* The terms of a choice: how its modelled time grows with each factor. 0: it has no modelled time. */
FIT_FUNCTION int fit_terms(fit_make make, void *context, const ckconv_choice *choice,
                           double terms[CKCONV_COSTS])
{
    const double step = 0.0625, whole = fit_modelled(make, context, choice, -1, 1);
    double sum = 0;
    for (int i = 0; i < CKCONV_COSTS; i++) {
        const double more = fit_modelled(make, context, choice, i, (float)(1 + step));
        terms[i] = more > whole ? (more - whole) / step : 0;
        sum += terms[i];
    }
    return whole > 0 && sum > 0;
}

/* A run that took so long. */
FIT_FUNCTION void fit_add(fit *f, const double terms[CKCONV_COSTS], double seconds)
{
    if (seconds > 0 && f->count < FIT_MOST) {
        for (int i = 0; i < CKCONV_COSTS; i++) {
            f->share[f->count][i] = (float)(terms[i] / seconds);
        }
        f->count++;
    }
}

FIT_FUNCTION int fit_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How far a run is from its modelled time: of the larger one, so that half and twice are as far. */
FIT_FUNCTION double fit_error(const fit *f, int run, const double costs[CKCONV_COSTS])
{
    double sum = 0;
    for (int i = 0; i < CKCONV_COSTS; i++) {
        sum += costs[i] * (double)f->share[run][i];
    }
    return (sum - 1) / (sum > 1 ? sum : 1);
}

FIT_FUNCTION double fit_median(const fit *f, const double costs[CKCONV_COSTS])
{
    double *errors = (double *)malloc(sizeof(double) * (size_t)(f->count + 1)), median = 1;
    for (int run = 0; errors && run < f->count; run++) {
        errors[run] = fabs(fit_error(f, run, costs));
    }
    if (errors) {
        qsort(errors, (size_t)f->count, sizeof *errors, fit_compare);
        median = f->count > 0 ? errors[f->count / 2] : 0;
    }
    free(errors);
    return median;
}

/* One step: weighted least squares within the limits, one factor after the other until none moves. */
FIT_FUNCTION void fit_step(const fit *f, double spread, double costs[CKCONV_COSTS])
{
    double h[CKCONV_COSTS][CKCONV_COSTS], g[CKCONV_COSTS];
    memset(h, 0, sizeof h);
    memset(g, 0, sizeof g);
    for (int run = 0; run < f->count; run++) {
        const double error = fit_error(f, run, costs) / spread;
        double sum = 0;
        for (int i = 0; i < CKCONV_COSTS; i++) {
            sum += costs[i] * (double)f->share[run][i];
        }
        const double larger = sum > 1 ? sum : 1, weight = 1 / ((1 + error * error) * larger * larger);
        for (int i = 0; i < CKCONV_COSTS; i++) {
            g[i] += weight * (double)f->share[run][i];
            for (int j = 0; j < CKCONV_COSTS; j++) {
                h[i][j] += weight * (double)f->share[run][i] * (double)f->share[run][j];
            }
        }
    }
    for (int i = 0; i < CKCONV_COSTS; i++) { /* towards 1, as much as a run that is 3 % this kind of time */
        h[i][i] += 1e-3;
        g[i] += 1e-3;
    }
    for (int turn = 0; turn < 500; turn++) {
        for (int i = 0; i < CKCONV_COSTS; i++) {
            double rest = g[i];
            for (int j = 0; j < CKCONV_COSTS; j++) {
                rest -= j == i ? 0 : h[i][j] * costs[j];
            }
            rest /= h[i][i];
            costs[i] = rest < 1.0 / 64 ? 1.0 / 64 : rest > 64 ? 64 : rest;
        }
    }
}

/* The corrections, and the median distance before and after. 0: fewer than ten runs. */
FIT_FUNCTION int fit_solve(const fit *f, float result[CKCONV_COSTS], double *before, double *after)
{
    double costs[CKCONV_COSTS];
    for (int i = 0; i < CKCONV_COSTS; i++) {
        costs[i] = 1;
        result[i] = 0;
    }
    *before = *after = fit_median(f, costs);
    if (f->count < 10) {
        return 0;
    }
    for (int step = 0; step < 60; step++) {
        const double median = fit_median(f, costs), spread = step < 20 ? 1 : 1.5 * median;
        fit_step(f, spread < 0.02 ? 0.02 : spread, costs);
    }
    *after = fit_median(f, costs);
    for (int i = 0; i < CKCONV_COSTS; i++) {
        result[i] = (float)costs[i];
    }
    return 1;
}

#endif /* CKCONV_FIT_H */
