/* RecvConnection (recv_connection.cc). */

#define DELIVERED PREFIX(rDone)
#define FIRST_R(j, n) ((j) < (n) && !HAS(rPosted, j) && LANE_FOR(R, j) == LANE_FOR(R, n))
#define IN_ORDER_R(n) !(FIRST_R(0, n) || FIRST_R(1, n) || FIRST_R(2, n) || FIRST_R(3, n) || FIRST_R(4, n))
#define CAN_RECEIVE(n) \
  (plan[R].steps > 0 && !HAS(rPosted, n) && (n) < DELIVERED + WINDOW && (n) < N && !HAS(rGone, LANE_FOR(R, n)) && \
   IN_ORDER_R(n))

/* pump, one message: NCCL gives the buffer, or it is re-posted */
inline receive(n) {
  l = LANE_FOR(R, n);
  printf("  R  receive %d is posted on lane %d\n", n, l);
  assert(n >= lane[l].rNext); /* invariant 2 */
  lane[l].rNext = n + 1;
  lane[l].recvs = lane[l].recvs | BIT(n);
  rPosted = rPosted | BIT(n);
  rBelow = MAX(rBelow, n + 1)
}

#ifdef FLUSH
#define FLUSHES(l) !HAS(receiverErr, l)
#define CHECK_FENCED(l) skip /* the sender looks at the count */
/* lostCompleted: both ends fail, as in failIfLost. */
#define CHECK_COMPLETED \
  if \
  :: ((BIT(RELEASED) - 1) & ~rDone) -> \
    printf("  R  what the sender's user was told is done is missing\n"); \
    assert(((BIT(RELEASED) - 1) & ~rDone & ~sTold) == 0); \
    rState = Failed; sState = Failed; plan[S].steps = 0; plan[R].steps = 0 \
  :: else \
  fi
#define GIVEN_UP (rState == Failed)
#else
#define FLUSHES(l) true
#if defined(HANDOVER) && HUSHES
/* Who gives up by itself does not drain: it has an error, whatever the sender was told. */
#define CHECK_FENCED(l) assert(R_OVER || (lane[l].landed & sFinished) == 0)
#else
/* Invariant 3: what the sender completed was counted. */
#define CHECK_FENCED(l) assert((lane[l].landed & sFinished) == 0)
#endif
#define CHECK_COMPLETED assert(((BIT(RELEASED) - 1) & ~rDone) == 0)
#define GIVEN_UP R_OVER
#endif

/* finished */
inline poll(l) {
  printf("  R  polls lane %d: %x\n", l, lane[l].landed);
  assert((rDone & lane[l].landed) == 0); /* exactly once */
  CHECK_NO_ERROR_R;
#ifdef M_COMPLETION_BY_DEVICE
  pollDevice(l);
#endif
  rDone = rDone | lane[l].landed;
  lane[l].landed = 0;
  trimDone()
}

#define CAN_TRIM_R (!freezing && plan[R].steps > 1 && plan[R].from[1] <= DELIVERED)
/* progress trims at once; LAZY_TRIM: some time. */
inline trimDone() {
#ifndef LAZY_TRIM
  do
  :: CAN_TRIM_R -> trim(R)
  :: else -> break
  od;
#endif
  skip
}

inline progressAll(only) {
  i = 1;
  do
  :: i <= made ->
    if
    :: HAS(only, i) && !HAS(rGone, i) && FLUSHES(i) -> poll(i)
    :: else
    fi;
    i++
  :: else -> break
  od
}

/* dropLane: after this nothing lands any more. */
inline fence(l) {
  printf("  R  fences lane %d\n", l);
  CHECK_FENCED(l);
  rPosted = rPosted & ~(lane[l].recvs | lane[l].landed)
#ifndef M_NO_FENCE
  ;
  lane[l].wire = 0;
  lane[l].recvs = 0;
  lane[l].landed = 0;
  lane[l].rNext = 0;
  rGone = rGone | BIT(l);
  forgetFaults(l);
  suspectOut = suspectOut & ~BIT(l)
#endif
}

