/* parallel.h - several ranks train one network: sums over all of them, added in an order that does not depend
   on their number
   SPDX-License-Identifier: MIT

   Do this in one C file, first of all (POSIX; link with -lpthread -ldl where the C library wants it):

       #define PARALLEL_IMPLEMENTATION
       #include "parallel.h"

   Three transports, chosen when the program runs; the libraries are opened then, and nothing links to them:

       self   the ranks are threads of this process
       mpi    Open MPI, for memory of the host. Start with mpirun. PARALLEL_MPI=path of libmpi.so
       nccl   NCCL or RCCL, for memory of GPUs: a process and a GPU for each rank. Start with mpirun, or set
              RANK and WORLD_SIZE (and LOCAL_RANK, the number of the GPU, if it is another than RANK).
              MASTER_FILE=path where all ranks meet; default: a file in /tmp named for the user and the parent
              process, which ranks that one shell or mpirun starts have in common. PARALLEL_NCCL=path of
              libnccl.so.2 or librccl.so.1, PARALLEL_GPU=path of libcuda.so.1 or libamdhip64.so

   What it promises
   - parallel_sum adds in a binary tree over the parts of all ranks: ((0+1)+(2+3))+... with the parts in the
     order of their ranks. The tree depends on the number of all parts, not on how many of them a rank has: 4
     parts give the same bits on 1, 2 and 4 ranks, with every transport. Ranks and parts are powers of two.
     It halves and then doubles, so that a rank sends and receives 2 (R-1)/R times the data, as in a ring.
   - It returns at once. Sums go on beside the caller's work, in the order in which they were begun: on a
     thread of the rank's own (self, mpi), or on a stream of its own, behind what was in the caller's (nccl).
     parallel_wait waits for all.
   - No rank waits for ever: after `timeout` seconds, or when one dies or calls parallel_end, all ranks end
     with a message and an exit status that is not 0.
   - All ranks make the same calls in the same order. A rank's calls come from one thread. */
#ifndef EXAMPLES_PARALLEL_H
#define EXAMPLES_PARALLEL_H

#if defined(PARALLEL_IMPLEMENTATION) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include <stddef.h>
#include <stdint.h>

typedef enum parallel_kind { PARALLEL_SELF, PARALLEL_MPI, PARALLEL_NCCL } parallel_kind;
typedef struct parallel parallel;

/* sum[i] += other[i], on a stream for memory of a GPU. `count` is a multiple of PARALLEL_ALIGN if that of
   parallel_sum was. */
typedef void (*parallel_add)(void *user, float *sum, const float *other, size_t count, void *stream);
enum { PARALLEL_ALIGN = 256 };

/* Zero means the default. */
typedef struct parallel_options {
    parallel_kind kind;
    int ranks;        /* self: how many (1); else how many there must be (as many as were started) */
    double timeout;   /* seconds (60) */
    int any_order;    /* nccl: ncclAllReduce, whose order of adding is NCCL's own */
    const char *name; /* of the program, for messages */
} parallel_options;

/* Calls body for each rank of this process, with user; returns what it returned (the largest). */
int parallel_run(const parallel_options *options, int (*body)(parallel *p, void *user), void *user);

int parallel_rank(const parallel *p);
int parallel_ranks(const parallel *p);
int parallel_local_rank(const parallel *p);  /* the number of a GPU for this rank */
int parallel_on_device(const parallel *p);   /* sums are of a GPU's memory */
void parallel_at(parallel *p, int64_t step); /* for messages */

/* nccl: call it once, when the GPU is current and before the first sum. amd: RCCL and HIP. add: how floats
   are added there. largest: count of the largest sum. */
void parallel_use_device(parallel *p, int amd, parallel_add add, void *user, size_t largest);

/* Begin a sum: of `parts` vectors of this rank, count floats each, part i at data + i * stride, and as many
   of every other rank. Part 0 becomes the result, on all ranks; the others are overwritten. All must stay
   until parallel_wait. stream: the one that writes data (nccl). */
void parallel_sum(parallel *p, float *data, size_t stride, int parts, size_t count, void *stream);
void parallel_wait(parallel *p);

/* Every rank gives `each` bytes, which lie at data + rank * each, and gets those of all. Memory of the host.
   It is a barrier, too. */
void parallel_gather(parallel *p, void *data, size_t each);

/* A number of 64 bits for these bytes; and: all ranks must have the same number, else all end with a message
   that names those that differ from rank 0. */
uint64_t parallel_digest(const void *data, size_t bytes);
void parallel_agree(parallel *p, uint64_t number, const char *what);

/* End all ranks, with a message unless it is NULL. Does not return. p may be NULL: this thread's rank. */
void parallel_end(parallel *p, int status, const char *format, ...);
/* For tests: what happens when a machine goes down. */
void parallel_die(parallel *p);

#endif /* EXAMPLES_PARALLEL_H */

/*----------------------------------------------------------------------------------------------------------*/
#ifdef PARALLEL_IMPLEMENTATION
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PARALLEL_JOBS = 64, PARALLEL_STACK = 8 << 20 };

/* A collective operation of the rank's own thread. */
typedef struct parallel_job {
    float *data; /* NULL: of `gather` */
    size_t stride, count;
    int parts;
    unsigned char *gather;
    size_t each;
} parallel_job;

