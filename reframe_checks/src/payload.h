/* What messages hold, so that a changed, shifted or stale one is noticed. */
#ifndef NEARMETAL_PAYLOAD_H
#define NEARMETAL_PAYLOAD_H
#include <stdint.h>
#include <stdlib.h>

enum { STARTS = 4096 };
static unsigned char *scrambled;

/* Whether there is memory for the contents of messages of up to so many bytes. */
static inline int scramble(long bytes)
{
    scrambled = malloc((size_t)bytes + STARTS);
    for (long i = 0; scrambled && i < bytes + STARTS; i++)
        scrambled[i] = (unsigned char)(((uint64_t)i + 1) * 0x9E3779B97F4A7C15u >> 37);
    return scrambled != NULL;
}

/* The contents of a message: a stretch of scrambled bytes that begins elsewhere for each number. */
static inline const unsigned char *pattern(long number) { return scrambled + number * 61 % STARTS; }
#endif
