/*------------------------------------------------------------------------------------------------------------
  >>core-mean
  Sums that keep what rounding takes from them, for ref/ and cpu/; and means of group norm as two doubles:
  both subtract the same mean from x, and both ask the same question of a saved one. It needs nothing but
  core/math. A mean that is a single double may be as far from the true one as values that differ little are
  from each other, and would cost them their digits.
*/
#pragma once
#include "core/math.h"

/* A sum, and what rounding took from it (Neumaier). A plain sum of many f64 numbers would be less exact than
   the results that it judges, or than those that it becomes. */
typedef struct ckci_kept_sum {
    double sum, lost;
} ckci_kept_sum;

CKCI_FN void ckci_add_to_sum(ckci_kept_sum *s, double v)
{
    int larger = fabs(s->sum) >= fabs(v);
    double a = larger ? s->sum : v, b = larger ? v : s->sum, next = ckci_as_written(a + b);
    s->lost += ckci_as_written(ckci_as_written(a - next) + b);
    s->sum = next;
}

CKCI_FN double ckci_sum_total(const ckci_kept_sum *s)
{
    double total = s->sum + s->lost;
    return ckci_is_nan(total) ? s->sum : total; /* an infinite one loses NaN */
}

/* A mean as high + low: a single double may be as far from the mean as values that differ little are from
   each other. */
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

/* A saved mean is rounded to the type of statistics (f32, or f64 for f64), so xhat is off by up to half a
   unit of the mean times inv_std. Where that product is 8 at most, that is a few units of xhat; beyond,
   engines compute the mean again. (With an activation no sum of the backward pass could mend it: the
   activation's gradient needs xhat before the sums are known.) */
CKCI_FN int ckci_coarse_mean(double mean, double inv_std)
{
    return fabs(mean) * inv_std > 8;
}