/* onFreeze, first half: everything that is complete is taken note of. Until the fence more may land. */
inline drain(e) {
  printf("  R  onFreeze(epoch %d, lane %d, dead %x): drains\n", e, request[e].lane, request[e].dead);
#ifdef M_NO_DRAIN
  skip;
#elif defined(M_DRAIN_DEAD_ONLY)
  progressAll(request[e].dead);
#else
  progressAll(255);
#endif
  CHECK_COMPLETED; /* Freeze::completed: what the sender's user was told */
#ifdef TWO_STEPS
  freezing = e
#endif
}

#ifdef MAKING
/* A completion may come later than the Freeze of another lane: of lanes that are not given up, any may still be out. */
inline drainLost(e) {
  printf("  R  onFreeze(epoch %d, lane %d, dead %x): drains these alone\n", e, request[e].lane, request[e].dead);
  progressAll(request[e].dead);
  k = rDone;
  i = 1;
  do
  :: i <= made -> k = k | lane[i].landed; i++
  :: else -> break
  od;
  i = 0;
  assert(((BIT(RELEASED) - 1) & ~k) == 0);
  k = 0
}
#endif

inline fenceDead(lost) {
  i = 1;
  do
  :: i <= made ->
    if
    :: HAS(lost, i) && !HAS(rGone, i) -> fence(i)
    :: else
    fi;
    i++
  :: else -> break
  od
}

#define COUNTED (BIT(DELIVERED + MASK_WIDTH) - 1)

inline freeze(e, ok) {
  if
  :: GIVEN_UP -> skip
  :: else -> answerFreeze(e, ok)
  fi
}

/* onFreeze, second half: fence, count, replace, answer. Only after the fence are buffers posted again. */
inline answerFreeze(e, ok) {
#ifdef M_COUNT_BEFORE_FENCE
  ANSWER(e).count = rDone;
  progressAll(request[e].dead);
#endif
  fenceDead(request[e].dead);
#ifndef M_COUNT_BEFORE_FENCE
  ANSWER(e).count = rDone & COUNTED;
#endif
  ANSWER(e).usable = ok;
  ANSWER(e).switchedEpoch = switchedEpoch;
  ANSWER(e).switchedFrom = switchedFrom;
  if
  :: ok && request[e].lane && plan[R].steps == 0 -> addStep(R, 0, request[e].lane, request[e].lane)
  :: ok && request[e].lane && plan[R].steps > 0 -> substitute(R, request[e].dead, request[e].lane)
  :: else
  fi;
  rState = (ok -> Active : Frozen);
  printf("  R  Fenced(epoch %d, usable %d, count %x, switched %d from %d)\n", e, ok, ANSWER(e).count, switchedEpoch, switchedFrom);
  answered(e);
  freezing = 0
}

/* Letters that can change nothing any more are forgotten: fewer states. */
inline answered(e) {
  rEpoch = e;
#ifndef KEEP_STALE
  answerOut = BIT(e);
  i = 1;
  do
  :: i <= e ->
    request[i].isSwitch = 0; request[i].lane = 0; request[i].dead = 0; request[i].from = 0;
    i++
  :: else -> break
  od;
  requestOut = requestOut & ~(BIT(e) - 1);
#else
  answerOut = answerOut | BIT(e);
#endif
  i = 0
}

#define USABLE(l) ((l) == 0 || (!HAS(rGone, l) && !HAS(receiverErr, l)))

/* onSwitch: the boundary may only rise, above all that was ever posted here. */
inline onSwitch(e) {
  switchedEpoch = e;
#ifdef M_BOUNDARY_NOT_RAISED
  switchedFrom = request[e].from;
#elif defined(M_BOUNDARY_LOWEST)
  switchedFrom = MAX(request[e].from, PREFIX(rPosted));
#else
  switchedFrom = MAX(request[e].from, rBelow);
#endif
  printf("  R  Switched(epoch %d, from %d, lanes %d %d)\n", e, switchedFrom, request[e].lane, request[e].dead);
  addStep(R, switchedFrom, request[e].lane, request[e].dead);
  ANSWER(e).switchedFrom = switchedFrom;
  ANSWER(e).switchedEpoch = e;
  ANSWER(e).usable = 0;
  ANSWER(e).count = 0;
  answered(e)
}

