/* ckconv_cli.c - the command line of ckconv: run, verify, time and look at one problem
   SPDX-License-Identifier: MIT

   What ckProfiler, MIOpenDriver and benchdnn are to their libraries, with the public API only: every command
   goes description -> plan -> run, the same way for all six operations. `ckconv --help` lists what there is.

   The implementation is in another file: cc -O3 -fopenmp -I. examples/ckconv_cli.c examples/ckconv_impl.c
   -lm */
#define _POSIX_C_SOURCE 200809L
#include "bounds.h"
#include "fit.h"
#include "npy.h"
#include <sys/stat.h>
#include <unistd.h>

enum {
    RUN = 1,
    VERIFY = 2,
    BENCH = 4,
    FIND = 8,
    LIST = 16,
    INFO = 32,
    MAX_GIVEN = 96, /* options on one command line */
    EXIT_WRONG = 1, /* verify: mismatch */
    EXIT_USAGE = 2  /* anything that kept the command from doing its work */
};
static const double large_flop = 5e9; /* above it verify does not run ref on everything */

typedef struct command {
    const char *name, *arguments, *help;
    int bit;
} command;

static const command commands[] = {
    {"info", "", "version, engines compiled in, CPU, GPUs", INFO},
    {"list", "[OP PROBLEM]", "instances; with a problem: supported, or the reason why not", LIST},
    {"run", "OP PROBLEM FILES", "read .npy files, compute, write .npy files", RUN},
    {"verify", "OP PROBLEM", "generated data, an engine against ref; exit 1 on a mismatch", VERIFY},
    {"bench", "OP PROBLEM | [OP] --cases F", "median and minimum time as TSV", BENCH},
    {"find", "OP PROBLEM | [OP] --fit --cases F",
     "time all instances, best first; --fit: correct their modelled times", FIND},
};
enum { COMMANDS = (int)(sizeof commands / sizeof commands[0]) };

/* Options that are not part of a problem. */
static const struct own_option {
    const char *name, *value, *help;
    int commands;
} own_options[] = {
    {"cases", "FILE", "one problem per row: a TSV with the columns of bench/cases.tsv",
     BENCH | VERIFY | FIND},
    {"match", "TEXT", "only rows of --cases whose name contains TEXT", BENCH | VERIFY | FIND},
    {"small", NULL, "cut the batch of each row of --cases to max(min(N,8), N/16)", BENCH | VERIFY | FIND},
    {"name", "TEXT", "first column of the result", BENCH},
    {"seconds", "REAL", "time to spend on each measurement, default 1; at least 5 runs", BENCH},
    {"repeats", "INT", "runs of each measurement instead", BENCH | FIND},
    {"dump-launch", "DIR", "with --target: write the kernels' launches, arguments and tensors, run nothing",
     RUN},
    {"load-results", "DIR", "take the results from DIR/NAME.out, which something else computed", RUN},
    {"full", NULL, "compare everything with ref, however large the problem", VERIFY},
    {"save", "FILE", "write the choices, best first, one line each", FIND},
    {"fit", NULL, "print what corrects modelled times on this GPU, for --costs, instead of the times", FIND},
    {"choice", "FILE", "plan as the first line of a file that find --save wrote", RUN | VERIFY | BENCH},
};
enum { OWN_OPTIONS = (int)(sizeof own_options / sizeof own_options[0]) };

/* A parsed command line. */
typedef struct job {
    const command *command;
    ckconv_op op;                    /* 0: none given */
    const char *given[MAX_GIVEN][2]; /* problem options with their values */
    int num_given;
    const char *own[OWN_OPTIONS];
    const char *file[PB_ROLES];
    int header; /* the TSV header has been printed */
} job;

/* One line on stderr; the exit status of a command that could not do its work. */
static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int complain(const char *format, ...)
{
    va_list list;
    fflush(stdout);
    fputs("ckconv: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static const char *own(const job *j, const char *name)
{
    for (int i = 0; i < OWN_OPTIONS; i++) {
        if (strcmp(own_options[i].name, name) == 0) {
            return j->own[i];
        }
    }
    return NULL;
}


/*------------------------------------------------------------------------------------------------------------
  Help
*/
static void print_ops(int ops)
{
    const char *gap = "";
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        if ((ops & 1 << op) != 0) {
            printf("%s%s", gap, ckconv_op_name(op));
            gap = " ";
        }
    }
}

static void print_problem_help(void)
{
    static const struct {
        int ops;
        const char *title;
    } parts[] = {{PB_ALL, "all operations"},      {PB_ANY, "convolutions"}, {PB_ONE, "single convolutions"},
                 {PB_CONV_CONV, "conv_conv_fwd"}, {PB_GN, "group norms"},   {PB_GN_BWD, "groupnorm_bwd"}};
    printf("\nOP: ");
    print_ops(PB_ALL);
    puts("\n\nPROBLEM");
    for (size_t part = 0; part < sizeof parts / sizeof parts[0]; part++) {
        printf("  %s\n", parts[part].title);
        const char *help = "";
        for (int i = 0; i < PB_OPTIONS; i++) {
            const pb_option *o = &pb_options[i];
            help = o->help != NULL ? o->help : help;
            if (o->ops == parts[part].ops && help[0] != '\0') {
                printf("    --%-13s %-5s  %s\n", o->name, o->value != NULL ? o->value : "", help);
            }
        }
    }
    puts(
        "  Layout names are the 2D ones in all dimensions. Sizes are per group: the input has G*C channels.");
    printf("\nELEMENTS");
    int column = 110;
    for (ckconv_element kind = 0; pb_next_element(&kind) != NULL; kind++) {
        const int length = (int)strlen(ckconv_element_name(kind)) + 1;
        const int wraps = column + length > 108;
        printf("%s%s", wraps ? "\n  " : " ", ckconv_element_name(kind));
        column = (wraps ? 1 : column) + length;
    }
    putchar('\n');
}

static void print_file_help(void)
{
    puts(
        "\nFILES hold .npy arrays in PyTorch's order whatever the layouts are: inputs [N, G*C, spatial], "
        "outputs\n"
        "[N, G*K, spatial], weights [G*K, C, filter]; int8, int32, float16, float32 or float64. Results are\n"
        "float64. --d0..--d3 have the written tensor's shape, or are vectors of one entry per channel (a "
        "bias);\n"
        "length 1 where --strides-d0 has a 0. --scale0 and --shift0 are vectors of G*K. Only run reads and\n"
        "writes files: elsewhere these are generated and the file's name is ignored (- will do).");
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        printf("  %-14s", ckconv_op_name(op));
        for (int written = 0; written < 2; written++) {
            if (written) {
                printf(" ->");
            }
            for (int r = 0; r < PB_ROLES; r++) {
                char use = pb_roles[r].use[op - 1];
                if (use != '.' && use != 'd' && pb_is_written(op, r) == written) {
                    printf(use == 'o' || use == 'x' ? " [--%s]" : " --%s", pb_roles[r].name);
                }
            }
        }
        putchar('\n');
    }
}

