"""A system's file, for tests of its readers."""


def a_system(**extras) -> dict:
    """Contents of a valid file. An extra that is None is left out."""
    extras = {
        "link_class": "native",
        "link_speed_gbps": 10,
        "hypervisor": "none",
        "cores_per_node": 8,
        **extras,
    }
    return {
        "name": "here",
        "hostnames": ["^here$"],
        "partitions": [
            {
                "name": "batch",
                "scheduler": "slurm",
                "launcher": "srun",
                "environs": ["openmpi"],
                "extras": {key: value for key, value in extras.items() if value is not None},
            }
        ],
    }
