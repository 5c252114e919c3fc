/* nccl_sim.c - NCCL and the few calls of CUDA's driver and of HIP that examples/parallel.h makes, for
   simulated GPUs: a shared library that test_parallel.sh has it open instead
   SPDX-License-Identifier: MIT

   Memory of the device is the host's and streams are at once, as on the simulator. Ranks are processes; a
   message goes through a file that all have mapped, one slot for each sender and receiver. A receiver waits
   for ever, as NCCL's does, and so does a sender whose last message was not taken. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 8, BYTES = 1 << 20, MESSAGES = 64 };
typedef struct slot {
    uint64_t full; /* bytes + 1, or 0 */
    char bytes[BYTES];
} slot;
typedef struct id {
    char path[128];
} id;
typedef struct comm {
    int rank, ranks;
    slot (*from)[RANKS]; /* [sender][receiver] */
} comm;
typedef struct message {
    comm *c;
    const char *send;
    char *recv;
    size_t bytes;
    int peer;
} message;
static message queue[MESSAGES];
static int queued;

static void pause_a_little(void)
{
    struct timespec t = {0, 50000};
    nanosleep(&t, NULL);
}

int ncclGetUniqueId(id *i)
{
    memset(i, 0, sizeof *i);
    const char *folder = getenv("NCCL_SIM_FOLDER");
    snprintf(i->path, sizeof i->path, "%s/nccl_sim.XXXXXX", folder ? folder : "/tmp");
    int file = mkstemp(i->path);
    int bad = file < 0 || ftruncate(file, (off_t)(sizeof(slot) * RANKS * RANKS)) != 0;
    close(file);
    return bad;
}

int ncclCommInitRank(void **result, int ranks, id i, int rank)
{
    comm *c = (comm *)calloc(1, sizeof *c);
    int file = open(i.path, O_RDWR);
    if (c == NULL || file < 0 || ranks > RANKS) {
        return 2;
    }
    void *memory = mmap(NULL, sizeof(slot) * RANKS * RANKS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) {
        return 2;
    }
    c->rank = rank;
    c->ranks = ranks;
    c->from = (slot(*)[RANKS])memory;
    /* all are here when each has filled the slot from itself to itself; then the file needs no name */
    __atomic_store_n(&c->from[rank][rank].full, 1, __ATOMIC_SEQ_CST);
    for (int r = 0; r < ranks; r++) {
        while (__atomic_load_n(&c->from[r][r].full, __ATOMIC_SEQ_CST) == 0) {
            pause_a_little();
        }
    }
    unlink(i.path);
    *result = c;
    return 0;
}

int ncclGroupStart(void)
{
    queued = 0;
    return 0;
}

static int put(message m)
{
    if (queued == MESSAGES || m.bytes > BYTES) {
        return 4;
    }
    queue[queued++] = m;
    return 0;
}

int ncclSend(const void *data, size_t count, int type, int peer, void *c, void *stream)
{
    message m = {(comm *)c, (const char *)data, NULL, count, peer};
    (void)stream;
    return type == 1 ? put(m) : 4;
}

int ncclRecv(void *data, size_t count, int type, int peer, void *c, void *stream)
{
    message m = {(comm *)c, NULL, (char *)data, count, peer};
    (void)stream;
    return type == 1 ? put(m) : 4;
}

int ncclGroupEnd(void)
{
    int bad = 0;
    for (int receive = 0; receive < 2; receive++) {
        for (int i = 0; i < queued; i++) {
            const message *m = &queue[i];
            if ((m->recv != NULL) != receive) {
                continue;
            }
            slot *s = receive ? &m->c->from[m->peer][m->c->rank] : &m->c->from[m->c->rank][m->peer];
            while ((__atomic_load_n(&s->full, __ATOMIC_ACQUIRE) != 0) != receive) {
                pause_a_little();
            }
            if (receive) {
                bad |= s->full != m->bytes + 1;
                memcpy(m->recv, s->bytes, m->bytes);
                __atomic_store_n(&s->full, 0, __ATOMIC_RELEASE);
            } else {
                memcpy(s->bytes, m->send, m->bytes);
                __atomic_store_n(&s->full, m->bytes + 1, __ATOMIC_RELEASE);
            }
        }
    }
    queued = 0;
    return bad ? 4 : 0;
}

/* Sums of floats, in the order of the ranks. */
int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *pointer, void *stream)
{
    comm *c = (comm *)pointer;
    const size_t bytes = count * sizeof(float);
    float *all = (float *)malloc(bytes * (size_t)c->ranks), *sum = (float *)recv;
    int bad = type != 7 || op != 0 || all == NULL;
    if (bad) {
        return 4;
    }
    ncclGroupStart();
    for (int r = 0; r < c->ranks; r++) {
        if (r == c->rank) {
            memcpy(all + (size_t)r * count, send, bytes);
        } else {
            bad |= ncclSend(send, bytes, 1, r, c, stream);
            bad |= ncclRecv(all + (size_t)r * count, bytes, 1, r, c, stream);
        }
    }
    bad |= ncclGroupEnd();
    memset(sum, 0, bytes);
    for (size_t i = 0; i < count * (size_t)c->ranks; i++) {
        sum[i % count] += all[i];
    }
    free(all);
    return bad;
}

int ncclCommGetAsyncError(void *c, int *error)
{
    (void)c;
    *error = 0;
    return 0;
}

int ncclCommDestroy(void *c)
{
    free(c);
    return 0;
}

const char *ncclGetErrorString(int code)
{
    return code == 4 ? "invalid argument" : "system error";
}

/* ---- CUDA's driver and HIP ---- */

#define BOTH(cuda, hip, parameters, body)                                                                    \
    int cuda parameters                                                                                      \
    {                                                                                                        \
        body                                                                                                 \
    }                                                                                                        \
    int hip parameters                                                                                       \
    {                                                                                                        \
        body                                                                                                 \
    }
BOTH(cuStreamCreateWithPriority, hipStreamCreateWithPriority, (void **stream, unsigned flags, int priority),
     *stream = NULL;
     return flags != 1 || priority > 0;)
BOTH(cuEventCreate, hipEventCreateWithFlags, (void **event, unsigned flags), *event = malloc(1);
     return flags != 2;)
BOTH(cuEventRecord, hipEventRecord, (void *event, void *stream), (void)stream; return event == NULL;)
BOTH(cuStreamWaitEvent, hipStreamWaitEvent, (void *stream, void *event, unsigned flags), (void)stream;
     return event == NULL || flags != 0;)
BOTH(cuEventSynchronize, hipEventSynchronize, (void *event), return event == NULL;)
BOTH(cuMemAlloc_v2, hipMalloc, (void **memory, size_t bytes), *memory = malloc(bytes);
     return *memory == NULL;)
BOTH(cuMemcpyHtoD_v2, hipMemcpyHtoD, (void *to, const void *from, size_t bytes), memcpy(to, from, bytes);
     return 0;)
BOTH(cuMemcpyDtoH_v2, hipMemcpyDtoH, (void *to, const void *from, size_t bytes), memcpy(to, from, bytes);
     return 0;)