/* self: what all ranks of the process share. A message is a pointer; the reader copies from it. */
typedef struct parallel_letter {
    const void *data;
    size_t bytes;
    int to;
    long posted, taken; /* how many so far */
} parallel_letter;
typedef struct parallel_office {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    parallel_letter *from; /* a letter of each rank */
} parallel_office;

/* mpi: handles are pointers in Open MPI. */
typedef struct parallel_mpi {
    int (*init_thread)(int *, char ***, int, int *);
    int (*comm_rank)(void *, int *);
    int (*comm_size)(void *, int *);
    int (*isend)(const void *, int, void *, int, int, void *, void **);
    int (*irecv)(void *, int, void *, int, int, void *, void **);
    int (*test)(void **, int *, void *);
    int (*abort)(void *, int);
    int (*finalize)(void);
    void *world, *byte;
} parallel_mpi;

/* nccl: an id travels by value, and is made by one rank. */
typedef struct parallel_id {
    char bytes[128];
} parallel_id;
typedef struct parallel_nccl {
    int (*get_unique_id)(parallel_id *);
    int (*comm_init_rank)(void **, int, parallel_id, int);
    int (*send)(const void *, size_t, int, int, void *, void *);
    int (*recv)(void *, size_t, int, int, void *, void *);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);
    int (*async_error)(void *, int *);
    int (*destroy)(void *);
    const char *(*error_text)(int);
    /* CUDA's driver, or HIP: the same arguments */
    int (*stream_create)(void **, unsigned, int);
    int (*event_create)(void **, unsigned);
    int (*event_record)(void *, void *);
    int (*stream_wait)(void *, void *, unsigned);
    int (*event_synchronise)(void *);
    int (*alloc)(void **, size_t);
    int (*upload)(void *, const void *, size_t);
    int (*download)(void *, const void *, size_t);
    void *comm, *stream, *ready, *done, *staged;
    size_t staged_bytes;
    parallel_add add;
    void *add_user;
} parallel_nccl;
enum { PARALLEL_NCCL_BYTE = 1, PARALLEL_NCCL_FLOAT = 7, PARALLEL_NCCL_SUM = 0 };

struct parallel {
    parallel_options o;
    int rank, ranks, local;
    int64_t step;
    int (*body)(parallel *p, void *user);
    void *user;
    int status;
    unsigned char *spare; /* what others send, of a GPU or of the host */
    size_t spare_bytes;
    /* the rank's own thread: jobs [done, begun) wait or are at work; nccl: a guard, woken by its clock */
    pthread_t worker, worker_self; /* the latter known to itself */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    parallel_job job[PARALLEL_JOBS];
    long begun, done;
    int ready, closing, abort_status, met; /* met: the id is known */
    double deadline;                       /* nccl: when the wait of now is over; 0: none */
    parallel_office *office;
    long letters; /* self: exchanged so far */
    parallel_mpi mpi;
    parallel_nccl nccl;
    char file[512]; /* nccl: where ranks meet; an .end behind it: one has ended */
};

static pthread_key_t parallel_this_rank;
static pthread_once_t parallel_once = PTHREAD_ONCE_INIT;
static void parallel_make_key(void)
{
    pthread_key_create(&parallel_this_rank, NULL);
}

static double parallel_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void parallel_nap(double seconds)
{
    struct timespec t;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)(1e9 * (seconds - (double)t.tv_sec));
    nanosleep(&t, NULL);
}

/* ---- The end of all ranks ---- */

/* One message of a process is enough: the first that comes here ends it. */
static pthread_mutex_t parallel_last = PTHREAD_MUTEX_INITIALIZER;

static void parallel_path(const parallel *p, const char *behind, char *path, size_t size)
{
    snprintf(path, size, "%s%s", p->file, behind);
}

static void parallel_leave(parallel *p, int status, const char *text)
{
    pthread_mutex_lock(&parallel_last); /* and keep it */
    fflush(stdout);
    if (p != NULL && text != NULL) {
        fprintf(stderr, "%s: rank %d of %d, step %ld: %s; all ranks end\n", p->o.name, p->rank, p->ranks,
                (long)p->step, text);
    }
    if (p != NULL && p->file[0] != '\0' && p->ranks > 1) {
        char path[560];
        parallel_path(p, ".end", path, sizeof path);
        FILE *f = fopen(path, "w");
        if (f != NULL) {
            fprintf(f, "%d rank %d, step %ld: %s\n", status ? status : 3, p->rank, (long)p->step,
                    text ? text : "see above");
            fclose(f);
        }
    }
    if (p != NULL && p->mpi.abort != NULL) {
        if (pthread_equal(pthread_self(), p->worker_self)) {
            p->mpi.abort(p->mpi.world, status);
        } else {
            pthread_mutex_lock(&p->lock);
            p->abort_status = status; /* MPI is the worker's: it has a second to end the others */
            pthread_cond_broadcast(&p->changed);
            pthread_mutex_unlock(&p->lock);
            parallel_nap(1);
        }
    }
    _exit(status ? status : 3);
}

void parallel_end(parallel *p, int status, const char *format, ...)
{
    char text[512];
    if (format != NULL) {
        va_list list;
        va_start(list, format);
        vsnprintf(text, sizeof text, format, list);
        va_end(list);
    }
    if (p == NULL) {
        pthread_once(&parallel_once, parallel_make_key);
        p = (parallel *)pthread_getspecific(parallel_this_rank);
    }
    parallel_leave(p, status, format != NULL ? text : NULL);
}

