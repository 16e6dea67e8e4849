"""Hosts with one LAN a rail, for R2CC: each rail can be cut alone, and all rails have the same rate.

Instructions:
Download the manifest when all nodes are ready, and on your own machine run
`r2cc inventory from-cloudlab manifest.xml --out cluster.yaml`. The guide: docs/howto/cloudlab.md of R2CC's repository.
"""

# CloudLab runs this file by itself, with Python 2.7 or 3 and its own geni-lib: it imports nothing of R2CC's, and keeps
# to what both languages understand. Upload it as a profile's source, or copy it to the top of a repository of yours.

from collections import namedtuple

try:  # noqa: SIM105
    from typing import Any, List, Tuple  # noqa: F401 - types are comments to Python 2.7, which may lack this module
except ImportError:
    pass

CLUSTERS = {
    "clemson": "urn:publicid:IDN+clemson.cloudlab.us+authority+cm",
    "wisc": "urn:publicid:IDN+wisc.cloudlab.us+authority+cm",
    "utah": "urn:publicid:IDN+utah.cloudlab.us+authority+cm",
}

# ports_gbit: the ports for experiments that are known of, without the control network's. CloudLab's hardware page has
# the last word; `extraPorts` is for what it has and this table has not.
Hardware = namedtuple("Hardware", ["cluster", "ports_gbit", "gpus", "about"])
HARDWARE = {
    "r7525": Hardware(
        "clemson", (100, 100, 25), 2, "2 V100S; BlueField-2 2 x 100G (not in every node any more), ConnectX-5 25G"
    ),
    "d7525": Hardware("wisc", (100, 100), 1, "1 A30; ConnectX-6 2 x 100G"),
    "d8545": Hardware("wisc", (100, 100), 4, "4 A100; ConnectX-6 2 x 100G"),
    "c6525-100g": Hardware("utah", (100, 25), 0, "no GPU; ConnectX-5 100G and 25G"),
}
IMAGE = "urn:publicid:IDN+emulab.net+image+emulab-ops//UBUNTU24-64-STD"
SETUP = "/usr/local/sbin/r2cc-setup"
# A copy of setup.sh, which leaves it there itself; so it is in the image that was taken from such a node.
MOST_NODES = 32
MOST_RAILS = 8
MOST_EXTRA_PORTS = 4
KBIT = 1000 * 1000
"""CloudLab counts kbit/s."""


def address(rail, node):
    # type: (int, int) -> str
    """Of node `node` on rail `rail`, both counted from 0: as in the lab."""
    return "10.%d.0.%d" % (rail + 1, node + 1)


def problems(params):
    # type: (Any) -> List[Tuple[str, List[str]]]
    """What cannot be had, as (message, names of the parameters): everything at once."""
    found = []  # type: List[Tuple[str, List[str]]]
    if not 2 <= params.nodes <= MOST_NODES:
        found.append(("2 to %d nodes are needed" % MOST_NODES, ["nodes"]))
    if not 1 <= params.rails <= MOST_RAILS:
        found.append(("1 to %d rails can be had" % MOST_RAILS, ["rails"]))
    if not 0 <= params.extraPorts <= MOST_EXTRA_PORTS:
        found.append(("0 to %d more ports can be assumed" % MOST_EXTRA_PORTS, ["extraPorts"]))
    if not 0 <= params.spaceGB <= 4000:
        found.append(("0 to 4000 GB of space can be had", ["spaceGB"]))
    found.extend(_ports_short(params) if not found else [])
    return found


def _ports_short(params):
    # type: (Any) -> List[Tuple[str, List[str]]]
    ports = sorted(HARDWARE[params.hardware].ports_gbit, reverse=True)
    ports += [ports[0]] * params.extraPorts
    ports.sort(reverse=True)
    shown = ", ".join("%dG" % port for port in ports)
    if params.rails > len(ports):
        message = "%d rails need as many ports; %s has %d (%s)" % (params.rails, params.hardware, len(ports), shown)
        return [(message, ["rails", "hardware"])]
    slowest = ports[params.rails - 1]
    if not 1 <= params.rateGbit <= slowest:
        message = "with %d rails on %s every rail can have 1 to %d Gbit/s (ports: %s)" % (
            params.rails,
            params.hardware,
            slowest,
            shown,
        )
        return [(message, ["rateGbit", "rails", "hardware"])]
    return []


