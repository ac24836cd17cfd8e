/*
 * Slurm's plugin (SPANK) of the lab's nodes: before each step of a job, asks the lab's program
 * `processors serve` to bring the processors together and to keep them awake. They stay awake until
 * the step's slurmstepd ends, which closes the connection.
 *
 * Usage, in plugstack.conf: optional /etc/slurm/spank_processors.so SOCKET
 *
 * A step runs without it where nothing answers, and its node's slurmd.log says so. Without the
 * socket it asks nothing: virtual machines have a kernel of their own.
 *
 * Build: cc -shared -fPIC spank_processors.c -o spank_processors.so
 */
#include <errno.h>
#include <slurm/spank.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

SPANK_PLUGIN(processors, 1)

int slurm_spank_init(spank_t spank, int count, char **words)
{
    const struct timeval patience = {30, 0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char ready;
    if (spank_context() != S_CTX_REMOTE || count != 1) return 0;
    if (strlen(words[0]) >= sizeof address.sun_path || access(words[0], F_OK)) return 0;
    strcpy(address.sun_path, words[0]);
    /* It stays open: this process is the step's. */
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ssize_t answered = -1;
    if (server >= 0) setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (server >= 0 && !connect(server, (struct sockaddr *)&address, sizeof address))
        answered = read(server, &ready, 1);
    if (answered != 1)
        slurm_error("processors are not kept awake: %s: %s", words[0],
                    answered ? strerror(errno) : "it ended before its answer");
    return 0;
}