void parallel_die(parallel *p)
{
    if (p->o.kind == PARALLEL_SELF) {
        p->status = 3;
        pthread_exit(NULL); /* its worker finds no more jobs */
    }
    kill(getpid(), SIGKILL);
}

static void parallel_late(parallel *p, int peer)
{
    parallel_end(p, 3, "nothing came from rank %d in %g seconds", peer, p->o.timeout);
}

/* Called in loops that wait: more and more slowly. */
static void parallel_pause(int *turns)
{
    if ((*turns)++ < 200) {
        sched_yield();
    } else {
        parallel_nap(5e-5);
    }
}

/* ---- Libraries ---- */

typedef struct parallel_symbol {
    const char *name;
    void *place; /* of a pointer to a function */
} parallel_symbol;

/* The first of `names` (ends with NULL) that can be opened, or the one that the environment names. */
static void *parallel_library(parallel *p, const char *variable, const char *const *names)
{
    const char *path = getenv(variable);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    for (int i = 0; path == NULL && library == NULL && names[i] != NULL; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    }
    if (library == NULL) {
        const char *why = dlerror();
        parallel_end(p, 2, "cannot open %s (%s=path names another): %s", path ? path : names[0], variable,
                     why ? why : "");
    }
    return library;
}

static void parallel_symbols(parallel *p, void *library, const parallel_symbol *symbols, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *s = dlsym(library, symbols[i].name);
        if (s == NULL) {
            parallel_end(p, 2, "the library has no %s", symbols[i].name);
        }
        memcpy(symbols[i].place, &s, sizeof s);
    }
}

/* The first of these variables that is set, as a number. */
static int parallel_variable(const char *a, const char *b, const char *c, int otherwise)
{
    const char *text = getenv(a);
    text = text ? text : b ? getenv(b) : NULL;
    text = text ? text : c ? getenv(c) : NULL;
    return text ? atoi(text) : otherwise;
}

/* ---- self ---- */

static void parallel_self_exchange(parallel *p, int peer, const void *send, size_t send_bytes, void *recv,
                                   size_t recv_bytes)
{
    parallel_office *o = p->office;
    parallel_letter *mine = &o->from[p->rank], *theirs = &o->from[peer];
    const long number = ++p->letters;
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += (time_t)p->o.timeout;
    limit.tv_nsec += (long)(1e9 * (p->o.timeout - (double)(time_t)p->o.timeout));
    if (limit.tv_nsec >= 1000000000) {
        limit.tv_sec++;
        limit.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&o->lock);
    mine->data = send;
    mine->bytes = send_bytes;
    mine->to = peer;
    mine->posted = number;
    pthread_cond_broadcast(&o->changed);
    int late = 0;
    while (theirs->posted < number && !late) {
        late = pthread_cond_timedwait(&o->changed, &o->lock, &limit) == ETIMEDOUT;
    }
    if (late) {
        parallel_late(p, peer);
    }
    if (theirs->to != p->rank || theirs->bytes != recv_bytes) {
        parallel_end(p, 3, "rank %d is at another place of the program", peer);
    }
    const void *data = theirs->data;
    pthread_mutex_unlock(&o->lock);
    if (recv_bytes > 0) {
        memcpy(recv, data, recv_bytes);
    }
    pthread_mutex_lock(&o->lock);
    theirs->taken = number;
    pthread_cond_broadcast(&o->changed);
    while (mine->taken < number && !late) {
        late = pthread_cond_timedwait(&o->changed, &o->lock, &limit) == ETIMEDOUT;
    }
    if (late) {
        parallel_late(p, peer);
    }
    pthread_mutex_unlock(&o->lock);
}

/* ---- mpi: only the rank's own thread calls it, from the first call to the last ---- */

static void parallel_mpi_open(parallel *p)
{
    static const char *const names[] = {"libmpi.so.40", "libmpi.so", NULL};
    parallel_mpi *m = &p->mpi;
    int (*abort_ranks)(void *, int) = NULL;
    const parallel_symbol symbols[] = {
        {"MPI_Init_thread", &m->init_thread},
        {"MPI_Comm_rank", &m->comm_rank},
        {"MPI_Comm_size", &m->comm_size},
        {"MPI_Isend", &m->isend},
        {"MPI_Irecv", &m->irecv},
        {"MPI_Test", &m->test},
        {"MPI_Finalize", &m->finalize},
        {"MPI_Abort", &abort_ranks},
    };
    const parallel_symbol open_mpi[] = {{"ompi_mpi_comm_world", &m->world}, {"ompi_mpi_byte", &m->byte}};
    void *library = parallel_library(p, "PARALLEL_MPI", names);
    int provided = 0;
    parallel_symbols(p, library, open_mpi, 2); /* handles are the addresses of these */
    parallel_symbols(p, library, symbols, sizeof symbols / sizeof symbols[0]);
    if (m->init_thread(NULL, NULL, 1 /* MPI_THREAD_FUNNELED */, &provided) != 0 || provided < 1) {
        parallel_end(p, 2, "MPI_Init_thread: no threads");
    }
    m->abort = abort_ranks;
    m->comm_rank(m->world, &p->rank);
    m->comm_size(m->world, &p->ranks);
    p->local = parallel_variable("OMPI_COMM_WORLD_LOCAL_RANK", NULL, NULL, p->rank);
}

