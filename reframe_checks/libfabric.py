"""libfabric between two nodes: the layer under MPI on EFA and Slingshot, which have no verbs."""

import reframe as rfm

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.link import Link
from nearmetal.checks.parsing.libfabric import HEADS, parse_libfabric
from nearmetal.checks.settings import MESSAGE_SIZES, MESSAGE_SIZES_MEANING, setting
from nearmetal.job.launch import Launch

#: The provider of messages within a node.
WITHIN = "shm"


@rfm.simple_test
class libfabric(Link, NearmetalCheck):
    """Latency and bandwidth of libfabric over message size: what MPI on EFA, Slingshot and
    Omni-Path builds on.

    Method: `fi_pingpong` of libfabric over reliable datagrams (FI_EP_RDM), one size a run. The time
    is half of the round trip. `-S libfabric.tool=fi_rdm_tagged_pingpong` runs that of fabtests,
    whose messages are tagged as MPI's are.

    Why: `rdma` measures what has verbs. EFA and Slingshot are reached by providers of libfabric.

    Reproduces: no figure.

    Read: `startup_latency` is that of the smallest message. `pingpong` less this is what the MPI
    library costs. `peak_bandwidth` is of one message at a time, in 10^9 bit/s.
    """

    #: Provider, such as `efa`, `cxi`, `psm3`, `tcp`; `shm` measures two processes of one node.
    #: Default: the partition's `libfabric_provider` (extras). :type: str
    provider = setting(
        str,
        "",
        extra="libfabric_provider",
        pattern=r"^[\w;-]+$",
        meaning="a provider that `fi_info` lists",
    )
    #: The ping-pong. :values: `fi_pingpong`, `fi_rdm_tagged_pingpong`
    tool = setting(str, "fi_pingpong", choices=tuple(HEADS))
    #: Message sizes in bytes, separated by commas, with 1024 and 65536. :type: str
    sizes = setting(
        str,
        ",".join(str(4**exponent) for exponent in range(12)),
        pattern=MESSAGE_SIZES,
        meaning=MESSAGE_SIZES_MEANING,
    )
    #: Round trips of each size. :type: int
    iterations = setting(int, 1000, least=10)

    valid_systems = ["+libfabric_provider"]
    valid_prog_environs = ["+serial"]
    num_tasks = 2
    time_limit = "30m"
    tags = {"network"}

    def configure(self):
        self.num_nodes = 1 if self.provider == WITHIN else 2
        self.num_tasks_per_node = self.num_tasks // self.num_nodes

    def build(self):
        self.run_script("sh libfabric.sh")

    def launches(self):
        options = [self.tool, self.provider, self.iterations, *self.sizes.split(",")]
        return [Launch(options=options)]

    def read_output(self, text):
        self.runs = parse_libfabric(text)
        self.expect_repeats(self.runs)

    def requested(self):
        program, provider, iterations, *sizes = self._command
        asked = {"program": program, "provider": provider, "iterations": iterations}
        return {**asked, "sizes": ",".join(sizes)}

    def payload_bytes(self):
        return sum(run.payload_bytes for run in self.runs)
