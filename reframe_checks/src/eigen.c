/*
 * A non-linear eigenvalue problem by contour integrals (J. Asakura, T.
 * Sakurai, H. Tadano, T. Ikegami, K. Kimura, A numerical method for nonlinear
 * eigenvalue problems using contour integrals, JSIAM Letters 1, 2009), as SLEPc
 * solves it (NEPCISS).  Each point of the contour is a sparse linear system of
 * its own; groups of processes share the points out, and a group factorizes
 * its systems by MUMPS, whose dense blocks are left to the BLAS and its
 * threads.
 *
 * The problem: u_t = Laplace(u) + A u + B u(t - TAU) in a cube of edge pi, that
 * is (L + (A - lambda + B exp(-TAU lambda)) I) u = 0.  Its eigenvalues are
 * known: lambda = c + W_k(TAU B exp(-TAU c)) / TAU for each eigenvalue c - A of
 * the discrete Laplacian L and each branch k of Lambert's W.  All of those
 * inside the contour must be found, as often as they occur, and nothing else.
 *
 * Build: slepc -O2
 */
#define _GNU_SOURCE /* what mpi_program.h needs */
#include <complex.h>
#include <dirent.h>
#include <math.h>
#include <time.h>
#include "mpi_program.h"
#include "options.h"
#include <slepcnep.h> /* last: it makes macros of MPI's functions */

#ifndef PETSC_USE_COMPLEX
#error "contour integrals need a SLEPc with complex scalars: PKG_CONFIG_PATH chooses among several"
#endif
#ifndef PETSC_HAVE_MUMPS
#error "this PETSc was built without MUMPS, the solver of the linear systems"
#endif

/* Moments of a block of vectors: many times as many columns as there are eigenvalues, so that one
 * pass finds them all, and enough bytes between groups for the counters to tell their way. */
enum { BLOCK = 32, MOMENTS = 6, MOST = BLOCK * MOMENTS, BRANCHES = 3, THREADS = 4096 };
static const double A = 20, B = -4, TAU = 0.1;
/* The contour: half way to the next eigenvalues on any grid from 12 points, so that rounding puts
 * none in or out. */
static const double CENTRE = 8.9, RADIUS = 8.3, HEIGHT = 0.2;
static const double WRONG = 1e-9;

static const char HELP[] =
    "Usage: <launcher> -n N eigen [options]\n"
    "Eigenvalues of a delay differential equation within an ellipse,\n"
    "by contour integrals (SLEPc's NEPCISS).\n"
    "\n"
    "  --side N       points of the grid in each of three directions (default 16)\n"
    "  --points N     of the contour (default 32); for each of its upper half a linear\n"
    "                 system is solved\n"
    "  --groups N     of processes, which share the systems out (default: the most that\n"
    "                 divide both)\n"
    "\n"
    "Exit status: 0 all eigenvalues found, 2 bad usage, 3 one is missing, wrong or too many.\n";

static int rank, ranks;

/* ---- what is known */

static int inside(double complex z)
{
    const double x = (creal(z) - CENTRE) / RADIUS, y = cimag(z) / (RADIUS * HEIGHT);
    return x * x + y * y < 1;
}

/* w with w exp(w) = z on branch k, by Halley's iteration (R. Corless et al., On the Lambert W
 * function, 1996, section 5.9). */
static double complex lambert(double complex z, int k)
{
    double complex w = clog(z) + 2 * M_PI * I * k;
    w = k == 0 && cabs(z) < 1 ? z / (1 + z) : w - clog(w);
    for (int i = 0; i < 60; i++) {
        const double complex e = cexp(w), f = w * e - z;
        const double complex step = f / (e * (w + 1) - (w + 2) * f / (2 * w + 2));
        w -= step;
        if (cabs(step) < 1e-15 * cabs(w)) break;
    }
    return w;
}

/* Of the second difference in one direction, -k^2 as the grid has it. */
static double mode(int k, int side)
{
    const double h = M_PI / (side + 1);
    return -4 / (h * h) * pow(sin(k * h / 2), 2);
}