/* An end that another thread of this rank wants. */
static void parallel_mpi_abort(parallel *p)
{
    pthread_mutex_lock(&p->lock);
    const int status = p->abort_status;
    pthread_mutex_unlock(&p->lock);
    if (status != 0) {
        p->mpi.abort(p->mpi.world, status);
    }
}

static void parallel_mpi_exchange(parallel *p, int peer, const void *send, size_t send_bytes, void *recv,
                                  size_t recv_bytes)
{
    const parallel_mpi *m = &p->mpi;
    const size_t piece = 1 << 30; /* counts are int */
    const double limit = parallel_now() + p->o.timeout;
    int turns = 0;
    for (size_t at = 0; at < send_bytes || at < recv_bytes; at += piece) {
        size_t out = at < send_bytes ? send_bytes - at : 0, in = at < recv_bytes ? recv_bytes - at : 0;
        void *request[2] = {NULL, NULL};
        int open[2] = {in > 0, out > 0}, bad = 0;
        out = out < piece ? out : piece;
        in = in < piece ? in : piece;
        if (in > 0) {
            bad |= m->irecv((char *)recv + at, (int)in, m->byte, peer, 7, m->world, &request[0]);
        }
        if (out > 0) {
            bad |= m->isend((const char *)send + at, (int)out, m->byte, peer, 7, m->world, &request[1]);
        }
        while (!bad && (open[0] || open[1])) {
            for (int i = 0; i < 2; i++) {
                int complete = 0;
                if (open[i]) {
                    bad |= m->test(&request[i], &complete, NULL /* MPI_STATUS_IGNORE */);
                    open[i] = !complete;
                }
            }
            parallel_mpi_abort(p);
            if (parallel_now() > limit) {
                parallel_late(p, peer);
            }
            parallel_pause(&turns);
        }
        if (bad) {
            parallel_end(p, 3, "MPI: the exchange with rank %d failed", peer);
        }
    }
}

/* ---- nccl ---- */

static void parallel_gpu_check(parallel *p, int code, const char *what)
{
    if (code != 0) {
        parallel_end(p, 3, "%s: error %d of the GPU's runtime", what, code);
    }
}

static void parallel_nccl_check(parallel *p, int code, const char *what)
{
    if (code != 0) {
        parallel_end(p, 3, "%s: %s", what, p->nccl.error_text(code));
    }
}

/* Calls of NCCL and of the runtime may wait for other ranks without a limit, even those that fill streams
   (a first message makes a connection). While one is at work the rank's own thread looks at the clock. */
static void parallel_arm(parallel *p, int on)
{
    pthread_mutex_lock(&p->lock);
    p->deadline = on ? parallel_now() + p->o.timeout : 0;
    pthread_mutex_unlock(&p->lock);
}

static void *parallel_guard(void *pointer)
{
    parallel *p = (parallel *)pointer;
    char path[560], text[256];
    int closing = 0;
    parallel_path(p, ".end", path, sizeof path);
    while (!closing) {
        pthread_mutex_lock(&p->lock);
        int late = p->deadline > 0 && parallel_now() > p->deadline, error = 0, met = p->met;
        closing = p->closing;
        if (p->nccl.comm != NULL && p->nccl.async_error(p->nccl.comm, &error) != 0) {
            error = 0;
        }
        pthread_mutex_unlock(&p->lock);
        FILE *f = met ? fopen(path, "r") : NULL; /* before, it may be an earlier run's */
        if (f != NULL) {
            if (fgets(text, sizeof text, f) != NULL) {
                char *reason = text;
                const long status = strtol(text, &reason, 10);
                pthread_mutex_lock(&parallel_last); /* this rank has no message of its own */
                fprintf(stderr, "%s: rank %d of %d: ended by%s", p->o.name, p->rank, p->ranks, reason);
                _exit(status > 0 && status < 126 ? (int)status : 3);
            }
            fclose(f); /* not written yet */
        }
        if (error != 0 && error != 7 /* in progress */) {
            parallel_end(p, 3, "another rank is lost: %s", p->nccl.error_text(error));
        }
        if (late) {
            parallel_end(p, 3, "nothing came from other ranks in %g seconds", p->o.timeout);
        }
        parallel_nap(0.05);
    }
    return NULL;
}

static int parallel_write_file(const char *path, const void *data, size_t bytes)
{
    char half[600];
    snprintf(half, sizeof half, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(half, "wb");
    if (f == NULL) {
        return 0;
    }
    size_t written = fwrite(data, 1, bytes, f);
    return fclose(f) == 0 && written == bytes && rename(half, path) == 0;
}

static int parallel_read_file(const char *path, void *data, size_t bytes)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        return 0;
    }
    size_t got = fread(data, 1, bytes, f);
    fclose(f);
    return got == bytes;
}

/* Rank 0's id for all. Every other rank leaves FILE.rankR with a number of its own; rank 0 answers in FILE
   with the id and those numbers; a rank that finds its number there takes the id and removes its file. So
   what an earlier run left behind is not believed, and rank 0 knows when all have it. */
