/* test_costs.c - modelled times: the table of figures, corrections as text, what they change, and their fit
   SPDX-License-Identifier: MIT */
#include "core/target.h"
#include "test.h"

#include "../examples/fit.h"

static ckconv_device named(const char *arch)
{
    ckconv_device d;
    ckconv_error err;
    CHECK_OK(ckconv_device_named(arch, &d, &err), err);
    return d;
}

static ckconv_conv_desc layer(int64_t n, int64_t channels, int64_t filter, int64_t input, ckconv_dtype type)
{
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = 2;
    d.n = n;
    d.k = d.c = channels;
    d.filter[0] = d.filter[1] = filter;
    d.input[0] = d.input[1] = input;
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = filter / 2;
    d.in.dtype = type;
    return d;
}

/*------------------------------------------------------------------------------------------------------------
  The table of figures: every architecture has a row, its first one that of its typical device, every row has
  an architecture, and no device has two. The devices are told once more here, so that none is lost.
*/
static const char *const devices =
    "gfx900:64 gfx906:60 gfx908:120 gfx90a:104 gfx90a:110 gfx90c:8 gfx940:228 gfx941:304 gfx942:304 "
    "gfx942:228 "
    "gfx950:256 gfx1010:40 gfx1011:36 gfx1012:22 gfx1013:24 gfx1030:80 gfx1030:60 gfx1031:40 gfx1032:32 "
    "gfx1033:8 gfx1034:16 gfx1035:12 gfx1036:2 gfx1100:96 gfx1100:84 gfx1100:80 gfx1101:60 gfx1101:54 "
    "gfx1102:32 gfx1103:12 gfx1150:16 gfx1151:40 gfx1152:8 gfx1152:4 gfx1153:2 gfx1200:32 gfx1201:64 "
    "gfx1201:56 gfx1250:256 gfx1251:256 "
    "sm_70:80 sm_75:68 sm_80:108 sm_86:84 sm_87:16 sm_89:128 sm_90:132 sm_100:148 sm_103:148 sm_110:20 "
    "sm_120:170 sm_121:48 ";

/* Times a ratio that a planner would trust lies outside of what devices do. */
static int figures_odd(const ckci_figures *f)
{
    const double peak = 2e-6 * f->units * f->mhz * (f->half > 0 ? f->half : f->vector); /* TFLOP/s */
    return f->mhz < 500 || f->mhz > 4000 || f->gbytes < 20 || f->gbytes > 20000 || f->units < 1 ||
           (f->lds != 64 && f->lds != 128 && f->lds != 256) || (f->vector != 64 && f->vector != 128) ||
           (f->half > 0 && f->half < f->vector) || (f->byte > 0 && f->byte < f->half) || peak < 0.1 ||
           peak > 5000 || f->source < CKCI_FIGURES_READ || f->source > CKCI_FIGURES_GUESS;
}

static int figures_faults(const ckci_figures *table, size_t count)
{
    static char text[4096];
    size_t rows, at = 0;
    int faults = 0;
    const ckci_architecture *all = ckci_architectures(&rows);
    for (size_t i = 0; i < rows; i++) {
        size_t first = 0;
        while (first < count && strcmp(table[first].arch, all[i].name) != 0) {
            first++;
        }
        faults += first == count || table[first].units != all[i].units;
        faults += first < count && all[i].unit != CKCI_UNIT_NONE && table[first].half == 0;
    }
    for (size_t i = 0; i < count; i++) {
        faults += figures_odd(&table[i]) + (ckci_find_architecture(table[i].arch) == NULL);
        for (size_t j = 0; j < i; j++) {
            faults += strcmp(table[i].arch, table[j].arch) == 0 && table[i].units == table[j].units;
        }
        if (at + 32 < sizeof text) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%s:%d ", table[i].arch, (int)table[i].units);
        }
    }
    return faults + (strcmp(text, devices) != 0);
}