static int print_help(const command *only)
{
    if (only == NULL) {
        puts("usage: ckconv COMMAND ...      ckconv COMMAND --help");
    }
    for (int i = 0; i < COMMANDS; i++) {
        const command *c = &commands[i];
        if (only == NULL || only == c) {
            printf("%s ckconv %-6s %-28s %s\n", only != NULL ? "usage:" : " ", c->name, c->arguments,
                   c->help);
        }
    }
    int bits = only != NULL ? only->bit : RUN | VERIFY | BENCH | FIND | LIST | INFO;
    for (int i = 0; i < OWN_OPTIONS; i++) {
        if ((own_options[i].commands & bits) != 0) {
            printf("    --%-13s %-5s  %s", own_options[i].name,
                   own_options[i].value != NULL ? own_options[i].value : "", own_options[i].help);
            for (int c = 0; only == NULL && c < COMMANDS; c++) {
                if ((commands[c].bit & own_options[i].commands) != 0) {
                    printf(" (%s)", commands[c].name);
                }
            }
            putchar('\n');
        }
    }
    if (bits != INFO) {
        print_problem_help();
        print_file_help();
    }
    puts("\nExit status: 0, 1 (verify: mismatch), 2 (one line on stderr says what is wrong; nothing was "
         "written).");
    return 0;
}


/*------------------------------------------------------------------------------------------------------------
  The command line
*/
static int take_own(job *j, const char *name, int *at, int argc, char **argv)
{
    for (int i = 0; i < OWN_OPTIONS; i++) {
        if (strcmp(own_options[i].name, name) != 0) {
            continue;
        }
        if ((own_options[i].commands & j->command->bit) == 0) {
            return complain("--%s: not an option of %s", name, j->command->name);
        }
        if (own_options[i].value != NULL && *at + 1 >= argc) {
            return complain("--%s: needs a value", name);
        }
        j->own[i] = own_options[i].value != NULL ? argv[++*at] : "";
        return 0;
    }
    return -1; /* not one of these */
}

/* A problem option, known for some operation (the one given, if there is one). */
static int take_problem(job *j, const char *name, int *at, int argc, char **argv)
{
    int known = -1;
    for (int i = 0; i < PB_OPTIONS && known < 0; i++) {
        known = strcmp(pb_options[i].name, name) == 0 ? i : -1;
    }
    for (ckconv_op op = CKCONV_FWD; known < 0 && op <= CKCONV_GROUPNORM_BWD; op++) {
        if (pb_role_of(op, name) >= 0) {
            return complain("--%s: not a file of %s", name, ckconv_op_name(j->op));
        }
    }
    if (known < 0) {
        return complain("--%s: unknown option", name);
    }
    if (j->op != 0 && pb_find(j->op, name) < 0) {
        return complain("--%s: not an option of %s", name, ckconv_op_name(j->op));
    }
    if (pb_options[known].value != NULL && *at + 1 >= argc) {
        return complain("--%s: needs a value", name);
    }
    for (int i = 0; i < j->num_given; i++) {
        if (strcmp(j->given[i][0], name) == 0) {
            return complain("--%s: given twice", name);
        }
    }
    if (j->num_given == MAX_GIVEN) {
        return complain("--%s: too many options", name);
    }
    j->given[j->num_given][0] = name;
    j->given[j->num_given++][1] = pb_options[known].value != NULL ? argv[++*at] : "";
    return 0;
}

/* A file option of run. */
static int take_file(job *j, const char *name, int *at, int argc, char **argv)
{
    int role = -1;
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        if (j->op == 0 || j->op == op) {
            role = role < 0 ? pb_role_of(op, name) : role;
        }
    }
    if (role < 0) {
        return -1;
    }
    if (j->command->bit != RUN) {
        return complain("--%s: only run reads and writes files", name);
    }
    if (*at + 1 >= argc) {
        return complain("--%s: needs a file", name);
    }
    j->file[role] = argv[++*at];
    return 0;
}