static void parallel_meet(parallel *p, parallel_id *id)
{
    const size_t bytes = sizeof *id + sizeof(uint64_t) * (size_t)p->ranks;
    unsigned char *answer = (unsigned char *)calloc(1, bytes);
    uint64_t *number = (uint64_t *)calloc((size_t)p->ranks, sizeof(uint64_t));
    const double limit = parallel_now() + p->o.timeout;
    char path[560], behind[32];
    if (answer == NULL || number == NULL) {
        parallel_end(p, 2, "out of memory");
    }
    snprintf(behind, sizeof behind, ".rank%d", p->rank);
    parallel_path(p, behind, path, sizeof path);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t own =
        ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) * 1024u + (uint64_t)getpid() % 1024u;
    if (p->rank > 0 && !parallel_write_file(path, &own, sizeof own)) {
        parallel_end(p, 2, "MASTER_FILE: cannot write %s", path);
    }
    for (int waiting = p->ranks > 1; waiting;) {
        int changed = 0, left = 0;
        if (p->rank > 0) {
            waiting = !parallel_read_file(p->file, answer, bytes) ||
                      memcmp(answer + sizeof *id + sizeof own * (size_t)p->rank, &own, sizeof own) != 0;
        } else {
            for (int r = 1; r < p->ranks; r++) {
                uint64_t other = 0;
                snprintf(behind, sizeof behind, ".rank%d", r);
                parallel_path(p, behind, path, sizeof path);
                int there = parallel_read_file(path, &other, sizeof other);
                left += there || number[r] == 0;
                changed |= there && other != number[r];
                number[r] = there ? other : number[r];
            }
            memcpy(answer, id, sizeof *id);
            memcpy(answer + sizeof *id, number, sizeof own * (size_t)p->ranks);
            if (changed && !parallel_write_file(p->file, answer, bytes)) {
                parallel_end(p, 2, "MASTER_FILE: cannot write %s", p->file);
            }
            waiting = left > 0;
        }
        if (waiting && parallel_now() > limit) {
            parallel_end(p, 3, "not all of %d ranks came to %s in %g seconds", p->ranks, p->file,
                         p->o.timeout);
        }
        parallel_nap(waiting ? 0.01 : 0);
    }
    if (p->rank > 0) {
        memcpy(id, answer, sizeof *id);
        unlink(path);
    } else {
        unlink(p->file);
    }
    free(answer);
    free(number);
}

static void parallel_nccl_open(parallel *p)
{
    const char *file = getenv("MASTER_FILE");
    char path[560];
    p->rank = parallel_variable("RANK", "OMPI_COMM_WORLD_RANK", NULL, 0);
    p->ranks = parallel_variable("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", NULL, 1);
    p->local = parallel_variable("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", NULL, p->rank);
    if (file != NULL) {
        snprintf(p->file, sizeof p->file, "%s", file);
    } else {
        snprintf(p->file, sizeof p->file, "/tmp/parallel.%ld.%ld", (long)getuid(), (long)getppid());
    }
    parallel_path(p, ".end", path, sizeof path);
    if (p->rank == 0) {
        unlink(path); /* of an earlier run */
    }
    if (p->ranks < 1 || p->rank < 0 || p->rank >= p->ranks) {
        parallel_end(p, 2, "RANK must be from 0 to WORLD_SIZE - 1");
    }
}

void parallel_use_device(parallel *p, int amd, parallel_add add, void *user, size_t largest)
{
    static const char *const nccl_names[2][4] = {{"libnccl.so.2", "libnccl.so", NULL, NULL},
                                                 {"librccl.so.1", "librccl.so", NULL, NULL}};
    static const char *const gpu_names[2][4] = {
        {"libcuda.so.1", "libcuda.so", NULL, NULL},
        {"libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.5", NULL}};
    parallel_nccl *n = &p->nccl;
    const parallel_symbol symbols[] = {
        {"ncclGetUniqueId", &n->get_unique_id},
        {"ncclCommInitRank", &n->comm_init_rank},
        {"ncclSend", &n->send},
        {"ncclRecv", &n->recv},
        {"ncclGroupStart", &n->group_start},
        {"ncclGroupEnd", &n->group_end},
        {"ncclAllReduce", &n->all_reduce},
        {"ncclCommDestroy", &n->destroy},
        {"ncclCommGetAsyncError", &n->async_error},
        {"ncclGetErrorString", &n->error_text},
    };
    const parallel_symbol gpu[] = {
        {amd ? "hipStreamCreateWithPriority" : "cuStreamCreateWithPriority", &n->stream_create},
        {amd ? "hipEventCreateWithFlags" : "cuEventCreate", &n->event_create},
        {amd ? "hipEventRecord" : "cuEventRecord", &n->event_record},
        {amd ? "hipStreamWaitEvent" : "cuStreamWaitEvent", &n->stream_wait},
        {amd ? "hipEventSynchronize" : "cuEventSynchronize", &n->event_synchronise},
        {amd ? "hipMalloc" : "cuMemAlloc_v2", &n->alloc},
        {amd ? "hipMemcpyHtoD" : "cuMemcpyHtoD_v2", &n->upload},
        {amd ? "hipMemcpyDtoH" : "cuMemcpyDtoH_v2", &n->download},
    };
    parallel_id id;
    void *comm = NULL, *memory = NULL;
    if (p->o.kind != PARALLEL_NCCL) {
        return;
    }
    parallel_symbols(p, parallel_library(p, "PARALLEL_GPU", gpu_names[amd != 0]), gpu,
                     sizeof gpu / sizeof gpu[0]);
    n->add = add;
    n->add_user = user;
    /* not blocked by the default stream; a high priority: small kernels that others wait for */
    parallel_gpu_check(p, n->stream_create(&n->stream, 1, -1), "stream");
    parallel_gpu_check(p, n->event_create(&n->ready, 2 /* without a time */), "event");
    parallel_gpu_check(p, n->event_create(&n->done, 2), "event");
    p->spare_bytes = (largest / 2 + PARALLEL_ALIGN) * sizeof(float);
    parallel_gpu_check(p, n->alloc(&memory, p->spare_bytes), "memory");
    p->spare = (unsigned char *)memory;
    if (p->ranks == 1) {
        return; /* nobody to talk to */
    }
    parallel_symbols(p, parallel_library(p, "PARALLEL_NCCL", nccl_names[amd != 0]), symbols,
                     sizeof symbols / sizeof symbols[0]);
    memset(&id, 0, sizeof id);
    if (p->rank == 0) {
        parallel_nccl_check(p, n->get_unique_id(&id), "ncclGetUniqueId");
    }
    parallel_meet(p, &id);
    pthread_mutex_lock(&p->lock);
    p->met = 1;
    pthread_mutex_unlock(&p->lock);
    parallel_arm(p, 1);
    parallel_nccl_check(p, n->comm_init_rank(&comm, p->ranks, id, p->rank), "ncclCommInitRank");
    parallel_arm(p, 0);
    pthread_mutex_lock(&p->lock);
    n->comm = comm;
    pthread_mutex_unlock(&p->lock);
}