static void test_figures(void)
{
    static ckci_figures copy[256];
    size_t count;
    const ckci_figures *table = ckci_all_figures(&count);
    CHECK(figures_faults(table, count) == 0);
    CHECK(count < sizeof copy / sizeof copy[0]);
    for (size_t i = 0; i < count; i++) { /* a row that is dropped, and one that is there twice */
        memcpy(copy, table, i * sizeof copy[0]);
        memcpy(copy + i, table + i + 1, (count - i - 1) * sizeof copy[0]);
        CHECK_MSG(figures_faults(copy, count - 1) > 0, "%s %s dropped", table[i].arch, table[i].name);
        memcpy(copy, table, count * sizeof copy[0]);
        copy[count] = table[i];
        CHECK_MSG(figures_faults(copy, count + 1) > 0, "%s %s twice", table[i].arch, table[i].name);
    }
    strcpy(copy[count].arch, "gfx1999"); /* and one of an architecture without a row, whoever told it here */
    CHECK(figures_odd(&copy[count]) == 0 && figures_faults(copy, count + 1) >= 2);
    CHECK(strcmp(ckci_find_figures("gfx942:sramecc+:xnack-", 228)->name, "InstinctMI300A") == 0);
    CHECK(strcmp(ckci_find_figures("gfx942", 300)->name, "InstinctMI300X") == 0);
    CHECK(ckci_find_figures("gfx1999", 32) == NULL);
}

/*------------------------------------------------------------------------------------------------------------
  Text
*/
static void test_text(void)
{
    static const struct {
        const char *text, *word; /* NULL: it is right */
    } rows[] = {
        {"", NULL},
        {"# nothing\n\n", NULL},
        {"launch 2\nbytes .5\r\nfma 1.25\n  matrix\t3\nround 64", NULL},
        {"launch 2\nbytes\n", "line 2"},
        {"\n\nbytes 1 2\n", "line 3"},
        {"tile 1\n", "line 1"},
        {"matrix 0\n", "line 1"},
        {"matrix -1\n", "line 1"},
        {"matrix nan\n", "line 1"},
        {"matrix inf\n", "line 1"},
        {"matrix 65\n", "line 1"},
        {"matrix 0.015\n", "line 1"},
        {"matrix one\n", "line 1"},
        {"matrix 1\n# again\nmatrix 1\n", "line 3"},
        {"launch 1\nlaunchlaunchlaunchlaunch 1\n", "line 2"},
        {"1111111111111111111111111111111111111111111111111111111111111111111111111111 1\n", "line 1"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ckconv_device d = named("gfx942"), before;
        ckconv_error err;
        d.costs[2] = 7;
        before = d;
        const ckconv_status status = ckconv_costs_from_text(&d, rows[i].text, &err);
        if (rows[i].word) {
            CHECK_MSG(status == CKCONV_ERR_ARGUMENT && strstr(err.text, rows[i].word) != NULL,
                      "row %d: status %d (%s)", (int)i, (int)status, err.text);
            CHECK(memcmp(&d, &before, sizeof d) == 0);
        } else {
            CHECK_OK(status, err);
            CHECK(d.costs[2] == (i == 2 ? 1.25f : 0) && d.costs[4] == (i == 2 ? 64.0f : 0));
        }
    }
    ckconv_device d = named("gfx942"), back = d;
    ckconv_error err;
    char text[512], cut[8];
    CHECK(ckconv_costs_from_text(NULL, "", &err) == CKCONV_ERR_NULL);
    CHECK(ckconv_costs_from_text(&d, NULL, &err) == CKCONV_ERR_NULL);
    CHECK(ckconv_costs_to_text(&d, text, sizeof text) == 0 && text[0] == 0);
    CHECK(ckconv_costs_to_text(NULL, text, sizeof text) == 0 && text[0] == 0);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < CKCONV_COSTS; k++) {
            d.costs[k] = (i + k) % 3 == 0 ? 0 : (float)pow(2, (i * 37 + k * 11) % 1200 / 100.0 - 6);
        }
        const size_t length = ckconv_costs_to_text(&d, text, sizeof text);
        CHECK(length == strlen(text));
        CHECK(ckconv_costs_to_text(&d, NULL, 0) == length && ckconv_costs_to_text(&d, cut, 8) == length);
        CHECK_OK(ckconv_costs_from_text(&back, text, &err), err);
        CHECK_MSG(memcmp(back.costs, d.costs, sizeof d.costs) == 0, "%s", text);
    }
}