static int parse(job *j, int argc, char **argv)
{
    int at = 2;
    if (at < argc && argv[at][0] != '-') {
        j->op = ckconv_op_from_name(argv[at]);
        if (j->op == 0) {
            return complain(
                "'%s': not an operation (fwd, bwd_data, bwd_weight, conv_conv_fwd, groupnorm_fwd, "
                "groupnorm_bwd)",
                argv[at]);
        }
        at++;
    }
    for (; at < argc; at++) {
        if (strncmp(argv[at], "--", 2) != 0) {
            return complain("'%s': options begin with --", argv[at]);
        }
        const char *name = argv[at] + 2;
        int status = take_own(j, name, &at, argc, argv);
        int problem = j->op != 0 && pb_find(j->op, name) >= 0;
        if (status < 0 && !problem) {
            status = take_file(j, name, &at, argc, argv);
        }
        if (status < 0) {
            status = take_problem(j, name, &at, argc, argv);
        }
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

/* The options given, as a problem of this operation; those of other operations are left out (--cases). */
static void make_problem(const job *j, ckconv_op op, pb_problem *p)
{
    memset(p, 0, sizeof *p);
    p->op = op;
    for (int i = 0; i < j->num_given; i++) {
        if (pb_find(op, j->given[i][0]) >= 0) {
            pb_set(p, j->given[i][0], j->given[i][1], NULL);
        }
    }
}

/* Plan what the problem asks for, or what --choice holds. */
static int make_plan(const job *j, const pb_problem *p, ckconv_plan *plan, ckconv_error *err)
{
    if (!pb_plan(p, plan, err)) {
        return 0;
    }
    const char *path = own(j, "choice");
    if (path == NULL) {
        return 1;
    }
    char line[512];
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(line, (int)sizeof line, file) == NULL) {
        if (file != NULL) {
            fclose(file);
        }
        return pb_fail(err, "--choice: %.200s: cannot be read", path);
    }
    fclose(file);
    line[strcspn(line, "\r\n")] = '\0';
    ckconv_choice choice;
    ckconv_error why;
    ckconv_plan base = *plan;
    if (ckconv_choice_from_text(&choice, line, &why) != CKCONV_OK ||
        ckconv_plan_choice(plan, &base, &choice, &why) != CKCONV_OK) {
        return pb_fail(err, "--choice: %.200s", why.text);
    }
    return 1;
}

/* The optional tensors that generated runs use: all but mid (unless asked for) and vectors that were not
   named. */
static uint32_t wanted_roles(const pb_problem *p, int with_mid)
{
    uint32_t wanted = 0;
    for (int r = 0; r < PB_ROLES; r++) {
        const char *name = pb_roles[r].name;
        int vector = strcmp(name, "scale0") == 0 || strcmp(name, "shift0") == 0;
        if ((!vector || pb_value(p, name) != NULL) && (with_mid || strcmp(name, "mid") != 0)) {
            wanted |= UINT32_C(1) << r;
        }
    }
    return wanted;
}


/*------------------------------------------------------------------------------------------------------------
  run
*/
typedef struct files {
    npy_array in[PB_ROLES]; /* what was read */
    double *out[PB_ROLES];  /* what is to be written */
    char temporary[PB_ROLES][1024];
} files;

static void free_files(files *f)
{
    for (int r = 0; r < PB_ROLES; r++) {
        npy_free(&f->in[r]);
        free(f->out[r]);
        if (f->temporary[r][0] != '\0') {
            remove(f->temporary[r]);
        }
    }
}

/* All files that the operation needs are named, and no two outputs are one file. */
static int check_files(const job *j)
{
    int outputs = 0;
    for (int r = 0; r < PB_ROLES; r++) {
        char use = pb_roles[r].use[j->op - 1];
        if ((use == 'r' || use == 'w') && j->file[r] == NULL) {
            return complain("--%s: missing, run %s needs it", pb_roles[r].name, ckconv_op_name(j->op));
        }
        if (j->file[r] == NULL || !pb_is_written(j->op, r)) {
            continue;
        }
        outputs++;
        for (int q = 0; q < r; q++) {
            if (j->file[q] != NULL && pb_is_written(j->op, q) && strcmp(j->file[q], j->file[r]) == 0) {
                return complain("--%s: the same file as --%s", pb_roles[r].name, pb_roles[q].name);
            }
        }
    }
    if (outputs == 0) {
        return complain("--din: missing, at least one of --din, --dgamma, --dbeta is needed");
    }
    int mean = pb_role_of(j->op, "mean"), inv_std = pb_role_of(j->op, "inv-std");
    if (j->op == CKCONV_GROUPNORM_BWD && (j->file[mean] == NULL) != (j->file[inv_std] == NULL)) {
        return complain("--%s: missing, --mean and --inv-std go together",
                        j->file[mean] == NULL ? "mean" : "inv-std");
    }
    return 0;
}

/* Read all inputs; the ranks of D files decide their layout. */
static int read_files(const job *j, pb_problem *p, files *f)
{
    for (int r = 0; r < PB_ROLES; r++) {
        char text[256];
        if (j->file[r] == NULL || pb_is_written(j->op, r)) {
            continue;
        }
        if (!npy_read(j->file[r], &f->in[r], text, sizeof text)) {
            return complain("--%s: %s", pb_roles[r].name, text);
        }
        if (pb_roles[r].use[j->op - 1] == 'd') {
            p->d_rank[pb_roles[r].which - CKCONV_TENSOR_D0] = f->in[r].rank == 1 ? 1 : 2;
        }
    }
    return 0;
}

/* File -> tensor for all inputs. */
static int import_files(const job *j, const pb_data *data, files *f)
{
    for (int r = 0; r < PB_ROLES; r++) {
        if (data->used[r] == 0 || pb_is_written(j->op, r)) {
            continue;
        }
        if (j->file[r] == NULL) {
            return complain("--%s: missing, the epilogue reads it", pb_roles[r].name);
        }
        int64_t shape[6];
        int rank = pb_torch_shape(j->op, r, &data->info[r], shape);
        const npy_array *a = &f->in[r];
        if (rank != a->rank || memcmp(shape, a->shape, (size_t)rank * sizeof shape[0]) != 0) {
            char have[200], need[200];
            return complain("--%s: %s has the shape %s, the problem needs %s", pb_roles[r].name, j->file[r],
                            npy_shape_text(a->rank, a->shape, have, sizeof have),
                            npy_shape_text(rank, shape, need, sizeof need));
        }
        ckconv_error err;
        if (!pb_import(data, r, f->in[r].values, &err)) {
            return complain("--%s: %s", pb_roles[r].name, err.text);
        }
    }
    return 0;
}

/* Write all results beside their places, then move them there: an error leaves no output file touched. */
static int write_files(const job *j, const pb_data *data, files *f)
{
    char text[1200];
    for (int r = 0; r < PB_ROLES; r++) {
        if (j->file[r] == NULL || !pb_is_written(j->op, r)) {
            continue;
        }
        if (data->used[r] == 0) {
            return complain("--%s: needs --dbias-dtype", pb_roles[r].name);
        }
        ckconv_error err;
        int64_t shape[6];
        int rank = pb_torch_shape(j->op, r, &data->info[r], shape);
        size_t count = data->info[r].count > 0 ? (size_t)data->info[r].count : 1;
        f->out[r] = count <= SIZE_MAX / sizeof(double) ? (double *)malloc(count * sizeof(double)) : NULL;
        if (f->out[r] == NULL) {
            return complain("--%s: out of memory", pb_roles[r].name);
        }
        if (!pb_export(data, r, f->out[r], &err)) {
            return complain("--%s: %s", pb_roles[r].name, err.text);
        }
        struct stat what;
        const char *path = j->file[r];
        int special =
            stat(path, &what) == 0 && !S_ISREG(what.st_mode); /* a device or pipe cannot be moved to */
        if (!special) {
            int length =
                snprintf(f->temporary[r], sizeof f->temporary[r], "%s.%ld.tmp", path, (long)getpid());
            if (length < 0 || (size_t)length >= sizeof f->temporary[r]) {
                f->temporary[r][0] = '\0';
                return complain("--%s: the path is too long", pb_roles[r].name);
            }
            path = f->temporary[r];
        }
        if (!npy_write(path, rank, shape, f->out[r], text, sizeof text)) {
            return complain("--%s: %s: cannot be written", pb_roles[r].name, j->file[r]);
        }
        free(f->out[r]);
        f->out[r] = NULL;
    }
    for (int r = 0; r < PB_ROLES; r++) {
        if (f->temporary[r][0] != '\0') {
            if (rename(f->temporary[r], j->file[r]) != 0) {
                return complain("--%s: %s: %s", pb_roles[r].name, j->file[r], strerror(errno));
            }
            f->temporary[r][0] = '\0';
        }
    }
    return 0;
}

/* ---- Launches for an emulator: launch.txt (arch, buffers with made-up addresses, launches in order) and the
   bytes of tensors and arguments beside it. */

/* DIR/NAME.SUFFIX, `bytes` of data to it or from it. */
static int dump_bytes(const char *folder, const char *name, const char *suffix, void *data, size_t bytes,
                      int write)
{
    char path[1200];
    int length = snprintf(path, sizeof path, "%s/%s.%s", folder, name, suffix);
    FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, write ? "wb" : "rb") : NULL;
    size_t done = 0;
    if (file != NULL) {
        done = write ? fwrite(data, 1, bytes, file) : fread(data, 1, bytes, file);
        fclose(file);
    }
    return file != NULL && done == bytes
               ? 0
               : complain("%s: cannot be %s", path, write ? "written" : "read whole");
}