static int known_eigenvalues(int side, double complex *known)
{
    int count = 0;
    for (int i = 1; i <= side; i++)
        for (int j = 1; j <= side; j++)
            for (int k = 1; k <= side; k++) {
                const double c = A + mode(i, side) + mode(j, side) + mode(k, side);
                /* nor do the next give a real part above 0, where |exp(-TAU lambda)| < 1 */
                if (c < B) break;
                for (int branch = -BRANCHES; branch <= BRANCHES; branch++) {
                    const double complex lambda =
                        c + lambert(TAU * B * exp(-TAU * c), branch) / TAU;
                    if (inside(lambda) && count < MOST) known[count++] = lambda;
                }
            }
    return count;
}

/* Distance of the worst pair when each found one is matched with the nearest known one; infinite
 * where numbers differ. */
static double worst_distance(const double complex *found, int found_count, double complex *known,
                             int known_count)
{
    double worst = 0;
    if (found_count != known_count) return INFINITY;
    for (int i = 0; i < found_count; i++) {
        int nearest = i;
        for (int j = i; j < known_count; j++)
            if (cabs(known[j] - found[i]) < cabs(known[nearest] - found[i])) nearest = j;
        const double distance = cabs(known[nearest] - found[i]) / cabs(known[nearest]);
        if (!(distance <= worst)) worst = distance; /* nor is NaN right */
        known[nearest] = known[i];
    }
    return worst;
}

/* ---- threads */

/* CPU time of all threads of this process, by their number. */
static int thread_times(pid_t *thread, double *seconds)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks)) && count < THREADS;) {
        const pid_t number = (pid_t)atol(entry->d_name);
        struct timespec time;
        /* What pthread_getcpuclockid makes of a thread. */
        if (number <= 0 || clock_gettime((clockid_t)((~(unsigned)number << 3) | 6), &time))
            continue;
        thread[count] = number;
        seconds[count++] = (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
    }
    if (tasks) closedir(tasks);
    return count;
}

/* Threads of this process that the BLAS computes on, whatever it was asked for: those that took a
 * share of a product. */
static PetscErrorCode threads_at_work(int asked, int *working)
{
    static pid_t before[THREADS], after[THREADS];
    static double first[THREADS], last[THREADS];
    const PetscInt n = 256 * (asked < 3 ? 1 + asked : 4);
    double most = 0;
    Mat matrix, product;
    PetscFunctionBeginUser;
    PetscCall(MatCreateSeqDense(PETSC_COMM_SELF, n, n, NULL, &matrix));
    PetscCall(MatShift(matrix, 1));
    const int threads = thread_times(before, first);
    PetscCall(MatMatMult(matrix, matrix, MAT_INITIAL_MATRIX, 1, &product));
    const int now = thread_times(after, last);
    PetscCall(MatDestroy(&product));
    PetscCall(MatDestroy(&matrix));
    *working = 0;
    for (int i = 0; i < now; i++) {
        for (int j = 0; j < threads; j++)
            if (before[j] == after[i]) last[i] -= first[j];
        most = fmax(most, last[i]);
    }
    for (int i = 0; i < now; i++) *working += last[i] > most / 10;
    PetscFunctionReturn(PETSC_SUCCESS);
}

/* ---- what is computed */

static PetscErrorCode make_matrix(PetscInt side, PetscScalar diagonal, PetscScalar neighbour,
                                  Mat *matrix)
{
    const PetscInt all = side * side * side;
    PetscInt first, last;
    PetscFunctionBeginUser;
    PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, all, all, 7, NULL, 6, NULL,
                           matrix));
    PetscCall(MatGetOwnershipRange(*matrix, &first, &last));
    for (PetscInt row = first; row < last; row++) {
        PetscCall(MatSetValue(*matrix, row, row, diagonal, INSERT_VALUES));
        for (PetscInt stride = 1, place = row; neighbour != 0.0 && stride < all;
             stride *= side, place /= side) {
            if (place % side > 0)
                PetscCall(MatSetValue(*matrix, row, row - stride, neighbour, INSERT_VALUES));
            if (place % side < side - 1)
                PetscCall(MatSetValue(*matrix, row, row + stride, neighbour, INSERT_VALUES));
        }
    }
    PetscCall(MatAssemblyBegin(*matrix, MAT_FINAL_ASSEMBLY));
    PetscCall(MatAssemblyEnd(*matrix, MAT_FINAL_ASSEMBLY));
    PetscFunctionReturn(PETSC_SUCCESS);
}

/* (L + A I) - lambda I + exp(-TAU lambda) B I; the first matrix is the one whose pattern holds the
 * others'. */