def define(context, kinds):
    # type: (Any, Any) -> Any
    """The parameters of the form, and their values."""
    types = [(name, "%s: %s" % (name, HARDWARE[name].about)) for name in sorted(HARDWARE)]
    context.defineParameter("hardware", "Hardware type", kinds.STRING, "c6525-100g", types)
    context.defineParameter("nodes", "Number of nodes", kinds.INTEGER, 2)
    context.defineParameter(
        "rails",
        "Number of rails (NICs of a node)",
        kinds.INTEGER,
        2,
        longDescription="Each rail is a LAN of its own with one port of every node, so that it can be cut alone.",
    )
    context.defineParameter(
        "rateGbit",
        "Rate of every rail in Gbit/s",
        kinds.INTEGER,
        10,
        longDescription="Ports differ within a node. Each is limited to this by setup.sh, on the node itself.",
    )
    context.defineParameter(
        "image",
        "Disk image",
        kinds.STRING,
        IMAGE,
        longDescription="The URN of the snapshot that you took once setup.sh was done, or a standard image.",
    )
    context.defineParameter("spaceGB", "Space at /mydata in GB (0: none)", kinds.INTEGER, 100)
    context.defineParameter(
        "setup",
        "Limit the rates at boot",
        kinds.BOOLEAN,
        True,
        longDescription="By %s, which is in an image taken after setup.sh; other images are left as they are." % SETUP,
    )
    context.defineParameter(
        "extraPorts",
        "Ports beyond those known here",
        kinds.INTEGER,
        0,
        longDescription="If CloudLab's hardware page shows more ports for experiments than this form admits.",
        advanced=True,
    )
    return context.bindParameters()


def build(request, pg, params):
    # type: (Any, Any, Any) -> None
    """Fills the request: nodes with one interface a rail, a LAN a rail."""
    nodes = [_node(request, pg, params, number) for number in range(params.nodes)]
    for rail in range(params.rails):
        lan = request.LAN("rail%d" % rail)
        # Capacity decides which ports fit. CloudLab would shape with delay nodes or on the host, in software: setup.sh
        # limits the NIC itself instead.
        lan.bandwidth = params.rateGbit * KBIT
        lan.setNoBandwidthShaping()
        # Between switches, CloudLab need not have that capacity free: measure before you believe.
        lan.best_effort = True
        # A rail that shares its port or its cable with another cannot be cut alone.
        lan.link_multiplexing = False
        lan.vlan_tagging = False
        lan.trivial_ok = False
        for number, node in enumerate(nodes):
            lan.addInterface(node.addInterface("rail%d" % rail, pg.IPv4Address(address(rail, number), "255.255.255.0")))


def _node(request, pg, params, number):
    # type: (Any, Any, Any, int) -> Any
    node = request.RawPC("node%d" % number)
    node.hardware_type = params.hardware
    node.component_manager_id = CLUSTERS[HARDWARE[params.hardware].cluster]
    node.disk_image = params.image
    if params.spaceGB:
        space = node.Blockstore("space%d" % number, "/mydata")
        space.size = "%dGB" % params.spaceGB
    if params.setup:
        node.addService(pg.Execute(shell="sh", command=boot_command(params)))
    return node


def boot_command(params):
    # type: (Any) -> str
    """Numbers and a name of the table: nothing that was typed in freely gets into it."""
    script = "sudo %s --hardware %s --rate-gbit %d --only limits,kernel,rates"
    return "test ! -x %s || " % SETUP + script % (SETUP, params.hardware, params.rateGbit)


def main():
    # type: () -> None
    # Not at the top: R2CC reads the table above where there is no geni-lib.
    import geni.rspec.emulab
    import geni.rspec.igext  # noqa: F401
    from geni import portal
    from geni.rspec import pg

    context = portal.Context()
    params = define(context, portal.ParameterType)
    for message, names in problems(params):
        context.reportError(portal.ParameterError(message, names))
    context.verifyParameters()
    request = context.makeRequestRSpec()
    build(request, pg, params)
    context.printRequestRSpec(request)


if __name__ == "__main__":
    main()