static int dump_launches(const char *folder, const ckconv_plan *plan, pb_data *data)
{
    enum { MOST = 64 };
    char path[1200];
    ckconv_args args = data->args;
    ckconv_error err;
    int32_t count = 0;
    ckconv_launch *launches = (ckconv_launch *)calloc(MOST, sizeof *launches);
    snprintf(path, sizeof path, "%s/launch.txt", folder);
    FILE *file = launches != NULL ? fopen(path, "w") : NULL;
    int status = file != NULL
                     ? 0
                     : complain("--dump-launch: %.1000s: cannot be written (the folder must exist)", path);
    if (status == 0) {
        fprintf(file, "arch %s\n", plan->device.arch);
    }
    for (int r = 0; r < PB_ROLES && status == 0; r++) {
        if (data->used[r] == 0) {
            continue;
        }
        int written = pb_is_written(data->op, r);
        uint64_t address =
            (UINT64_C(1) << 62) + ((uint64_t)(r + 1) << 36); /* far apart, and no pair of sizes */
        void *fake = (void *)(uintptr_t)address;
        size_t bytes = data->info[r].bytes > 0 ? (size_t)data->info[r].bytes : 1;
        memcpy((char *)&args + pb_roles[r].member, &fake, sizeof fake);
        fprintf(file, "buffer %s %llx %lld %s ", pb_roles[r].name, (unsigned long long)address,
                (long long)bytes, written ? "w" : "r");
        fprintf(file, written ? "-\n" : "%s.in\n", pb_roles[r].name);
        status = written ? 0 : dump_bytes(folder, pb_roles[r].name, "in", data->host[r], bytes, 1);
    }
    uint64_t workspace = (UINT64_C(1) << 62) + ((uint64_t)(PB_ROLES + 1) << 36);
    if (status == 0 && plan->workspace_bytes > 0) {
        fprintf(file, "buffer workspace %llx %lld w -\n", (unsigned long long)workspace,
                (long long)plan->workspace_bytes);
    }
    if (status == 0 &&
        ckconv_plan_launches(plan, &args, plan->workspace_bytes > 0 ? (void *)(uintptr_t)workspace : NULL,
                             (size_t)plan->workspace_bytes, launches, MOST, &count, &err) != CKCONV_OK) {
        status = complain("--dump-launch: %s", err.text);
    }
    if (status == 0 && count > MOST) {
        status = complain("--dump-launch: %d launches; at most %d can be written", (int)count, (int)MOST);
    }
    for (int32_t i = 0; i < count && i < MOST && status == 0; i++) {
        char name[16];
        snprintf(name, sizeof name, "launch%d", (int)i);
        fprintf(file, "launch %s %lld %d %s.args", launches[i].kernel, (long long)launches[i].grid,
                (int)launches[i].block, name);
        if (launches[i].cluster > 1) {
            fprintf(file, " cluster %d", (int)launches[i].cluster);
        }
        fprintf(file, "\n");
        status = dump_bytes(folder, name, "args", launches[i].arg, (size_t)launches[i].arg_bytes, 1);
    }
    if (file != NULL) {
        fclose(file);
    }
    free(launches);
    return status;
}

static int load_results(const char *folder, pb_data *data)
{
    int status = 0;
    for (int r = 0; r < PB_ROLES && status == 0; r++) {
        if (data->used[r] != 0 && pb_is_written(data->op, r)) {
            status = dump_bytes(folder, pb_roles[r].name, "out", data->host[r],
                                data->info[r].bytes > 0 ? (size_t)data->info[r].bytes : 1, 0);
        }
    }
    return status;
}

static int run_with(job *j, files *f)
{
    pb_problem p;
    ckconv_plan plan;
    ckconv_error err;
    make_problem(j, j->op, &p);
    for (int r = 0; r < PB_ROLES; r++) { /* D tensors and vectors are problem options that name files */
        const char *path = pb_roles[r].use[j->op - 1] != '.' ? pb_value(&p, pb_roles[r].name) : NULL;
        if (path != NULL) {
            j->file[r] = path;
        }
    }
    int status = check_files(j);
    if (status == 0) {
        status = read_files(j, &p, f);
    }
    if (status != 0) {
        return status;
    }
    if (!pb_finish(&p, &err) || !make_plan(j, &p, &plan, &err)) {
        return complain("%s", err.text);
    }
    uint32_t wanted = 0;
    for (int r = 0; r < PB_ROLES; r++) {
        wanted |= j->file[r] != NULL ? UINT32_C(1) << r : 0;
    }
    pb_data data;
    if (!pb_alloc(&data, &plan, wanted, NULL, &err)) {
        return complain("%s", err.text);
    }
    status = import_files(j, &data, f);
    const char *dump = own(j, "dump-launch"), *load = own(j, "load-results");
    if (status == 0 && dump != NULL) {
        status = dump_launches(dump, &plan, &data);
    } else if (status == 0 && load != NULL) {
        status = load_results(load, &data);
    } else if (status == 0 && !pb_run(&plan, &data, &err)) {
        status = complain("%s", err.text);
    }
    if (status == 0 && dump == NULL) {
        status = write_files(j, &data, f);
    }
    pb_free(&data);
    return status;
}

static int command_run(job *j)
{
    files *f = (files *)calloc(1, sizeof *f);
    if (f == NULL) {
        return complain("out of memory");
    }
    int status = run_with(j, f);
    free_files(f);
    free(f);
    return status;
}


/*------------------------------------------------------------------------------------------------------------
  verify
*/
typedef struct verdict {
    int64_t wrong;
    const char *all;     /* instance that everything was compared with, NULL: none */
    const char *samples; /* what single outputs were compared with, NULL: none */
} verdict;

static void print_report(const char *set, const char *what, const pb_report *r, int equal, verdict *v)
{
    printf("  %-9s %-8s %12lld values  ", set, what, (long long)r->values);
    if (r->wrong > 0) {
        printf("%lld WRONG, first %s\n", (long long)r->wrong, r->first);
    } else if (equal) {
        printf("equal\n");
    } else {
        printf("within the bound (largest difference %.3g, %.2g of what is allowed)\n", r->worst, r->ratio);
    }
    v->wrong += r->wrong;
}

/* The plan to compare everything with: ref; where that takes too long a cpu instance other than the one
   under test, of another instruction set than the best one if there is one. 0: there is none. */
