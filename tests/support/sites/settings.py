"""A site's configuration of ReFrame, in the manner of EESSI's, CSCS's and excalibur's public ones.

Nothing in it is Nearmetal's: no link class, no features of compilers, ReFrame's own keys alone.
"""

import os

site_configuration = {
    "systems": [
        {
            "name": "centre",
            "descr": "Features by name, Cray-like, with a login partition",
            "hostnames": ["centre-ln"],
            "modules_system": "nomod",
            "resourcesdir": "/store/reframe/resources",
            "sched_options": {"job_submit_timeout": 90},
            "partitions": [
                {
                    "name": "login",
                    "scheduler": "local",
                    "launcher": "local",
                    "environs": ["builtin", "prg-gnu"],
                    "max_jobs": 20,
                },
                {
                    "name": "normal",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "time_limit": "10m",
                    "access": ["--account=project"],
                    "environs": ["builtin", "prg-gnu", "java"],
                    "features": ["remote", "scontrol"],
                    "extras": {"cn_memory": 503},
                    "resources": [{"name": "memory", "options": ["--mem={mem_per_node}"]}],
                    "processor": {
                        "num_cpus": 256,
                        "num_cpus_per_core": 2,
                        "num_cpus_per_socket": 128,
                        "num_sockets": 2,
                    },
                    "max_jobs": 100,
                },
                {
                    "name": "unknown",
                    "descr": "Nothing says its cores",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "environs": ["prg-gnu"],
                },
            ],
        },
        {
            "name": "modules",
            "descr": "Compilers by name, mpirun, in PBS",
            "hostnames": ["modules-ln"],
            "modules_system": "nomod",
            "stagedir": f"{os.environ.get('SCRATCH', '/tmp')}/stage",
            "partitions": [
                {
                    "name": "compute-node",
                    "scheduler": "pbs",
                    "launcher": "mpirun",
                    "access": ["-q small"],
                    "environs": ["default", "vendor20-mpi"],
                    "features": ["cpu", "one_node"],
                    "extras": {"mem_per_node": 213.6},
                    "processor": {
                        "num_cpus": 40,
                        "num_cpus_per_core": 1,
                        "num_sockets": 2,
                        "num_cpus_per_socket": 20,
                    },
                    "max_jobs": 20,
                },
            ],
        },
        {
            "name": "laptop",
            "descr": "This host",
            "hostnames": ["laptop"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "default",
                    "scheduler": "local",
                    "launcher": "local",
                    "environs": ["default"],
                },
            ],
        },
    ],
    "environments": [
        {"name": "builtin", "cc": "cc", "features": ["builtin"]},
        {"name": "prg-gnu", "cc": "cc", "features": ["prgenv", "serial", "openmp", "mpi"]},
        {"name": "java", "features": ["mpj"], "env_vars": [["MPJ_HOME", "/opt/mpj"]]},
        {"name": "default", "cc": "cc", "cxx": "c++", "ftn": "ftn"},
        {"name": "vendor20-mpi", "cc": "mpiicc", "cxx": "mpiicpc", "ftn": "mpiifort"},
    ],
}