#ifdef M_FREEZE_ANY_EPOCH
#define NEWER(e) (e != rEpoch)
#else
#define NEWER(e) (e > rEpoch)
#endif
#define FREEZE(e) (!freezing && !GIVEN_UP && NEWER(e) && HAS(requestOut, e) && !request[e].isSwitch)
#ifdef M_SWITCH_ANY_EPOCH
#define SWITCH(e) (!freezing && e != rEpoch && HAS(requestOut, e) && request[e].isSwitch && rState == Active)
#else
#define SWITCH(e) (!freezing && e > rEpoch && HAS(requestOut, e) && request[e].isSwitch && rState == Active)
#endif

#define EACH_MESSAGE_R(n) \
  :: d_step { !freezing && CAN_RECEIVE(n) -> receive(n) }
#ifdef FLUSH /* also of a lane that the sender has left: what landed there counts, or is told to be missing */
#define SAID 0
#else
#define SAID sGone
#endif
#define EACH_LANE_R(x) \
  MAKING_LANE_R(x) \
  :: d_step { !freezing && !HAS(rGone, x) && lane[x].landed && FLUSHES(x) -> poll(x) } \
  :: d_step { HAS(receiverErr, x) && IN_PLAN(R, x) && !HAS(rGone | suspectOut | SAID, x) && !over -> \
    printf("  R  Suspect(lane %d)\n", x); suspectOut = suspectOut | BIT(x) }
#define LOST(l) (!USABLE(l) || HAS(cut, l)) /* it may have noticed */
#ifdef TWO_STEPS
#define ON_FREEZE(e) \
  :: d_step { FREEZE(e) -> drain(e) } \
  :: d_step { freezing == e && SEEMS_USABLE(request[e].lane) -> freeze(e, 1) } \
  :: d_step { freezing == e && LOST(request[e].lane) -> freeze(e, 0) }
#else /* What lands between drain and fence is discarded by the fence: the steps may be one. */
#define ON_FREEZE(e) \
  :: d_step { FREEZE(e) && SEEMS_USABLE(request[e].lane) -> drain(e); freeze(e, 1) } \
  :: d_step { FREEZE(e) && LOST(request[e].lane) -> drain(e); freeze(e, 0) }
#endif
#define EACH_EPOCH_R(e) \
  ON_FREEZE(e) \
  ON_FREEZE_EARLY(e) \
  :: d_step { SWITCH(e) && SEEMS_USABLE(request[e].lane) && SEEMS_USABLE(request[e].dead) -> onSwitch(e) } \
  ANSWER_AGAIN(e)
#ifdef M_ANSWER_NOT_REPEATED
#define ANSWER_AGAIN(e)
#else
#define ANSWER_AGAIN(e) \
  :: d_step { !freezing && e == rEpoch && HAS(requestOut, e) && !HAS(answerOut, e) -> answerOut = answerOut | BIT(e) }
#endif

active proctype Receiver() {
end:
  do
  HANDOVER_R
  EACH_MESSAGE_R(0)
  EACH_MESSAGE_R(1)
  EACH_MESSAGE_R(2)
#if N > 3
  EACH_MESSAGE_R(3)
#endif
#if N > 4
  EACH_MESSAGE_R(4)
#endif
  EACH_LANE_R(1)
  EACH_LANE_R(2)
  EACH_LANE_R(3)
  EACH_LANE_R(4)
  EACH_LANE_R(5)
#if LANES > 5
  EACH_LANE_R(6)
#endif
#if LANES > 6
  EACH_LANE_R(7)
#endif
  EACH_EPOCH_R(1)
  EACH_EPOCH_R(2)
  EACH_EPOCH_R(3)
  EACH_EPOCH_R(4)
  EACH_EPOCH_R(5)
#if EPOCHS > 5
  EACH_EPOCH_R(6)
#endif
#if EPOCHS > 6
  EACH_EPOCH_R(7)
#endif
#ifdef LAZY_TRIM
  :: d_step { CAN_TRIM_R -> trim(R) }
#endif
  od
}