static void parallel_nccl_exchange(parallel *p, int peer, const void *send, size_t send_bytes, void *recv,
                                   size_t recv_bytes)
{
    const parallel_nccl *n = &p->nccl;
    parallel_nccl_check(p, n->group_start(), "ncclGroupStart");
    if (send_bytes > 0) {
        parallel_nccl_check(p, n->send(send, send_bytes, PARALLEL_NCCL_BYTE, peer, n->comm, n->stream),
                            "ncclSend");
    }
    if (recv_bytes > 0) {
        parallel_nccl_check(p, n->recv(recv, recv_bytes, PARALLEL_NCCL_BYTE, peer, n->comm, n->stream),
                            "ncclRecv");
    }
    parallel_nccl_check(p, n->group_end(), "ncclGroupEnd");
}

/* What follows in the stream of sums comes behind all that is in the caller's. */
static void parallel_nccl_follow(parallel *p, void *stream)
{
    parallel_gpu_check(p, p->nccl.event_record(p->nccl.ready, stream), "event");
    parallel_gpu_check(p, p->nccl.stream_wait(p->nccl.stream, p->nccl.ready, 0), "event");
}

static void parallel_nccl_wait(parallel *p)
{
    parallel_arm(p, 1);
    parallel_gpu_check(p, p->nccl.event_record(p->nccl.done, p->nccl.stream), "event");
    parallel_gpu_check(p, p->nccl.event_synchronise(p->nccl.done), "sums");
    parallel_arm(p, 0);
}

/* ---- What is the same for all transports ---- */

static void parallel_exchange(parallel *p, int peer, const void *send, size_t send_bytes, void *recv,
                              size_t recv_bytes)
{
    if (p->o.kind == PARALLEL_SELF) {
        parallel_self_exchange(p, peer, send, send_bytes, recv, recv_bytes);
    } else if (p->o.kind == PARALLEL_MPI) {
        parallel_mpi_exchange(p, peer, send, send_bytes, recv, recv_bytes);
    } else {
        parallel_nccl_exchange(p, peer, send, send_bytes, recv, recv_bytes);
    }
}

static void parallel_plus(parallel *p, float *sum, const float *other, size_t count)
{
    if (count > 0 && p->nccl.add != NULL) {
        p->nccl.add(p->nccl.add_user, sum, other, count, p->nccl.stream);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        sum[i] += other[i];
    }
}

static void parallel_need_spare(parallel *p, size_t bytes)
{
    if (bytes <= p->spare_bytes) {
        return;
    }
    if (p->o.kind == PARALLEL_NCCL) {
        parallel_end(p, 2, "a sum is longer than parallel_use_device was told");
    }
    free(p->spare);
    p->spare = (unsigned char *)malloc(bytes);
    p->spare_bytes = bytes;
    if (p->spare == NULL) {
        parallel_end(p, 2, "out of memory");
    }
}

/* Level by level of the tree two ranks share a range: each gives one half away and adds the other. Then the
   way back: what each has is exchanged for what the other has. An element's sum is that of the lower rank's
   and the upper rank's, whoever adds them. */
static void parallel_tree(parallel *p, float *data, size_t count)
{
    struct {
        size_t at, count; /* the range before it was halved */
    } level[32];
    int depth = 0;
    size_t at = 0;
    for (int bit = 1; bit < p->ranks; bit *= 2, depth++) {
        size_t half = (count / 2 + PARALLEL_ALIGN - 1) / PARALLEL_ALIGN * PARALLEL_ALIGN;
        half = half < count ? half : count;
        const int upper = (p->rank & bit) != 0;
        const size_t keep = upper ? at + half : at, kept = upper ? count - half : half;
        const size_t give = upper ? at : at + half, given = count - kept;
        level[depth].at = at;
        level[depth].count = count;
        parallel_need_spare(p, kept * sizeof(float));
        parallel_exchange(p, p->rank ^ bit, data + give, given * sizeof(float), p->spare,
                          kept * sizeof(float));
        parallel_plus(p, data + keep, (const float *)(void *)p->spare, kept);
        at = keep;
        count = kept;
    }
    while (depth-- > 0) {
        const size_t other = level[depth].at == at ? at + count : level[depth].at;
        const size_t others = level[depth].count - count;
        parallel_exchange(p, p->rank ^ (1 << depth), data + at, count * sizeof(float), data + other,
                          others * sizeof(float));
        at = level[depth].at;
        count = level[depth].count;
    }
}