static int reference_plan(const pb_problem *p, const ckconv_plan *tested, int all_with_ref, ckconv_plan *plan,
                          ckconv_error *err)
{
    pb_problem host = *p;
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.threads = p->options.threads;
    o.engine = all_with_ref ? CKCONV_ENGINE_REF : CKCONV_ENGINE_CPU;
    ckconv_device_cpu(&host.device);
    if (!pb_plan_with(&host, &o, plan, err)) {
        return 0;
    }
    if (all_with_ref || plan->instance != tested->instance) {
        return 1;
    }
    const int32_t wide = CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, features = host.device.features;
    host.device.features &= ~wide;
    if (host.device.features != features && pb_plan_with(&host, &o, plan, err) &&
        plan->instance != tested->instance) {
        return 1;
    }
    host.device.features = features;
    if (!pb_plan_with(&host, &o, plan, err)) {
        return 0;
    }
    ckconv_plan base = *plan;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        if (i != tested->instance && ckconv_instance_engine(i) == CKCONV_ENGINE_CPU &&
            ckconv_instance_supports(i, &base, NULL) == CKCONV_OK) {
            o.instance = ckconv_instance_name(i);
            if (pb_plan_with(&host, &o, plan, err)) {
                return 1;
            }
        }
    }
    return 0;
}

/* Relu's gradient jumps where its argument is 0: dout becomes 0 where the argument is so close to it that
   rounding decides. */
static int spare_jumps(const ckconv_plan *plan, pb_data *data, ckconv_error *err)
{
    ckconv_plan forward;
    ckconv_device cpu;
    ckconv_options o;
    pb_data work;
    ckconv_groupnorm_desc d = plan->u.groupnorm;
    memset(&o, 0, sizeof o);
    o.engine = CKCONV_ENGINE_REF;
    ckconv_device_cpu(&cpu);
    d.act = CKCONV_PASS;
    if (ckconv_plan_groupnorm(&forward, CKCONV_GROUPNORM_FWD, &d, &o, &cpu, err) != CKCONV_OK ||
        !pb_alloc(&work, &forward, 0, data, err)) {
        return 0;
    }
    const int from = pb_role_of(CKCONV_GROUPNORM_FWD, "out"), to = pb_role_of(plan->op, "dout");
    const int good = pb_run(&forward, &work, err);
    const size_t size = ckconv_dtype_size(d.out.dtype);
    for (size_t at = 0; good && at < (size_t)work.info[from].bytes; at += size) {
        double argument;
        ckconv_to_double(d.out.dtype, (const char *)work.host[from] + at, &argument, 1);
        if (fabs(argument) < 1e-5) {
            memset((char *)data->host[to] + at, 0, size);
        }
    }
    pb_free(&work);
    return good;
}

/* One set of data: run, compare. Returns 0 with *err when something could not run. */
static int verify_set(const job *j, const pb_problem *p, const ckconv_plan *plan, const char *name,
                      const pb_pattern *pattern, int equal, verdict *v, ckconv_error *err)
{
    int norm = (1 << plan->op & PB_GN) != 0;
    int small = norm || (double)plan->flop <= large_flop, with_ref = small || own(j, "full") != NULL;
    uint32_t wanted = wanted_roles(p, 1);
    pb_data got, want;
    pb_bound bound;
    ckconv_plan reference;
    memset(&want, 0, sizeof want);
    memset(&bound, 0, sizeof bound);
    if (!pb_alloc(&got, plan, wanted, NULL, err)) {
        return 0;
    }
    int good = pb_fill(&got, plan, pattern, err);
    if (plan->op == CKCONV_GROUPNORM_BWD && plan->u.groupnorm.act == CKCONV_RELU) {
        good = good && spare_jumps(plan, &got, err);
    }
    good = good && pb_run(plan, &got, err);
    int compare = good && reference_plan(p, plan, with_ref, &reference, err);
    good = good && (compare || !with_ref);
    if (compare) {
        good = pb_alloc(&want, &reference, wanted, &got, err) && pb_run(&reference, &want, err);
        v->all = ckconv_instance_name(reference.instance);
    }
    for (int r = 0; r < PB_ROLES && good && compare; r++) {
        if (got.used[r] == 0 || !pb_is_written(plan->op, r)) {
            continue;
        }
        pb_report report;
        memset(&report, 0, sizeof report);
        good = equal || pb_bound_make(&bound, plan, &want, r, !with_ref, err);
        if (good) {
            pb_view a = pb_view_of(&got, r), b = pb_view_of(&want, r);
            if (!with_ref) { /* both sides round */
                bound.share *= 2;
                bound.direct *= 2;
            }
            pb_compare(&a, &b, equal ? NULL : &bound, &report);
            print_report(name, pb_roles[r].name, &report, equal, v);
        }
        pb_bound_free(&bound);
    }
    if (good && !norm && (!with_ref || plan->engine == CKCONV_ENGINE_REF)) {
        pb_report report;
        memset(&report, 0, sizeof report);
        good = pb_check_samples(plan, &got, equal, &report, err);
        v->samples = "the definition for samples";
        print_report(name, "samples", &report, equal, v);
    }
    pb_free(&want);
    pb_free(&got);
    return good;
}

static const char *types_text(const ckconv_plan *plan, char *text, size_t size);

static int verify_one(job *j, pb_problem *p, const char *name)
{
    ckconv_plan plan;
    ckconv_error err;
    if (!pb_finish(p, &err) || !make_plan(j, p, &plan, &err)) {
        return complain("%s%s%s", name, name[0] != '\0' ? ": " : "", err.text);
    }
    char types[64];
    printf("%s%s%s %s, %s\n", name, name[0] != '\0' ? " " : "", ckconv_op_name(p->op),
           types_text(&plan, types, sizeof types), ckconv_instance_name(plan.instance));
    fflush(stdout);
    verdict v = {0, NULL, NULL};
    pb_pattern pattern;
    int integers = pb_arithmetic(&plan) == CKCONV_I8, norm = (1 << p->op & PB_GN) != 0;
    int good = 1;
    if (pb_exact_pattern(&plan, &pattern)) {
        good = verify_set(j, p, &plan, "integers", &pattern, 1, &v, &err);
    }
    if (good) {
        memset(&pattern, 0, sizeof pattern);
        pattern.kind = integers ? PB_INTEGERS : PB_NORMAL;
        pattern.low = integers ? -128 : norm ? 1 : 0;
        pattern.high = integers ? 127 : 1;
        pattern.seed = 1;
        good = verify_set(j, p, &plan, integers ? "all i8" : "normal", &pattern, 0, &v, &err);
    }
    if (!good) {
        return complain("%s%s%s", name, name[0] != '\0' ? ": " : "", err.text);
    }
    printf("%s against %s%s%s\n", v.wrong == 0 ? "verified" : "FAILED", v.all != NULL ? v.all : "",
           v.all != NULL && v.samples != NULL ? " and " : "", v.samples != NULL ? v.samples : "");
    return v.wrong == 0 ? 0 : EXIT_WRONG;
}


/*------------------------------------------------------------------------------------------------------------
  bench
*/