/*------------------------------------------------------------------------------------------------------------
  Modelled times, and choices
*/
static void test_seconds(void)
{
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "sm_90"};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        ckconv_device d = named(archs[i]);
        for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
            double before = 0;
            for (int64_t n = 1; n <= 256;
                 n *= 4) { /* more work takes no less time, nor less than its bytes */
                const ckconv_conv_desc p = layer(n, 128, 3, 28, CKCONV_BF16);
                ckconv_plan plan;
                ckconv_error err;
                CHECK_OK(ckconv_plan_conv(&plan, op, &p, NULL, &d, &err), err);
                const double now = ckconv_plan_seconds(&plan);
                CHECK_MSG(now >= before && now > (double)plan.bytes / 20e12 && now < 1, "%s: %g after %g",
                          archs[i], now, before);
                before = now;
                for (int k = 0; k < CKCONV_COSTS; k++) {
                    ckconv_device slow = d;
                    slow.costs[k] = 2;
                    CHECK_OK(ckconv_plan_conv(&plan, op, &p, NULL, &slow, &err), err);
                    const double more = ckconv_plan_seconds(&plan);
                    CHECK_MSG(more > 0 && (plan.device.costs[k] == 2), "%s: %g", archs[i], more);
                }
            }
        }
    }
    ckconv_plan none;
    memset(&none, 0, sizeof none);
    CHECK(ckconv_plan_seconds(&none) == -1 && ckconv_plan_seconds(NULL) == -1);
    ckconv_options o;
    ckconv_error err;
    const ckconv_conv_desc p = layer(1, 8, 3, 8, CKCONV_F32);
    memset(&o, 0, sizeof o);
    o.engine = CKCONV_ENGINE_REF;
    CHECK_OK(ckconv_plan_conv(&none, CKCONV_FWD, &p, &o, NULL, &err), err);
    CHECK(ckconv_plan_seconds(&none) == -1);
    o.engine = CKCONV_ENGINE_CPU;
    CHECK_OK(ckconv_plan_conv(&none, CKCONV_FWD, &p, &o, NULL, &err), err);
    CHECK(ckconv_plan_seconds(&none) > 0);
}

/* Whatever a family counts its costs in, seconds are those of a run: no instance is much faster than memory
   lets it be (of filters for which that takes less than products do), and dbias takes at most its own kernel
   more. */
static void test_floors(void)
{
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx1100", "sm_80", "sm_90"};
    static const ckconv_dtype types[] = {CKCONV_F32, CKCONV_BF16, CKCONV_I8};
    int runs = 0;
    for (int i = 0; i < 5 * 3 * 3 * 2 * 5; i++) {
        const ckconv_device d = named(archs[i % 5]);
        const ckconv_op op = CKCONV_FWD + i / 5 % 3;
        const double bandwidth = 1e9 * ckci_find_figures(d.arch, d.compute_units)->gbytes;
        ckconv_conv_desc p = layer(64, 128, 3, i / 45 % 2 ? 56 : 14, types[i / 15 % 3]);
        if (i / 90 > 0) { /* groups: depthwise, of 4, 16 and 32 */
            static const int64_t channels[] = {1, 4, 16, 32};
            p.k = p.c = channels[i / 90 - 1];
            p.g = 128 / p.k;
        }
        for (int32_t instance = 0; instance < ckconv_instance_count(); instance++) {
            ckconv_plan plan;
            ckconv_options o;
            memset(&o, 0, sizeof o);
            o.engine = CKCONV_ENGINE_GPU;
            o.instance = ckconv_instance_name(instance);
            if (!ckconv_instance_does(instance, op) ||
                ckconv_plan_conv(&plan, op, &p, &o, &d, NULL) != CKCONV_OK) {
                continue;
            }
            const double least = (double)plan.bytes / bandwidth, now = ckconv_plan_seconds(&plan);
            CHECK_MSG(now > 0.8 * least, "%s on %s, layer %d: %g s, and memory takes %g", o.instance, d.arch,
                      i, now, least);
            runs++;
            if (op == CKCONV_BWD_WEIGHT) {
                ckconv_conv_desc biased = p;
                biased.dbias = CKCONV_F32;
                if (ckconv_plan_conv(&plan, op, &biased, &o, &d, NULL) == CKCONV_OK) {
                    const double more = ckconv_plan_seconds(&plan) - now;
                    CHECK_MSG(more > 0 && more < 0.2 * now + 2 * least + 10e-6,
                              "%s on %s, layer %d: %g s, dbias %g more", o.instance, d.arch, i, now, more);
                }
            }
        }
    }
    CHECK_MSG(runs > 1000, "%d runs", runs);
}