static void parallel_do_sum(parallel *p, const parallel_job *j)
{
    for (int step = 1; step < j->parts; step *= 2) {
        for (int i = 0; i + step < j->parts; i += 2 * step) {
            parallel_plus(p, j->data + (size_t)i * j->stride, j->data + (size_t)(i + step) * j->stride,
                          j->count);
        }
    }
    if (p->ranks > 1 && p->o.kind == PARALLEL_NCCL && p->o.any_order) {
        parallel_nccl_check(p,
                            p->nccl.all_reduce(j->data, j->data, j->count, PARALLEL_NCCL_FLOAT,
                                               PARALLEL_NCCL_SUM, p->nccl.comm, p->nccl.stream),
                            "ncclAllReduce");
    } else if (p->ranks > 1) {
        parallel_tree(p, j->data, j->count);
    }
}

static void parallel_do_gather(parallel *p, unsigned char *data, size_t each)
{
    for (int bit = 1; bit < p->ranks; bit *= 2) {
        const int first = p->rank / bit * bit;
        parallel_exchange(p, p->rank ^ bit, data + (size_t)first * each, (size_t)bit * each,
                          data + (size_t)(first ^ bit) * each, (size_t)bit * each);
    }
}

static void *parallel_work(void *pointer)
{
    parallel *p = (parallel *)pointer;
    p->worker_self = pthread_self();
    if (p->o.kind == PARALLEL_MPI) {
        parallel_mpi_open(p);
    }
    pthread_mutex_lock(&p->lock);
    p->ready = 1;
    pthread_cond_broadcast(&p->changed);
    for (;;) {
        while (p->done == p->begun && !p->closing && p->abort_status == 0) {
            pthread_cond_wait(&p->changed, &p->lock);
        }
        if (p->abort_status != 0) {
            p->mpi.abort(p->mpi.world, p->abort_status);
        }
        if (p->done == p->begun) {
            break;
        }
        const parallel_job *j = &p->job[p->done % PARALLEL_JOBS];
        pthread_mutex_unlock(&p->lock);
        if (j->data != NULL) {
            parallel_do_sum(p, j);
        } else {
            parallel_do_gather(p, j->gather, j->each);
        }
        pthread_mutex_lock(&p->lock);
        p->done++;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    if (p->o.kind == PARALLEL_MPI) {
        p->mpi.finalize();
    }
    return NULL;
}

static void parallel_begin(parallel *p, const parallel_job *j)
{
    pthread_mutex_lock(&p->lock);
    while (p->begun - p->done == PARALLEL_JOBS) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    p->job[p->begun++ % PARALLEL_JOBS] = *j;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

void parallel_sum(parallel *p, float *data, size_t stride, int parts, size_t count, void *stream)
{
    parallel_job j;
    memset(&j, 0, sizeof j);
    j.data = data;
    j.stride = stride;
    j.parts = parts;
    j.count = count;
    if (parts < 1 || (parts & (parts - 1)) != 0) {
        parallel_end(p, 2, "%d parts: must be a power of two", parts);
    }
    if (p->o.kind == PARALLEL_NCCL) {
        parallel_arm(p, 1);
        parallel_nccl_follow(p, stream);
        parallel_do_sum(p, &j);
        parallel_arm(p, 0);
    } else {
        parallel_begin(p, &j);
    }
}

void parallel_wait(parallel *p)
{
    if (p->o.kind == PARALLEL_NCCL) {
        parallel_nccl_wait(p);
        return;
    }
    pthread_mutex_lock(&p->lock);
    while (p->done < p->begun) { /* its exchanges have a limit */
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

void parallel_gather(parallel *p, void *data, size_t each)
{
    const size_t bytes = each * (size_t)p->ranks;
    if (p->ranks == 1) {
        return;
    }
    if (p->o.kind != PARALLEL_NCCL) {
        parallel_job j;
        memset(&j, 0, sizeof j);
        j.gather = (unsigned char *)data;
        j.each = each;
        parallel_begin(p, &j);
        parallel_wait(p);
        return;
    }
    parallel_nccl *n = &p->nccl;
    if (n->staged_bytes < bytes) { /* an outgrown one stays: sums may be in flight */
        parallel_gpu_check(p, n->alloc(&n->staged, bytes), "memory");
        n->staged_bytes = bytes;
    }
    parallel_arm(p, 1);
    parallel_gpu_check(p, n->upload(n->staged, data, bytes), "upload");
    parallel_nccl_follow(p, NULL);
    parallel_do_gather(p, (unsigned char *)n->staged, each);
    parallel_nccl_wait(p);
    parallel_gpu_check(p, n->download(data, n->staged, bytes), "download");
}

/* FNV-1a's multiplication, on words of 64 bits, with their upper half mixed in. */
uint64_t parallel_digest(const void *data, size_t bytes)
{
    uint64_t h = 0xCBF29CE484222325u ^ bytes;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, (const char *)data + i, bytes - i < 8 ? bytes - i : 8);
        h = (h ^ word) * 0x100000001B3u;
        h ^= h >> 32;
    }
    return h;
}

void parallel_agree(parallel *p, uint64_t number, const char *what)
{
    uint64_t *all = (uint64_t *)calloc((size_t)p->ranks, sizeof(uint64_t));
    char text[256];
    int length = 0;
    if (all == NULL) {
        parallel_end(p, 2, "out of memory");
        return;
    }
    all[p->rank] = number;
    parallel_gather(p, all, sizeof all[0]);
    for (int r = 1; r < p->ranks && length < 200; r++) {
        if (all[r] != all[0]) {
            length += snprintf(text + length, sizeof text - (size_t)length, " %d (%016llx)", r,
                               (unsigned long long)all[r]);
        }
    }
    if (length > 0) {
        parallel_end(p, 4, "%s of rank 0 (%016llx) are not those of rank%s", what, (unsigned long long)all[0],
                     text);
    }
    free(all);
}

int parallel_rank(const parallel *p)
{
    return p->rank;
}

int parallel_ranks(const parallel *p)
{
    return p->ranks;
}

int parallel_local_rank(const parallel *p)
{
    return p->local;
}

int parallel_on_device(const parallel *p)
{
    return p->o.kind == PARALLEL_NCCL;
}

void parallel_at(parallel *p, int64_t step)
{
    p->step = step;
}

/* ---- Beginning and end ---- */

static void *parallel_call_body(void *pointer)
{
    parallel *p = (parallel *)pointer;
    pthread_setspecific(parallel_this_rank, p);
    pthread_mutex_lock(&p->lock);
    while (!p->ready) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    if (p->o.ranks > 0 && p->o.ranks != p->ranks) {
        parallel_end(p, 2, "%d ranks are wanted, %d were started (mpirun -np, or RANK and WORLD_SIZE)",
                     p->o.ranks, p->ranks);
    }
    if ((p->ranks & (p->ranks - 1)) != 0) {
        parallel_end(p, 2, "%d ranks: must be a power of two", p->ranks);
    }
    p->status = p->body(p, p->user);
    if (p->o.kind == PARALLEL_NCCL && p->nccl.comm != NULL) {
        void *comm = p->nccl.comm;
        pthread_mutex_lock(&p->lock);
        p->nccl.comm = NULL; /* the guard asks it no more */
        pthread_mutex_unlock(&p->lock);
        parallel_arm(p, 1);
        p->nccl.destroy(comm);
        parallel_arm(p, 0);
    }
    return NULL;
}

static void parallel_thread(parallel *p, pthread_t *thread, void *(*run)(void *))
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PARALLEL_STACK);
    if (pthread_create(thread, &attributes, run, p) != 0) {
        parallel_end(p, 2, "cannot start a thread");
    }
    pthread_attr_destroy(&attributes);
}