/* "f16", or all three tensors' types when they differ. */
static const char *types_text(const ckconv_plan *plan, char *text, size_t size)
{
    ckconv_tensor_info t[3];
    for (int32_t which = CKCONV_TENSOR_IN; which <= CKCONV_TENSOR_OUT; which++) {
        if (ckconv_plan_tensor(plan, which, &t[which], NULL) != CKCONV_OK) {
            t[which] = t[0];
        }
    }
    if (t[0].dtype == t[1].dtype && t[0].dtype == t[2].dtype) {
        snprintf(text, size, "%s", ckconv_dtype_name(t[0].dtype));
    } else {
        snprintf(text, size, "%s/%s/%s", ckconv_dtype_name(t[0].dtype), ckconv_dtype_name(t[1].dtype),
                 ckconv_dtype_name(t[2].dtype));
    }
    return text;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Memory that is written before every run on a GPU, so that its caches hold none of the tensors. */
enum { FLUSH_BYTES = 256 << 20 };

/* Time runs of a plan: seconds[], sorted. Returns how many, 0 on an error. */
static int time_runs(const ckconv_plan *plan, pb_data *data, int repeats, double budget, double *seconds,
                     int capacity, ckconv_error *err)
{
    const ckconv_device *where = &data->where;
    int gpu = where->kind != CKCONV_DEVICE_CPU, count = 0;
    void *flush = gpu ? ckconv_device_alloc(where, FLUSH_BYTES, err) : NULL;
    ckconv_timer timer;
    if ((gpu && flush == NULL) || !pb_upload(data, err) ||
        ckconv_timer_create(where, &timer, err) != CKCONV_OK) {
        ckconv_device_free(where, flush);
        return 0;
    }
    double spent = 0;
    for (int run = -1; run < capacity; run++) { /* run -1 warms up */
        if (gpu && ckconv_device_fill(where, flush, run & 255, FLUSH_BYTES, err) != CKCONV_OK) {
            count = 0;
            break;
        }
        ckconv_timer_start(where, &timer, NULL);
        if (ckconv_run(plan, &data->args, data->workspace, data->workspace_bytes, NULL, err) != CKCONV_OK) {
            count = 0;
            break;
        }
        ckconv_timer_stop(where, &timer, NULL);
        double took = ckconv_timer_seconds(where, &timer);
        if (run >= 0) {
            seconds[count++] = took;
            spent += took;
        }
        if (repeats > 0 ? count >= repeats : count >= 5 && spent >= budget) {
            break;
        }
    }
    ckconv_timer_destroy(where, &timer);
    ckconv_device_free(where, flush);
    qsort(seconds, (size_t)count, sizeof seconds[0], compare_doubles);
    return count;
}

static int bench_plan(job *j, const pb_problem *p, const ckconv_plan *plan, const char *name, int repeats,
                      double budget)
{
    enum { CAPACITY = 1000 };
    double seconds[CAPACITY];
    ckconv_error err;
    pb_data data;
    pb_pattern pattern;
    memset(&pattern, 0, sizeof pattern);
    pattern.kind = PB_NORMAL;
    pattern.high = 1;
    if (!pb_alloc(&data, plan, wanted_roles(p, 0), NULL, &err)) {
        return complain("%s: %s", name, err.text);
    }
    int count = 0;
    if (pb_fill(&data, plan, &pattern, &err)) {
        count =
            time_runs(plan, &data, repeats < CAPACITY ? repeats : CAPACITY, budget, seconds, CAPACITY, &err);
    }
    ckconv_layout layout = data.info[pb_role_of(p->op, p->op == CKCONV_BWD_DATA ? "din" : "in")].layout;
    pb_free(&data);
    if (count == 0) {
        return complain("%s: %s", name, err.text);
    }
    if (!j->header) {
        puts("name\top\tdtype\tlayout\tengine\tinstance\tworkspace_bytes\tus_median\tus_min\ttflops\tgb_per_"
             "s");
        j->header = 1;
    }
    double median = (seconds[count / 2] + seconds[(count - 1) / 2]) / 2;
    char types[64];
    printf("%s\t%s\t%s\t%s\t%s\t%s\t%lld\t%.2f\t%.2f\t", name, ckconv_op_name(p->op),
           types_text(plan, types, sizeof types), ckconv_layout_name(layout),
           ckconv_engine_name(plan->engine), ckconv_instance_name(plan->instance),
           (long long)plan->workspace_bytes, 1e6 * median, 1e6 * seconds[0]);
    if (p->op == CKCONV_GROUPNORM_FWD || p->op == CKCONV_GROUPNORM_BWD || median <= 0) {
        printf("-\t");
    } else {
        printf("%.4g\t", 1e-12 * (double)plan->flop / median);
    }
    printf("%.4g\n", median > 0 ? 1e-9 * (double)plan->bytes / median : 0.0);
    fflush(stdout);
    return 0;
}

/* --repeats and --seconds. */
static int timing_options(const job *j, int *repeats, double *budget)
{
    const char *text = own(j, "repeats"), *end;
    int64_t whole = 0;
    *budget = 1;
    if (text != NULL && (!pb_parse_int(text, &end, &whole) || *end != '\0' || whole < 1 || whole > 1000)) {
        return complain("--repeats: '%s' is not a whole number from 1 to 1000", text);
    }
    *repeats = (int)whole;
    text = own(j, "seconds");
    if (text != NULL && (!pb_parse_real(text, &end, budget) || *end != '\0' || *budget < 0)) {
        return complain("--seconds: '%s' is not a number of at least 0", text);
    }
    return 0;
}

static int bench_one(job *j, pb_problem *p, const char *row)
{
    ckconv_plan plan;
    ckconv_error err;
    int repeats;
    double budget;
    int status = timing_options(j, &repeats, &budget);
    if (status != 0) {
        return status;
    }
    if (!pb_finish(p, &err) || !make_plan(j, p, &plan, &err)) {
        return complain("%s%s%s", row, row[0] != '\0' ? ": " : "", err.text);
    }
    const char *name = own(j, "name");
    return bench_plan(j, p, &plan, name != NULL ? name : row[0] != '\0' ? row : "-", repeats, budget);
}


/*------------------------------------------------------------------------------------------------------------
  One problem, or all rows of --cases
*/
static int do_rows(job *j, pb_table *t, const char *path, int (*each)(job *, pb_problem *, const char *))
{
    int worst = 0, done = 0, more;
    const char *match = own(j, "match");
    ckconv_error err;
    while ((more = pb_table_next(t, &err)) > 0) {
        if (match != NULL && strstr(t->cell[0], match) == NULL) {
            continue;
        }
        for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
            if ((t->ops & 1 << op) != 0 && (j->op == 0 || j->op == op)) {
                pb_problem p;
                make_problem(j, op, &p);
                pb_table_problem(t, own(j, "small") != NULL, &p);
                int status = each(j, &p, t->cell[0]);
                worst = status > worst ? status : worst;
                done++;
            }
        }
    }
    if (more < 0) {
        return complain("--cases: %s: %s", path, err.text);
    }
    if (done == 0) {
        return complain("--%s: no row of %s fits", match != NULL ? "match" : "cases", path);
    }
    return worst;
}

