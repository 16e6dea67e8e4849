"""Runs in a guest: RDMA writes over one RC connection, to see what work completions say when the path breaks.

verbs.py send|recv DEVICE ADDRESS PORT SECONDS: the receiver listens at ADDRESS:PORT on the management network. Each end
prints one JSON report. The sender creates /tmp/verbs-PORT once data flows. Ends by itself, whatever happens.
"""

import json
import os
import pathlib
import select
import socket
import struct
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

SIZE, DEPTH, GID_INDEX, GIVE_UP_S = 16384, 4, 1, 20.0
TIMEOUT, RETRIES = 14, 6
"""67 ms, seven times: what docs/results/vm-lab.md says works on soft-RoCE."""
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE


def meet(role, address, port):
    """A TCP connection between the two ends, for what they must know of each other."""
    if role == "recv":
        with socket.create_server((address, port)) as server:
            server.settimeout(GIVE_UP_S)
            return server.accept()[0]
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        try:
            return socket.create_connection((address, port), GIVE_UP_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def ready_to_send(qp, theirs):
    """RESET has been left for INIT already; now RTR and RTS towards the other end."""
    route = GlobalRoute(dgid=GID(theirs["gid"]), sgid_index=GID_INDEX, hop_limit=64)
    attributes = QPAttr()
    attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
    attributes.path_mtu = e.IBV_MTU_4096
    attributes.dest_qp_num = theirs["qpn"]
    attributes.rq_psn = attributes.sq_psn = 0
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
    attributes.min_rnr_timer = 12
    attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = TIMEOUT, RETRIES, 7
    attributes.qp_access_flags = ACCESS
    qp.to_rts(attributes)


def async_events(context):
    """Names of what the device has told so far; its file is found by kind, the library does not give it.

    Under libr2cc_faults.so that is a socket."""
    names = {value: name for name, value in vars(e).items() if name.startswith("IBV_EVENT_")}
    all_fds = [(int(path.name), link_of(path)) for path in pathlib.Path("/proc/self/fd").iterdir()]
    fds = [fd for fd, link in all_fds if link.startswith("socket:") and type_of(fd) == socket.SOCK_SEQPACKET]
    fds = fds or [fd for fd, link in all_fds if "infinibandevent" in link]
    found = []
    while select.select(fds, [], [], 0)[0]:
        event = context.get_async_event()
        found.append(names[event.event_type])
        event.ack()
    return found


def type_of(fd):
    with socket.socket(fileno=os.dup(fd)) as known:
        return known.type


def link_of(path):
    try:
        return str(path.readlink())
    except OSError:
        return ""


def write_until_broken(qp, cq, mr, *, theirs, seconds, marker):
    """Keeps DEPTH writes under way; the status that ended it and how long after the last good one, or success."""
    names = {value: name for name, value in vars(e).items() if name.startswith("IBV_WC_") and name.endswith("_ERR")}
    posted = completed = 0
    begun = last = time.monotonic()
    ends = begun + seconds
    while completed < posted or time.monotonic() < ends:
        while posted - completed < DEPTH and time.monotonic() < ends:
            posted += 1
            mr.write(struct.pack("<Q", posted), 8)
            wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, SIZE, mr.lkey)])
            wr.set_wr_rdma(theirs["rkey"], theirs["address"])
            qp.post_send(wr)
        for work in cq.poll(DEPTH)[1]:
            if work.status != e.IBV_WC_SUCCESS:
                return names.get(work.status, str(work.status)), completed, time.monotonic() - last
            completed += 1
            last = time.monotonic()
            marker.write_text("up")
        if time.monotonic() > ends + GIVE_UP_S:
            return "nothing", completed, time.monotonic() - last
    return "IBV_WC_SUCCESS", completed, time.monotonic() - begun


def main():
    role, device, address, port, seconds = sys.argv[1:]
    context = Context(name=device)
    pd, cq = PD(context), CQ(context, 64)
    mr = MR(pd, SIZE, ACCESS)
    cap = QPCap(max_send_wr=DEPTH, max_recv_wr=1)
    first = QPAttr(port_num=1)
    first.qp_access_flags = ACCESS
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=1), first)
    link = meet(role, address, int(port))
    link.settimeout(GIVE_UP_S + float(seconds))
    gid = context.query_gid(1, GID_INDEX).gid
    ours = {"qpn": qp.qp_num, "gid": gid, "rkey": mr.rkey, "address": mr.buf}
    link.sendall(json.dumps(ours).encode() + b"\n")
    reader = link.makefile()
    theirs = json.loads(reader.readline())
    ready_to_send(qp, theirs)
    link.sendall(b"ready\n")
    reader.readline()
    report = {"role": role}
    if role == "send":
        marker = pathlib.Path(f"/tmp/verbs-{port}")
        status, completed, took_s = write_until_broken(qp, cq, mr, theirs=theirs, seconds=float(seconds), marker=marker)
        report.update(status=status, completed=completed, took_s=took_s)
        link.sendall(b"done\n")
        time.sleep(0.3)  # an event may come a little after the completion
    else:
        reader.readline()
        report["last"] = struct.unpack("<Q", mr.read(8, 0))[0]
    report["events"] = async_events(context)
    print(json.dumps(report), flush=True)
    os._exit(0)  # no destructors: destroying a QP in error was once seen to hang for 50 s


main()
