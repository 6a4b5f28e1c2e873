/*
 * The two programs that SSS-CORE ran at once (its figure 3): rank 0 shows what the others compute, frame by frame.
 *
 *   frames cubes [--budget-ms 3000]   each other rank decodes and turns two faces of flying cubes, front and back
 *   frames rays [--budget-ms 3000]    the others trace rays through spheres, units of four pixels in turn
 *   ... --at NS                       in the time that begins then (CLOCK_MONOTONIC), whoever else has a turn in it; a program that
 *                                     is not ready by then says so instead
 *
 * Rank 0 computes the first frame itself and compares.
 */
#include "bench.h"
#include <errno.h>
#include <math.h>
#include <mpi.h>

enum { WIDTH = 64, HEIGHT = 48, PIXELS = WIDTH * HEIGHT, UNIT = 4, SIDE = 32, FACE = SIDE * SIDE, DECODE = 2000, SPHERES = 5 };

static float decoded(int face, int frame) {
    /* Video on a face: work, and a number that depends on it. */
    return (float)((work(DECODE) + (uint64_t)(face * 31 + frame)) % 251) / 251;
}

/* Two faces of a worker, seen from in front. */
static void cubes(int worker, int workers, int frame, float *image) {
    (void)workers;
    for (int side = 0; side < 2; side++) {
        float video = decoded(2 * worker + side, frame), turn = 0.1F * (float)frame + (float)side * 3.14159F;
        for (int at = 0; at < FACE; at++) {
            float x = (float)(at % SIDE) / SIDE - 0.5F, y = (float)(at / SIDE) / SIDE - 0.5F;
            float depth = 2 + x * sinf(turn);
            image[side * FACE + at] = video * (x * cosf(turn) + y) / depth;
        }
    }
}

static float traced(int pixel, int frame) {
    float x = (float)(pixel % WIDTH) / WIDTH - 0.5F, y = (float)(pixel / WIDTH) / HEIGHT - 0.5F, light = 0, nearest = 1e9F;
    for (int sphere = 0; sphere < SPHERES; sphere++) {
        float angle = 0.05F * (float)frame + (float)sphere;
        float cx = 0.6F * sinf(angle), cy = 0.4F * cosf(1.3F * angle), cz = 3 + cosf(angle), radius = 0.5F;
        /* The ray from the origin through (x, y, 1). */
        float length = x * x + y * y + 1, along = x * cx + y * cy + cz;
        float root = along * along - length * (cx * cx + cy * cy + cz * cz - radius * radius);
        if (root < 0) {
            continue;
        }
        float hit = (along - sqrtf(root)) / length;
        if (hit > 0 && hit < nearest) {
            nearest = hit;
            light = ((hit - cz) * -0.7F + (hit * y - cy) * 0.7F) / radius;
        }
    }
    return light;
}

/* The units of a worker, one behind the other. */
static void rays(int worker, int workers, int frame, float *image) {
    int at = 0;
    for (int unit = worker; unit < PIXELS / UNIT; unit += workers) {
        for (int pixel = 0; pixel < UNIT; pixel++) {
            image[at++] = traced(unit * UNIT + pixel, frame);
        }
    }
}

typedef void part_of_frame(int worker, int workers, int frame, float *image);

/* When to begin: all together, at this moment if it is one. */
static double begin(int rank, double at_ns) {
    MPI_Barrier(MPI_COMM_WORLD);
    double now = now_ns();
    if (at_ns <= 0) {
        return now;
    }
    int late = now > at_ns, any = 0;
    MPI_Allreduce(&late, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any) {
        if (rank == 0) {
            printf("frames late=1\n");
        }
        MPI_Finalize();
        exit(0);
    }
    struct timespec at = {(time_t)((uint64_t)at_ns / 1000000000), (long)((uint64_t)at_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
    return at_ns;
}

int main(int argc, char **argv) {
    int rank, ranks, frames = 0, more = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int is_cubes = option(argc, argv, "cubes"), workers = ranks - 1;
    part_of_frame *part = is_cubes ? cubes : rays;
    double budget_ms = option_number(argc, argv, "--budget-ms", 3000), at_ns = option_number(argc, argv, "--at", 0);
    if (workers < 1) {
        fprintf(stderr, "frames: at least 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    float *image = calloc(PIXELS, sizeof(float)), *own = calloc(PIXELS, sizeof(float));
    if (image == NULL || own == NULL) {
        fprintf(stderr, "frames: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    double start = begin(rank, at_ns);
    for (; more; frames++) {
        if (rank > 0) {
            part(rank - 1, workers, frames, image);
        }
        for (int worker = 0; worker < workers; worker++) {
            int units = PIXELS / UNIT / workers + (worker < PIXELS / UNIT % workers);
            int count = is_cubes ? 2 * FACE : units * UNIT;
            if (rank == worker + 1) {
                MPI_Send(image, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
            } else if (rank == 0) {
                MPI_Recv(image, count, MPI_FLOAT, worker + 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (frames == 0) {
                    part(worker, workers, 0, own);
                    if (memcmp(own, image, (size_t)count * sizeof(float)) != 0) {
                        fprintf(stderr, "frames: rank %d has sent another picture\n", worker + 1);
                        MPI_Abort(MPI_COMM_WORLD, 1);
                    }
                }
            }
        }
        more = now_ns() - start < budget_ms * 1e6;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        printf("frames what=%s ranks=%d frames_per_s=%.2f\n", is_cubes ? "cubes" : "rays", ranks, frames / (budget_ms * 1e-3));
    }
    free(image);
    free(own);
    MPI_Finalize();
    return 0;
}
