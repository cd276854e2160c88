/* A program with the faults that sanitizers find, one by its name. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared;
static void *volatile kept;

static void *count(void *unused) {
    for (int i = 0; i < 1000; i++)
        shared++;
    return unused;
}

int main(int argc, char **argv) {
    const char *fault = argc > 1 ? argv[1] : "";
    if (strcmp(fault, "overflow") == 0) {
        volatile char *bytes = malloc(8);
        bytes[argc + 7] = 1;
        free((void *)bytes);
    } else if (strcmp(fault, "leak") == 0) {
        kept = malloc(1000);
        memset(kept, 1, 1000);
        kept = NULL;
    } else if (strcmp(fault, "race") == 0) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, count, NULL);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
    } else if (strcmp(fault, "shift") == 0) {
        volatile int distance = argc + 62;
        shared = 1 << distance;
    }
    puts("well");
    return 0;
}
