/* What this process's NICs can carry right now, for whoever plans with it: NCCL's schedules and the host bench. Plain
 * C, so that a program may look the functions up in libr2cc_net.so or libnccl.so. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct R2ccNicHealth {
  char name[32];
  double capacity;  /* 0: gone, 1: whole */
  double rate_gbit; /* 0: unknown */
};

/* Ascends whenever any local NIC's capacity changes, or the net starts or ends. One atomic read. */
__attribute__((visibility("default"))) uint64_t r2ccHealthVersion(void);

/* Writes at most `most` NICs, in the order of the net's devices; returns how many there are, 0 while no net runs (or
 * R2CC_MODE is 0). Any thread, any time. */
__attribute__((visibility("default"))) int r2ccHealth(struct R2ccNicHealth* out, int most);

/* Whether two of them belong to one failure domain: two ports of an adapter, two VLANs of a link. */
__attribute__((visibility("default"))) int r2ccNicsFailTogether(void);

/* A schedule that loads NICs unevenly on purpose begins (1), has another plan (0) or ends (-1). While there is one,
 * NICs are not compared by what they carry: what was found slow stays so, nothing else is called slow. Links and silent
 * paths are watched as ever. `schedule`: a number of its own. `in_turn`: its plan counts on each of its connections
 * whose NIC is gone going over one of the others, by its turn; 0: on each going over all of them. */
__attribute__((visibility("default"))) void r2ccUnevenLoad(int begins, uint64_t schedule, int in_turn);

/* From now on (1; 0: still, with another turn), or no more (-1), what this process connects belongs to that schedule,
 * the one that said so last. Inside NCCL each connection knows whose it is, as others are made at the same time.
 * Such a connection that left a NIC while a schedule ran comes home with the next plan: the one that runs counts on
 * that NIC being gone, and would overload others if it came back to it alone. NCCL may send on it while at most
 * `window` bytes are not known to be with the receiver, and two messages always; UINT64_MAX: as much as it likes.
 * `turn`: which of the NICs that are left it goes over, modulo their number, where its own is gone and the plan is in
 * turn; below 0: over all of them at any time. */
__attribute__((visibility("default"))) void r2ccScheduleConnects(int begins, uint64_t schedule, uint64_t window,
                                                                 int turn);

#ifdef __cplusplus
}
#endif
