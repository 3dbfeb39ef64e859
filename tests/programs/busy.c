/* A program of known length: `busy ITERATIONS [FACTOR_PERCENT [DEVIATION_PERCENT [LABEL]]]`.
 *
 * Runs ITERATIONS * (1 + FACTOR/100) * (1 + DEVIATION/100 * g) steps of a register-only loop, with
 * g a fresh standard normal number from /dev/urandom (cut at +-3), so that the run time has a
 * hidden factor and an adjustable deviation from run to run. Its output is always the same.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static double uniform(FILE *source) {
    uint64_t bits = 0;
    if (fread(&bits, sizeof bits, 1, source) != 1) {
        perror("/dev/urandom");
        exit(1);
    }
    return ((double)(bits >> 11) + 1.0) / 9007199254740993.0;
}

static double normal(void) {
    FILE *source = fopen("/dev/urandom", "r");
    if (source == NULL) {
        perror("/dev/urandom");
        exit(1);
    }
    const double a = uniform(source), b = uniform(source);
    fclose(source);
    const double g = sqrt(-2.0 * log(a)) * cos(6.283185307179586 * b);
    return g > 3.0 ? 3.0 : g < -3.0 ? -3.0 : g;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s ITERATIONS [FACTOR_PERCENT [DEVIATION_PERCENT [LABEL]]]\n",
                argv[0]);
        return 2;
    }
    const double factor = argc > 2 ? atof(argv[2]) : 0.0, deviation = argc > 3 ? atof(argv[3]) : 0.0;
    double steps = atof(argv[1]) * (1.0 + factor / 100.0);
    if (deviation > 0.0)
        steps *= 1.0 + deviation / 100.0 * normal();
    volatile uint64_t kept;
    uint64_t state = 1;
    for (uint64_t i = 0, n = steps > 0.0 ? (uint64_t)steps : 0; i < n; i++)
        state = state * 6364136223846793005u + 1442695040888963407u;
    kept = state;
    (void)kept;
    puts("done");
    return 0;
}