static PetscErrorCode make_problem(PetscInt side, NEP nep)
{
    const double off = pow((double)(side + 1) / M_PI, 2);
    PetscScalar minus[2] = {-1, 0}, one = 1;
    Mat matrices[3];
    FN functions[3];
    PetscFunctionBeginUser;
    PetscCall(make_matrix(side, A - 6 * off, off, &matrices[0]));
    PetscCall(make_matrix(side, 1, 0, &matrices[1]));
    PetscCall(make_matrix(side, B, 0, &matrices[2]));
    for (int i = 0; i < 3; i++) PetscCall(FNCreate(PETSC_COMM_WORLD, &functions[i]));
    PetscCall(FNSetType(functions[0], FNRATIONAL));
    PetscCall(FNRationalSetNumerator(functions[0], 1, &one));
    PetscCall(FNSetType(functions[1], FNRATIONAL));
    PetscCall(FNRationalSetNumerator(functions[1], 2, minus));
    PetscCall(FNSetType(functions[2], FNEXP));
    PetscCall(FNSetScale(functions[2], -TAU, 1));
    PetscCall(NEPSetSplitOperator(nep, 3, matrices, functions, SUBSET_NONZERO_PATTERN));
    for (int i = 0; i < 3; i++) {
        PetscCall(MatDestroy(&matrices[i]));
        PetscCall(FNDestroy(&functions[i]));
    }
    PetscFunctionReturn(PETSC_SUCCESS);
}

/* One pass over the contour, so that the work is the same everywhere; what it found is verified
 * afterwards. */
static PetscErrorCode one_pass(NEP nep, PetscScalar real, PetscScalar imaginary, PetscReal residual,
                               PetscReal *error, void *context)
{
    (void)nep, (void)real, (void)imaginary, (void)residual, (void)context;
    *error = 0;
    return PETSC_SUCCESS;
}

static PetscErrorCode make_solver(NEP nep, PetscInt points, PetscInt groups)
{
    RG region;
    KSP *solvers;
    PetscInt count;
    PetscFunctionBeginUser;
    PetscCall(NEPSetType(nep, NEPCISS));
    PetscCall(NEPSetConvergenceTestFunction(nep, one_pass, NULL, NULL));
    PetscCall(NEPGetRG(nep, &region));
    PetscCall(RGSetType(region, RGELLIPSE));
    PetscCall(RGEllipseSetParameters(region, CENTRE, RADIUS, HEIGHT));
    PetscCall(NEPCISSSetSizes(nep, points, BLOCK, MOMENTS, groups, BLOCK, PETSC_TRUE));
    PetscCall(NEPCISSGetKSPs(nep, &count, &solvers));
    for (PetscInt i = 0; i < count; i++) {
        PC factors;
        PetscCall(KSPSetType(solvers[i], KSPPREONLY));
        PetscCall(KSPGetPC(solvers[i], &factors));
        PetscCall(PCSetType(factors, PCLU));
        PetscCall(PCFactorSetMatSolverType(factors, MATSOLVERMUMPS));
    }
    PetscFunctionReturn(PETSC_SUCCESS);
}

struct solution {
    int count;
    double complex values[MOST];
    double seconds, residual; /* of the slowest process; the largest */
};

static PetscErrorCode solve(PetscInt side, PetscInt points, PetscInt groups,
                            struct solution *solution)
{
    NEP nep;
    PetscInt converged;
    PetscFunctionBeginUser;
    PetscCall(NEPCreate(PETSC_COMM_WORLD, &nep));
    PetscCall(make_problem(side, nep));
    PetscCall(make_solver(nep, points, groups));
    PetscCallMPI(MPI_Barrier(PETSC_COMM_WORLD));
    double seconds = MPI_Wtime();
    PetscCall(NEPSetUp(nep)); /* each group gets the matrices */
    PetscCall(NEPSolve(nep));
    seconds = MPI_Wtime() - seconds;
    PetscCallMPI(
        MPI_Allreduce(&seconds, &solution->seconds, 1, MPI_DOUBLE, MPI_MAX, PETSC_COMM_WORLD));
    PetscCall(NEPGetConverged(nep, &converged));
    solution->count = (int)(converged < MOST ? converged : MOST);
    for (int i = 0; i < solution->count; i++) {
        PetscReal error;
        PetscCall(NEPGetEigenpair(nep, i, &solution->values[i], NULL, NULL, NULL));
        PetscCall(NEPComputeError(nep, i, NEP_ERROR_RELATIVE, &error));
        if (!(error <= solution->residual)) solution->residual = error;
    }
    PetscCall(NEPDestroy(&nep));
    PetscFunctionReturn(PETSC_SUCCESS);
}

