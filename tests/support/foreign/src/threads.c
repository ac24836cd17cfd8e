/* Prints the number of threads of a parallel region. */
#include <omp.h>
#include <stdio.h>

int main(void)
{
    int count = 0;
#pragma omp parallel
#pragma omp single
    count = omp_get_num_threads();
    return printf("threads: %d\n", count) < 0;
}
