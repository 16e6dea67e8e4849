"""Runs in a guest: what verbs say of a device, and the states of a queue pair on its way to an error. Prints JSON."""

import json
import sys

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

STATES = {e.IBV_QPS_RESET: "RESET", e.IBV_QPS_INIT: "INIT", e.IBV_QPS_ERR: "ERR"}


def state(pair):
    return STATES[pair.query(e.IBV_QP_STATE)[0].qp_state]


def main():
    context = Context(name=sys.argv[1])
    port = context.query_port(1)
    done = CQ(context, 4)
    init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=done, rcq=done, cap=QPCap(4, 4, 1, 1))
    pair = QP(PD(context), init)
    seen = [state(pair)]
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
    pair.to_init(attr)
    seen.append(state(pair))
    pair.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    seen.append(state(pair))
    facts = {
        "gids": {str(index): str(context.query_gid(1, index)) for index in range(2)},
        "max_qp": context.query_device().max_qp,
        "port_state": "PORT_ACTIVE" if port.state == e.IBV_PORT_ACTIVE else str(port.state),
        "qp_states": seen,
    }
    print(json.dumps(facts))


main()
