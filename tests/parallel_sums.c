/* parallel_sums.c - sums of examples/parallel.h beside the tree that they promise, bit for bit
   SPDX-License-Identifier: MIT

   parallel_sums self|mpi RANKS: prints how many sums and gathers it compared, or what is wrong. */
#define _POSIX_C_SOURCE 200809L
#define PARALLEL_IMPLEMENTATION
#include "../examples/parallel.h"

enum { ALL_PARTS = 8, LARGEST = 20000, GUARD = 3 };
static const size_t COUNTS[] = {1, 2, 255, 256, 257, 1000, 4096, 4099, LARGEST};
enum { SIZES = (int)(sizeof COUNTS / sizeof COUNTS[0]) };

/* Element i of a part: of mixed size and sign, so that another order of adding gives other bits. */
static float value(size_t i, int part, int round)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)part * 40503u * 65537u + (uint32_t)round * 97u;
    h = (h ^ (h >> 15)) * 2246822519u;
    h ^= h >> 13;
    return ((float)(h & 0xffff) - 32768) * (h & 0x10000 ? 1.0f : 0.001f);
}

/* ((0+1)+(2+3))+((4+5)+(6+7)) of f32 */
static float tree(size_t i, int first, int parts, int round)
{
    if (parts == 1) {
        return value(i, first, round);
    }
    const volatile float low = tree(i, first, parts / 2, round);
    const volatile float high = tree(i, first + parts / 2, parts / 2, round);
    return low + high;
}

static int wrong(parallel *p, const char *what, size_t count, size_t i)
{
    printf("rank %d of %d: %s of %lu: element %lu is wrong\n", parallel_rank(p), parallel_ranks(p), what,
           (unsigned long)count, (unsigned long)i);
    return 1;
}

static int body(parallel *p, void *user)
{
    const int ranks = parallel_ranks(p), rank = parallel_rank(p), parts = ALL_PARTS / ranks;
    const size_t stride = LARGEST + GUARD;
    float *data[SIZES];
    int compared = 0, chains = 0;
    (void)user;
    for (int round = 0; round < 3; round++) {
        for (int s = 0; s < SIZES; s++) { /* all under way at once */
            data[s] = (float *)calloc(stride * (size_t)parts, sizeof(float));
            for (int k = 0; k < parts; k++) {
                for (size_t i = 0; i < stride; i++) {
                    data[s][(size_t)k * stride + i] =
                        i < COUNTS[s] ? value(i, rank * parts + k, round) : 7.0f;
                }
            }
            parallel_sum(p, data[s], stride, parts, COUNTS[s], NULL);
        }
        parallel_wait(p);
        for (int s = 0; s < SIZES; s++) {
            for (size_t i = 0; i < COUNTS[s] + GUARD; i++) {
                const float right = i < COUNTS[s] ? tree(i, 0, ALL_PARTS, round) : 7.0f;
                volatile float chain = value(i, 0, round);
                if (memcmp(&data[s][i], &right, sizeof right) != 0) {
                    return wrong(p, "sum", COUNTS[s], i);
                }
                for (int k = 1; k < ALL_PARTS; k++) {
                    chain += value(i, k, round);
                }
                chains += i < COUNTS[s] && chain != right;
            }
            free(data[s]);
            compared++;
        }
        unsigned char all[64 * 5];
        for (int i = 0; i < 5; i++) {
            all[rank * 5 + i] = (unsigned char)(rank * 31 + i + round);
        }
        parallel_gather(p, all, 5);
        for (int i = 0; i < 5 * ranks; i++) {
            if (all[i] != (unsigned char)(i / 5 * 31 + i % 5 + round)) {
                return wrong(p, "gather", 5, (size_t)i);
            }
        }
        compared++;
        parallel_agree(p, parallel_digest(all, (size_t)(5 * ranks)), "what was gathered");
    }
    if (chains == 0) {
        return wrong(p, "values", 0, 0); /* every order would pass */
    }
    if (rank == 0) {
        printf("%d compared on %d ranks\n", compared, ranks);
    }
    return 0;
}

int main(int argc, char **argv)
{
    parallel_options o;
    memset(&o, 0, sizeof o);
    o.kind = argc > 1 && strcmp(argv[1], "mpi") == 0 ? PARALLEL_MPI : PARALLEL_SELF;
    o.ranks = argc > 2 ? atoi(argv[2]) : 1;
    o.timeout = 20;
    o.name = "parallel_sums";
    return parallel_run(&o, body, NULL);
}