/* The dearer a kind of time, the less of it is chosen: a problem that has left the matrix unit does not come
   back to it, a modelled time grows, and factors that are all the same change nothing. */
static void test_choices(void)
{
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx950"};
    int switched = 0;
    for (int i = 0; i < 3 * 3 * 8; i++) {
        const int64_t channels = (i / 9 % 4 + 1) * 32, input = i / 36 % 2 ? 14 : 56;
        const ckconv_conv_desc p = layer(8, channels, 3, input, CKCONV_F32);
        const ckconv_op op = CKCONV_FWD + i % 3;
        ckconv_device d = named(archs[i / 3 % 3]);
        ckconv_plan plan, scaled;
        ckconv_error err;
        int left = 0;
        for (double factor = 1. / 32; factor <= 32; factor *= 2) {
            d.costs[CKCONV_COST_MATRIX] = (float)factor;
            CHECK_OK(ckconv_plan_conv(&plan, op, &p, NULL, &d, &err), err);
            const int matrix = ckconv_instance_family(plan.instance) == CKCONV_FAMILY_MFMA;
            CHECK_MSG(!matrix || !left, "%s: back at factor %g", d.arch, factor);
            left = !matrix;
        }
        switched += left;
        memset(d.costs, 0, sizeof d.costs);
        CHECK_OK(ckconv_plan_conv(&plan, op, &p, NULL, &d, &err), err);
        for (int k = 0; k < CKCONV_COSTS; k++) {
            d.costs[k] = 4;
        }
        CHECK_OK(ckconv_plan_conv(&scaled, op, &p, NULL, &d, &err), err);
        CHECK_MSG(scaled.instance == plan.instance && scaled.split_k == plan.split_k, "%s: %s, not %s",
                  d.arch, ckconv_instance_name(scaled.instance), ckconv_instance_name(plan.instance));
        const double ratio = ckconv_plan_seconds(&scaled) / ckconv_plan_seconds(&plan);
        CHECK_MSG(ratio > 3.99 && ratio < 4.01, "%s: all times by 4 make %g", d.arch, ratio);
    }
    CHECK_MSG(switched >= 50, "%d of 72 leave the matrix unit", switched);
}

/*------------------------------------------------------------------------------------------------------------
  The fit
*/
typedef struct planted {
    ckconv_device device;
    ckconv_conv_desc desc;
    ckconv_op op;
} planted;

static int make_planted(void *context, const float costs[CKCONV_COSTS], ckconv_plan *base)
{
    planted p = *(planted *)context;
    memcpy(p.device.costs, costs, sizeof p.device.costs);
    return ckconv_plan_conv(base, p.op, &p.desc, NULL, &p.device, NULL) == CKCONV_OK;
}

static double random_unit(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / 16777216.0;
}

