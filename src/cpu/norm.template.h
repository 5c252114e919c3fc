/* Kernels of group norm's rows for one instruction set: cpu/norm_vector.h includes this file for each of them
   with CKCI_TARGET, CKCI_NORM_SET, CKCI_NORM_WIDEN and CKCI_NORM_NARROW. */
CKCI_TARGET CKCI_FN void CKCI_NORM_NAME(sums)(const ckci_norm_call *q)
{
    const int64_t rows = q->rows, width = q->width, x_step = q->x_step;
    const int64_t dy_step = q->dy ? q->dy_step : x_step;
    const float *x = q->x, *dy = q->dy ? q->dy : x;
    for (int64_t c = 0; c < width; c += 8) {
        double *sums = q->sums + c;
        CKCI_NORM_FACTOR(s, q->f->shift + c)
        CKCI_NORM_FACTOR(u, sums)
        CKCI_NORM_FACTOR(v, sums + CKCI_NORM_WIDTH)
        for (int64_t r = 0; r < rows; r++) {
            CKCI_NORM_EIGHT(x + r * x_step, dy + r * dy_step, c, width)
            CKCI_NORM_DOUBLES(a, px)
            a -= s;
            if (dy != x) {
                CKCI_NORM_DOUBLES(b, py)
                u += a * b;
                v += b;
            } else {
                u += a;
                v += a * a;
            }
        }
        if (width - c >= 8) {
            memcpy(sums, &u, sizeof u);
            memcpy(sums + CKCI_NORM_WIDTH, &v, sizeof v);
        } else {
            memcpy(sums, &u, (size_t)(width - c) * sizeof *sums);
            memcpy(sums + CKCI_NORM_WIDTH, &v, (size_t)(width - c) * sizeof *sums);
        }
    }
}

CKCI_TARGET CKCI_FN void CKCI_NORM_NAME(lines)(const ckci_norm_call *q)
{
    const int64_t rows = q->rows, width = q->width;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = q->first + r * q->down;
        const float *x = q->x + r * q->x_step, *dy = q->dy ? q->dy + r * q->dy_step : x;
        double *sums = q->sums + at;
        int64_t c = 0;
        CKCI_NORM_FACTOR(s, q->f->shift + at)
        CKCI_NORM_FACTOR(u, sums)
        CKCI_NORM_FACTOR(v, sums + CKCI_NORM_WIDTH)
        ckci_d8 u1 = s - s, v1 = u1;
        for (; c + 16 <= width; c += 16) {
            CKCI_NORM_DOUBLES(a, x + c)
            CKCI_NORM_DOUBLES(a1, x + c + 8)
            a -= s;
            a1 -= s;
            if (dy != x) {
                CKCI_NORM_DOUBLES(b, dy + c)
                CKCI_NORM_DOUBLES(b1, dy + c + 8)
                u += a * b;
                v += b;
                u1 += a1 * b1;
                v1 += b1;
            } else {
                u += a;
                v += a * a;
                u1 += a1;
                v1 += a1 * a1;
            }
        }
        u += u1;
        v += v1;
        memcpy(sums, &u, sizeof u);
        memcpy(sums + CKCI_NORM_WIDTH, &v, sizeof v);
        for (; c < width; c++) {
            double a = (double)x[c] - q->f->shift[at], b = (double)dy[c];
            sums[c % 8] += dy != x ? a * b : a;
            sums[CKCI_NORM_WIDTH + c % 8] += dy != x ? b : a * a;
        }
    }
}

CKCI_TARGET CKCI_FN void CKCI_NORM_NAME(map)(const ckci_norm_call *q)
{
    const ckci_norm_factors *f = q->f;
    const int64_t rows = q->rows, width = q->width, across = q->across;
    for (int64_t r = 0; r < rows; r++) {
        const float *x = q->x + r * q->x_step, *dy = q->dy ? q->dy + r * q->dy_step : x;
        const int64_t at = q->first + r * q->down;
        float *out = q->out + r * q->out_step, end[8];
        for (int64_t c = 0; c < width; c += 8) {
            CKCI_NORM_EIGHT(x, dy, c, width)
            CKCI_NORM_FACTOR(s, f->shift + at + c * across)
            CKCI_NORM_FACTOR(fx, f->kx + at + c * across)
            CKCI_NORM_FACTOR(t, f->k0 + at + c * across)
            CKCI_NORM_DOUBLES(a, px)
            if (dy != x) {
                CKCI_NORM_FACTOR(fd, f->kd + at + c * across)
                CKCI_NORM_FACTOR(fs, f->ks + at + c * across)
                CKCI_NORM_DOUBLES(b, py)
                t += b * fd;
                t = ((a - s) * fx + t) * fs;
            } else {
                t = (a - s) * fx + t;
            }
            CKCI_NORM_STORE(some < 8 ? end : out + c, t)
            if (some < 8) {
                CKCI_NORM_FEW(out + c, end, some)
            }
        }
    }
}

CKCI_TARGET CKCI_FN void CKCI_NORM_NAME(act)(const ckci_norm_call *q)
{
    const ckci_norm_factors *f = q->f;
    const ckconv_element act = q->act;
    const int64_t rows = q->rows, width = q->width, across = q->across;
    for (int64_t r = 0; r < rows; r++) {
        const float *x = q->x + r * q->x_step, *dy = q->dy ? q->dy + r * q->dy_step : x;
        const int64_t at = q->first + r * q->down;
        float *out = q->out + r * q->out_step, end[8];
        for (int64_t c = 0; c < width; c += 8) {
            CKCI_NORM_EIGHT(x, dy, c, width)
            CKCI_NORM_FACTOR(s, f->shift + at + c * across)
            CKCI_NORM_FACTOR(fk, f->kv + at + c * across)
            CKCI_NORM_FACTOR(fb, f->kb + at + c * across)
            CKCI_NORM_DOUBLES(a, px)
            const ckci_d8 v = (a - s) * fk + fb;
            ckci_d8 y;
            if (act == CKCONV_RELU) {
                y = v;
                if (dy != x) {
                    CKCI_NORM_DOUBLES(by, py)
                    y = by;
                }
                CKCI_NORM_RELU(y, v)
            } else if (act == CKCONV_GELU) {
                CKCI_NORM_GELU(e, phi, v)
                y = v * phi;
                if (dy != x) {
                    CKCI_NORM_DOUBLES(by, py)
                    y = (phi + v * e * 0.39894228040143267794) * by;
                }
            } else {
                CKCI_NORM_EXP(e, v)
                const ckci_d8 sigmoid = 1.0 / (1.0 + e);
                y = act == CKCONV_SILU ? v * sigmoid : sigmoid;
                if (dy != x) {
                    CKCI_NORM_DOUBLES(by, py)
                    y = sigmoid * (1.0 - sigmoid);
                    y = (act == CKCONV_SILU ? sigmoid + v * y : y) * by;
                }
            }
            CKCI_NORM_STORE(some < 8 ? end : out + c, y)
            if (some < 8) {
                CKCI_NORM_FEW(out + c, end, some)
            }
        }
    }
}