int parallel_run(const parallel_options *options, int (*body)(parallel *p, void *user), void *user)
{
    const int self = options->kind == PARALLEL_SELF;
    const int count = self && options->ranks > 0 ? options->ranks : 1;
    parallel_office office;
    parallel *ranks = (parallel *)calloc((size_t)count, sizeof(parallel));
    pthread_t *threads = (pthread_t *)calloc((size_t)count, sizeof(pthread_t));
    office.from = (parallel_letter *)calloc((size_t)count, sizeof(parallel_letter));
    if (ranks == NULL || threads == NULL || office.from == NULL) {
        return 2;
    }
    int status = 0;
    pthread_once(&parallel_once, parallel_make_key);
    pthread_mutex_init(&office.lock, NULL);
    pthread_cond_init(&office.changed, NULL);
    for (int i = 0; i < count; i++) {
        parallel *p = &ranks[i];
        p->o = *options;
        p->o.timeout = options->timeout > 0 ? options->timeout : 60;
        p->o.name = options->name ? options->name : "parallel";
        p->rank = p->local = i;
        p->ranks = count;
        p->body = body;
        p->user = user;
        p->office = &office;
        pthread_mutex_init(&p->lock, NULL);
        pthread_cond_init(&p->changed, NULL);
        if (options->kind == PARALLEL_NCCL) {
            parallel_nccl_open(p);
            p->ready = 1;
        }
        parallel_thread(p, &p->worker, options->kind == PARALLEL_NCCL ? parallel_guard : parallel_work);
    }
    /* a GPU's runtime and MPI are used to the first thread; ranks of one process are threads */
    for (int i = 0; i < count; i++) {
        if (self) {
            parallel_thread(&ranks[i], &threads[i], parallel_call_body);
        } else {
            parallel_call_body(&ranks[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        parallel *p = &ranks[i];
        if (self) {
            pthread_join(threads[i], NULL);
        }
        pthread_mutex_lock(&p->lock);
        p->closing = 1;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->worker, NULL);
        status = p->status > status ? p->status : status;
        if (options->kind != PARALLEL_NCCL) {
            free(p->spare);
        }
    }
    free(office.from);
    free(threads);
    free(ranks);
    return status;
}
#endif /* PARALLEL_IMPLEMENTATION */
