/* train_digits.c - trains a small residual network on handwritten digits. Every convolution and every group
   norm, forward and backward, is ckconv's.

       train_digits [--epochs 20] [--batch 32] [--lr 0.008] [--seed 1] [--dtype f32|bf16] [--threads 1]
                    [--engine auto|ref|cpu|gpu] [--data examples/digits.csv] [--svg build/digits.svg]

   What to copy from here and from digits_net.h, the network and its passes: plan once for every layer, one
   workspace for all plans, run often. Residual sums need no kernel of their own: forward they are the ADD
   epilogue of a convolution, backward that of a bwd_data. All tensors live where ckconv_device_alloc puts
   them, so that the same program runs on a GPU; only the loss and the optimiser work on the host. With
   --dtype bf16 activations and their gradients are bf16, weights stay f32. The result is the same for any
   number of threads (0: all cores). One by default: a second one halves the time on an idle machine, but
   layers this small lose where other programs run.

   Exit status: 0 at 97 % test accuracy or more, 1 below, 2 for bad options or files. */
#define _POSIX_C_SOURCE 200809L
#define PROGRAM "train_digits"
#include "digits_net.h"
#include "svg_curves.h"

static const double REQUIRED = 97.0;                                   /* test accuracy in % */
enum { TRAIN_LOSS, TEST_LOSS, TRAIN_ACCURACY, TEST_ACCURACY, CURVES }; /* accuracies in % */

/* ---- Training ---- */

/* One pass over all digits, in batches; training when an order is given, which leaves out the incomplete last
   batch. Returns the number of digits seen. */
static int run_epoch(model *m, const digits *d, const int *order, unsigned char *label, shift *shifts,
                     double *mean_loss, double *accuracy)
{
    int right = 0, seen = 0;
    double loss = 0;
    while (seen < d->count) {
        int count = d->count - seen < m->batch ? d->count - seen : m->batch;
        if (order && count < m->batch) {
            break;
        }
        if (order) {
            draw_shifts(m, shifts, count);
        }
        upload_batch(m, d, order ? order + seen : NULL, shifts, seen, count, label);
        forward(m);
        softmax_loss(m, label, count, order != NULL, &loss, &right);
        if (order) {
            backward(m);
            download(m, m->host_grad, m->param_grad, m->params * sizeof(float));
            update(m);
        }
        seen += count;
    }
    *mean_loss = loss / seen;
    *accuracy = 100.0 * right / seen;
    return seen;
}

/* ---- The curves as a picture ---- */

static void write_curves(const model *m, const char *path, double *const *curve)
{
    static const double top[] = {90, 92, 94, 96, 98, 100}, all[] = {0, 20, 40, 60, 80, 100};
    double result = curve[TEST_ACCURACY][m->opt.epochs - 1];
    char title[128], test[64];
    snprintf(title, sizeof title, "Handwritten digits: residual network of %lu parameters, %s, seed %d",
             (unsigned long)m->trained, ckconv_dtype_name(m->opt.dtype), m->opt.seed);
    snprintf(test, sizeof test, "test, %.2f %% at the end", result);
    svg_chart charts[2];
    memset(charts, 0, sizeof charts);
    charts[0].title = "Cross-entropy loss";
    charts[0].y_label = "loss (log scale)";
    charts[0].log_scale = 1;
    charts[0].name[0] = "training";
    charts[0].name[1] = "test";
    charts[1].title = "Accuracy";
    charts[1].y_label = "correct, %";
    charts[1].ticks = result > 95 ? top : all;
    charts[1].tick_count = 6;
    charts[1].legend_low = 1;
    charts[1].guide = REQUIRED;
    charts[1].guide_name = "required";
    charts[1].name[0] = "training (shifted images)";
    charts[1].name[1] = test;
    for (int i = 0; i < 2; i++) {
        charts[0].value[i] = curve[TRAIN_LOSS + i];
        charts[1].value[i] = curve[TRAIN_ACCURACY + i];
    }
    if (svg_write(path, title, charts, 2, m->opt.epochs)) {
        printf("curves: %s\n", path);
    } else {
        fprintf(stderr, "train_digits: --svg %s: cannot write it\n", path);
    }
}

/* ---- Command line ---- */

static const char HELP[] =
    "train_digits [--epochs 20] [--batch 32] [--lr 0.008] [--seed 1] [--dtype f32|bf16] [--threads 1]\n"
    "             [--engine auto|ref|cpu|gpu] [--data examples/digits.csv] [--svg build/digits.svg]";

int main(int argc, char **argv)
{
    options opt = DIGITS_DEFAULTS;
    const char *svg = "build/digits.svg";
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            puts(HELP);
            return 0;
        }
        if (i + 1 == argc) {
            fail(2, "%s: needs a value (--help lists the options)", argv[i]);
        }
        if (strcmp(argv[i], "--svg") == 0) {
            svg = argv[i + 1];
        } else if (!parse_shared_option(&opt, argv[i], argv[i + 1])) {
            fail(2, "%s: unknown option (--help lists them)", argv[i]);
        }
    }
    digits train = {0, NULL, NULL}, test = {0, NULL, NULL};
    load_digits(&opt, &train, &test);
    printf("data: %d digits to train with, %d held out for the test\n", train.count, test.count);
    model *m = (model *)host_alloc(1, sizeof(model));
    m->net = DIGITS_NET;
    m->layer_count = DIGITS_LAYERS;
    m->image = IMAGE;
    m->image_channels = 1;
    m->batch = m->whole = opt.batch;
    build_model(m, &opt);
    m->steps = (int64_t)opt.epochs * (train.count / opt.batch);
    printf("network: %d layers, %lu parameters; engine %s, dtype %s, batch %d, workspace %lu bytes\n",
           m->layer_count, (unsigned long)m->trained, ckconv_engine_name(m->layers[0].fwd.engine),
           ckconv_dtype_name(opt.dtype), opt.batch, (unsigned long)m->workspace_bytes);

    double *curve[CURVES];
    for (int i = 0; i < CURVES; i++) {
        curve[i] = (double *)host_alloc((size_t)opt.epochs, sizeof(double));
    }
    int *order = (int *)host_alloc((size_t)train.count, sizeof(int));
    unsigned char *label = (unsigned char *)host_alloc((size_t)opt.batch, 1);
    shift *shifts = (shift *)host_alloc((size_t)opt.batch, sizeof(shift));
    for (int i = 0; i < train.count; i++) {
        order[i] = i;
    }
    double start = now();
    for (int e = 0; e < opt.epochs; e++) {
        double epoch_start = now();
        shuffle(m, order, train.count);
        int seen =
            run_epoch(m, &train, order, label, shifts, &curve[TRAIN_LOSS][e], &curve[TRAIN_ACCURACY][e]);
        double rate = seen / (now() - epoch_start);
        run_epoch(m, &test, NULL, label, NULL, &curve[TEST_LOSS][e], &curve[TEST_ACCURACY][e]);
        printf("epoch %2d/%d  loss %.4f  train %6.2f %%  test %6.2f %%  %6.0f images/s\n", e + 1, opt.epochs,
               curve[TRAIN_LOSS][e], curve[TRAIN_ACCURACY][e], curve[TEST_ACCURACY][e], rate);
        fflush(stdout);
    }
    double seconds = now() - start, result = curve[TEST_ACCURACY][opt.epochs - 1];
    int wrong = (int)lround(test.count * (100 - result) / 100);
    write_curves(m, svg, curve);
    printf("test accuracy %.2f %% (%d of %d wrong), %.1f seconds\n", result, wrong, test.count, seconds);
    return result >= REQUIRED ? 0 : 1;
}