static int command_each(job *j, int (*each)(job *, pb_problem *, const char *))
{
    const char *path = own(j, "cases");
    if (path != NULL) {
        pb_table table;
        memset(&table, 0, sizeof table);
        table.file = fopen(path, "r");
        if (table.file == NULL) {
            return complain("--cases: %s: cannot be opened", path);
        }
        int status = do_rows(j, &table, path, each);
        fclose(table.file);
        return status;
    }
    for (int i = 0; i < 3; i++) {
        static const char *const only[3] = {"match", "small", "cases"};
        if (own(j, only[i]) != NULL) {
            return complain("--%s: only with --cases", only[i]);
        }
    }
    if (j->op == 0) {
        return complain("%s: needs an operation, see ckconv %s --help", j->command->name, j->command->name);
    }
    pb_problem p;
    make_problem(j, j->op, &p);
    return each(j, &p, "");
}


/*------------------------------------------------------------------------------------------------------------
  find, list, info
*/

/* The largest workspace that any instance wants. */
static int64_t largest_workspace(const pb_problem *p, const ckconv_plan *base)
{
    int64_t largest = base->workspace_bytes;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        ckconv_options o = p->options;
        ckconv_plan plan;
        o.instance = ckconv_instance_name(i);
        if (ckconv_instance_supports(i, base, NULL) == CKCONV_OK &&
            ckconv_plan_again(&plan, base, &o, NULL) == CKCONV_OK && plan.workspace_bytes > largest) {
            largest = plan.workspace_bytes;
        }
    }
    return largest;
}

static int save_choices(const char *path, const ckconv_choice *choices, int32_t count)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return complain("--save: %s: cannot be opened for writing", path);
    }
    int good = 1;
    for (int32_t i = 0; i < count; i++) {
        char line[512];
        ckconv_choice_to_text(&choices[i], line, sizeof line);
        good = good && fprintf(file, "%s\n", line) > 0;
    }
    return fclose(file) == 0 && good ? 0 : complain("--save: %s: cannot be written", path);
}

/* All instances of a problem, timed, best first. */
enum { CAPACITY = 256 };
static int tune_all(pb_problem *p, const char *row, int repeats, ckconv_plan *base, ckconv_choice *choices,
                    int32_t *count)
{
    ckconv_error err;
    pb_data data;
    pb_pattern pattern;
    const char *gap = row[0] != '\0' ? ": " : "";
    *count = 0;
    if (!pb_finish(p, &err) || !pb_plan(p, base, &err)) {
        return complain("%s%s%s", row, gap, err.text);
    }
    memset(&pattern, 0, sizeof pattern);
    pattern.kind = PB_NORMAL;
    pattern.high = 1;
    if (!pb_alloc(&data, base, wanted_roles(p, 0), NULL, &err)) {
        return complain("%s%s%s", row, gap, err.text);
    }
    int good = pb_workspace(&data, largest_workspace(p, base), &err) &&
               pb_fill(&data, base, &pattern, &err) && pb_upload(&data, &err) &&
               ckconv_tune(base, &data.args, data.workspace, data.workspace_bytes, NULL,
                           repeats > 0 ? repeats : 5, choices, CAPACITY, count, &err) == CKCONV_OK;
    pb_free(&data);
    return good ? 0 : complain("%s%s%s", row, gap, err.text);
}

/* find --fit: what problems have told so far. */
static fit fitted;
static ckconv_device fitted_device;

static int plan_for_fit(void *context, const float costs[CKCONV_COSTS], ckconv_plan *base)
{
    pb_problem *p = (pb_problem *)context;
    ckconv_error err;
    memcpy(p->device.costs, costs, sizeof p->device.costs);
    return pb_plan(p, base, &err);
}

/* Instances that take four times as long as the best teach nothing that a choice needs. */
static int fit_one(job *j, pb_problem *p, const char *row)
{
    static ckconv_choice choices[CAPACITY];
    ckconv_plan base;
    int32_t count;
    int repeats;
    double budget;
    int status = timing_options(j, &repeats, &budget);
    status = status != 0 ? status : tune_all(p, row, repeats, &base, choices, &count);
    if (status != 0) {
        return status;
    }
    if (base.engine != CKCONV_ENGINE_GPU) {
        return complain("--fit: only for the engine gpu");
    }
    fitted_device = base.device;
    for (int32_t i = 0; i < count && choices[i].seconds <= 4 * choices[0].seconds; i++) {
        double terms[CKCONV_COSTS];
        if (fit_terms(plan_for_fit, p, &choices[i], terms)) {
            fit_add(&fitted, terms, choices[i].seconds);
        }
    }
    return 0;
}

static int command_fit(job *j)
{
    int status = command_each(j, fit_one);
    char text[512];
    double before, after;
    if (status != 0) {
        return status;
    }
    if (!fit_solve(&fitted, fitted_device.costs, &before, &after)) {
        return complain("--fit: %d runs, and ten are the least: give --cases", fitted.count);
    }
    ckconv_costs_to_text(&fitted_device, text, sizeof text);
    printf(
        "# %s, %d compute units: %d runs, median distance from the modelled time %.0f %%, %.0f %% with\n%s",
        fitted_device.arch, (int)fitted_device.compute_units, fitted.count, 100 * before, 100 * after, text);
    return 0;
}

static int command_find(job *j)
{
    static ckconv_choice choices[CAPACITY];
    pb_problem p;
    ckconv_plan base;
    int32_t count = 0;
    int repeats;
    double budget;
    int status = timing_options(j, &repeats, &budget);
    for (int i = 0; i < 3; i++) {
        static const char *const only[3] = {"cases", "match", "small"};
        if (status == 0 && own(j, only[i]) != NULL) {
            status = complain("--%s: find takes it only with --fit", only[i]);
        }
    }
    if (status == 0) {
        make_problem(j, j->op, &p);
        status = tune_all(&p, "", repeats, &base, choices, &count);
    }
    if (status != 0) {
        return status;
    }
    puts("instance\tengine\tfamily\tsplit_k\tworkspace_bytes\tus_median\ttflops\tus_modelled");
    for (int32_t i = 0; i < count; i++) {
        const ckconv_choice *c = &choices[i];
        printf("%s\t%s\t%s\t%d\t%lld\t%.2f\t", ckconv_instance_name(c->instance),
               ckconv_engine_name(ckconv_instance_engine(c->instance)),
               ckconv_family_name(ckconv_instance_family(c->instance)), (int)c->split_k,
               (long long)c->workspace_bytes, 1e6 * c->seconds);
        if ((1 << p.op & PB_GN) != 0 || c->seconds <= 0) {
            printf("-");
        } else {
            printf("%.4g", 1e-12 * (double)base.flop / c->seconds);
        }
        ckconv_plan plan;
        double modelled =
            ckconv_plan_choice(&plan, &base, c, NULL) == CKCONV_OK ? ckconv_plan_seconds(&plan) : -1;
        printf(modelled < 0 ? "\t-\n" : "\t%.2f\n", 1e6 * modelled);
    }
    const char *path = own(j, "save");
    return path != NULL ? save_choices(path, choices, count) : 0;
}