static int report(long side, long points, long groups, int threads, struct solution *solution)
{
    static double complex known[MOST];
    const int expected = known_eigenvalues((int)side, known);
    const double error = worst_distance(solution->values, solution->count, known, expected);
    const int right = error < WRONG && solution->residual < WRONG;
    PetscInt petsc[3], slepc[3];
    int fewest;
    PetscCallMPIAbort(PETSC_COMM_WORLD,
                      MPI_Allreduce(&threads, &fewest, 1, MPI_INT, MPI_MIN, PETSC_COMM_WORLD));
    print_program("eigen 1");
    if (rank) return right;
    PetscGetVersionNumber(&petsc[0], &petsc[1], &petsc[2], NULL);
    SlepcGetVersionNumber(&slepc[0], &slepc[1], &slepc[2], NULL);
    printf("# nearmetal solver: SLEPc %d.%d.%d, PETSc %d.%d.%d\n", (int)slepc[0], (int)slepc[1],
           (int)slepc[2], (int)petsc[0], (int)petsc[1], (int)petsc[2]);
    printf("# nearmetal threads: %d\n", fewest);
    /* The block goes to all, its trace and moments come back; what MUMPS moves in a group is not
     * known. */
    if (groups == ranks)
        printf("# nearmetal payload_bytes: %.0f\n",
               16 * pow((double)side, 3) * BLOCK * (2 + MOMENTS) * (ranks - 1));
    printf(
        " Processes            = %d\n Side                 = %ld\n Contour points       = %ld\n"
        " Groups               = %ld\n",
        ranks, side, points, groups);
    printf(
        " Eigenvalues found    = %d\n Eigenvalues known    = %d\n Largest error        = %.3e\n"
        " Largest residual     = %.3e\n",
        solution->count, expected, error, solution->residual);
    printf(" Time in seconds      = %.6f\n Verification         = %s\n", solution->seconds,
           right ? "SUCCESSFUL" : "UNSUCCESSFUL");
    if (right) puts("# nearmetal complete");
    else
        fprintf(stderr,
                "eigen: %d of %d eigenvalues were found, wrong by up to %.1e, with residuals up to "
                "%.1e.\n",
                solution->count, expected, error, solution->residual);
    return right;
}

static long divisor(long a, long b) { return b ? divisor(b, a % b) : a; }

int main(int argc, char **argv)
{
    long side = 16, points = 32, groups = 0;
    const struct number numbers[] = {
        {"side", 12, 400, &side, NULL},
        {"points", 32, 4096, &points, NULL},
        {"groups", 1, 4096, &groups, NULL},
        {NULL, 0, 0, NULL, NULL},
    };
    rank = start_mpi(&argc, &argv, 1, &ranks);
    program_name = "eigen";
    speaks = rank == 0;
    int status = parse_numbers(argc, argv, HELP, numbers);
    if (!status && points % 4)
        status = complain("--points takes a multiple of 4, not %ld.", points);
    if (!groups) groups = divisor(ranks, points / 2);
    if (!status && (ranks % groups || points / 2 % groups))
        status = complain(
            "--groups %ld must divide the %d processes and the %ld linear systems of %ld points.",
            groups, ranks, points / 2, points);
    if (status) {
        MPI_Finalize();
        return status == HELP_GIVEN ? 0 : status;
    }
    /* Nobody's own settings: what is measured is the same for all. */
    char skip[] = "-skip_petscrc", *words[] = {argv[0], skip, NULL}, **given = words;
    int count = 2;
    unsetenv("PETSC_OPTIONS");
    if (SlepcInitialize(&count, &given, NULL, NULL) != PETSC_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    const char *asked = getenv("OMP_NUM_THREADS");
    int threads = 0;
    PetscCallAbort(PETSC_COMM_WORLD, threads_at_work(asked ? atoi(asked) : 1, &threads));
    static struct solution solution;
    PetscCallAbort(PETSC_COMM_WORLD, solve(side, points, groups, &solution));
    const int right = report(side, points, groups, threads, &solution);
    SlepcFinalize();
    MPI_Finalize();
    return right ? 0 : WRONG_RESULT;
}