/* Runs take what the model says under other factors, a tenth more or less, and some nothing of the kind. */
static void fit_planted(const char *arch, const float planted_costs[CKCONV_COSTS])
{
    static fit f;
    planted p;
    uint64_t state = 1;
    double before, after;
    float found[CKCONV_COSTS];
    memset(&f, 0, sizeof f);
    p.device = named(arch);
    for (int i = 0; i < 96; i++) {
        p.op = CKCONV_FWD + i % 3;
        p.desc = layer((int64_t)1 << i % 7, (int64_t)16 << i % 5, i % 4 ? 3 : 1, i % 2 ? 14 : 56,
                       i % 5 < 2 ? CKCONV_F32 : CKCONV_BF16);
        if (i % 8 == 3) {
            p.desc.g = p.desc.k * 4;
            p.desc.k = p.desc.c = 1;
        }
        for (int32_t instance = 0; instance < ckconv_instance_count(); instance++) {
            ckconv_choice choice;
            ckconv_plan base, plan;
            ckconv_options o;
            double terms[CKCONV_COSTS];
            memset(&o, 0, sizeof o);
            memset(&choice, 0, sizeof choice);
            const float ones[CKCONV_COSTS] = {1, 1, 1, 1, 1};
            o.instance = ckconv_instance_name(instance);
            if (!ckconv_instance_does(instance, p.op) ||
                ckconv_instance_engine(instance) != CKCONV_ENGINE_GPU || !make_planted(&p, ones, &base) ||
                ckconv_plan_again(&plan, &base, &o, NULL) != CKCONV_OK) {
                continue;
            }
            choice.instance = instance;
            choice.split_k = plan.split_k;
            choice.workspace_bytes = plan.workspace_bytes;
            double seconds = 0;
            if (fit_terms(make_planted, &p, &choice, terms)) {
                for (int k = 0; k < CKCONV_COSTS; k++) {
                    seconds += terms[k] * (double)planted_costs[k];
                }
                seconds *= 0.9 + 0.2 * random_unit(&state);
                seconds *= random_unit(&state) < 0.1 ? 5 : 1;
                fit_add(&f, terms, seconds);
            }
        }
    }
    CHECK_MSG(f.count > 300, "%d runs", f.count);
    CHECK(fit_solve(&f, found, &before, &after));
    for (int k = 0; k < CKCONV_COSTS; k++) {
        const double ratio = (double)found[k] / (double)planted_costs[k];
        CHECK_MSG(ratio > 0.8 && ratio < 1.25, "%s: costs[%d] is %g, %g was planted", arch, k,
                  (double)found[k], (double)planted_costs[k]);
    }
    CHECK_MSG(after < 0.1 && after < before, "%s: %g before, %g after", arch, before, after);
}

static void test_fit(void)
{
    static const float first[CKCONV_COSTS] = {2, 1.5f, 0.7f, 3, 1.25f},
                       second[CKCONV_COSTS] = {0.5f, 1, 2.5f, 0.8f, 2};
    static fit f;
    float found[CKCONV_COSTS];
    double before, after;
    const double terms[CKCONV_COSTS] = {1e-6, 0, 0, 2e-6, 0};
    fit_planted("gfx942", first);
    fit_planted("gfx1100", second);
    CHECK(!fit_solve(&f, found, &before, &after));
    for (int i = 0; i < 9; i++) {
        fit_add(&f, terms, 6e-6);
        fit_add(&f, terms, i % 2 ? 0 : -1); /* no time */
    }
    CHECK(f.count == 9 && !fit_solve(&f, found, &before, &after));
    fit_add(&f, terms, 6e-6);
    CHECK(fit_solve(&f, found, &before, &after) && after < 0.01);
    CHECK(found[1] == 1 && found[2] == 1 && found[4] == 1); /* of which nothing is known */
}

int main(void)
{
    test_begin("test_costs");
    test_figures();
    test_text();
    test_seconds();
    test_floors();
    test_choices();
    test_fit();
    return test_end();
}