static int command_list(job *j)
{
    pb_problem p;
    ckconv_plan base;
    ckconv_error err;
    if (j->op == 0 && j->num_given > 0) {
        return complain("--%s: list takes a problem only with an operation", j->given[0][0]);
    }
    if (j->op != 0 && j->num_given > 0) {
        make_problem(j, j->op, &p);
        if (!pb_finish(&p, &err) || !pb_plan(&p, &base, &err)) {
            return complain("%s", err.text);
        }
        char text[2048];
        ckconv_plan_describe(&base, text, sizeof text);
        printf("# %s\n", text);
        if (ckconv_plan_seconds(&base) >= 0) {
            printf("# modelled: %.2f us\n", 1e6 * ckconv_plan_seconds(&base));
        }
    }
    printf("instance\tengine\tfamily\t%s\n", j->num_given > 0 ? "supported" : "operations");
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        int ops = 0;
        for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
            ops |= ckconv_instance_does(i, op) ? 1 << op : 0;
        }
        if (ops == 0 || (j->op != 0 && (ops & 1 << j->op) == 0)) {
            continue;
        }
        printf("%s\t%s\t%s\t", ckconv_instance_name(i), ckconv_engine_name(ckconv_instance_engine(i)),
               ckconv_family_name(ckconv_instance_family(i)));
        if (j->num_given == 0) {
            print_ops(ops);
            putchar('\n');
        } else {
            int host = base.engine == CKCONV_ENGINE_GPU && ckconv_instance_engine(i) != CKCONV_ENGINE_GPU;
            puts(ckconv_instance_supports(i, &base, &err) != CKCONV_OK ? err.text
                 : host                                                ? "supported, on the host"
                                                                       : "supported");
        }
    }
    return 0;
}

static int command_info(void)
{
    int32_t version = ckconv_version();
    ckconv_device d;
    ckconv_error err;
    printf("ckconv   %d.%d.%d\n", (int)(version / 10000), (int)(version / 100 % 100), (int)(version % 100));
    printf("build    %s\n", ckconv_build_text());
#if defined(__VERSION__)
    printf("compiler %s\n", __VERSION__);
#endif
    ckconv_device_cpu(&d);
    printf("cpu      %s, %d thread%s,%s%s%s%s\n", d.arch, (int)d.threads, d.threads == 1 ? "" : "s",
           (d.features & CKCONV_CPU_AVX2) != 0 ? " AVX2" : "",
           (d.features & CKCONV_CPU_AVX512) != 0 ? " AVX-512" : "",
           (d.features & CKCONV_CPU_AVX512_BF16) != 0 ? " AVX-512-BF16" : "",
           d.features == 0 ? " portable vectors" : "");
    int counts[4] = {0, 0, 0, 0};
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        ckconv_engine engine = ckconv_instance_engine(i);
        int does = 0;
        for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
            does |= ckconv_instance_does(i, op);
        }
        counts[engine >= 0 && engine < 4 ? engine : 0] += does;
    }
    int gpu_code = ckconv_device_gpu(0, &d, &err) != CKCONV_ERR_NO_DEVICE_CODE;
    for (ckconv_engine engine = CKCONV_ENGINE_REF; engine <= CKCONV_ENGINE_GPU; engine++) {
        if (engine == CKCONV_ENGINE_GPU && !gpu_code) {
            printf("engine   gpu: %s\n", err.text);
        } else {
            printf("engine   %s: %d instance%s\n", ckconv_engine_name(engine), counts[engine],
                   counts[engine] == 1 ? "" : "s");
        }
    }
    int32_t gpus = ckconv_device_count();
    for (int32_t i = 0; i < gpus; i++) {
        if (ckconv_device_gpu(i, &d, &err) != CKCONV_OK) {
            printf("gpu %-4d %s\n", (int)i, err.text);
        } else {
            char text[512];
            printf("gpu %-4d %s, %d compute units, waves of %d, %d bytes of LDS per block\n", (int)i, d.arch,
                   (int)d.compute_units, (int)d.wave_size, (int)d.lds_bytes);
            ckconv_device_text(&d, text, sizeof text);
            printf("         %s\n", text);
        }
    }
    if (gpus == 0) {
        puts("gpu      none");
    }
    return 0;
}

int main(int argc, char **argv)
{
    static job j;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || (i < 3 && strcmp(argv[i], "-h") == 0)) {
            const command *only = NULL;
            for (int c = 0; c < COMMANDS; c++) {
                only = strcmp(commands[c].name, argv[1]) == 0 ? &commands[c] : only;
            }
            return print_help(only);
        }
    }
    if (argc < 2) {
        return complain("no command, see ckconv --help");
    }
    for (int c = 0; c < COMMANDS; c++) {
        if (strcmp(commands[c].name, argv[1]) == 0) {
            j.command = &commands[c];
        }
    }
    if (j.command == NULL) {
        return complain("'%s': unknown command (info, list, run, verify, bench, find; see ckconv --help)",
                        argv[1]);
    }
    if (j.command->bit == INFO) {
        return argc > 2 ? complain("'%s': info takes nothing", argv[2]) : command_info();
    }
    int status = parse(&j, argc, argv);
    const int fits = j.command->bit == FIND && own(&j, "fit") != NULL;
    if (status == 0 && fits && own(&j, "save") != NULL) {
        status = complain("--save: find writes choices, which --fit does not print");
    }
    if (status == 0 && j.op == 0 && (j.command->bit & (RUN | FIND)) != 0 && !fits) {
        status = complain("%s: needs an operation, see ckconv %s --help", argv[1], argv[1]);
    }
    for (int i = 0; i < j.num_given && status == 0; i++) {
        int dumps =
            j.command->bit == RUN && (own(&j, "dump-launch") != NULL || own(&j, "load-results") != NULL);
        if (strcmp(j.given[i][0], "target") == 0 && j.command->bit != LIST && !dumps) {
            status =
                complain("--target: %s computes, and that takes the GPU itself; list takes it, and run with "
                         "--dump-launch",
                         argv[1]);
        }
    }
    if (status != 0) {
        return status;
    }
    switch (j.command->bit) {
    case LIST:
        status = command_list(&j);
        break;
    case RUN:
        status = command_run(&j);
        break;
    case FIND:
        status = fits ? command_fit(&j) : command_find(&j);
        break;
    case VERIFY:
        status = command_each(&j, verify_one);
        break;
    default:
        status = command_each(&j, bench_one);
        break;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return complain("standard output cannot be written");
    }
    return status;
}
