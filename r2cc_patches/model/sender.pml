/* SendConnection: the data path of send_connection.cc, the handshakes of send_control.cc. One option of `Sender` is one
 * call under the connection's ownership, so it is atomic. */

#define RELEASED PREFIX(sFinished) /* reported done to the user */

/* A lower message that belongs to the same lane and is not posted yet: it goes first. */
#define FIRST_S(j, n) ((j) < (n) && !HAS(sPosted | sFinished, j) && LANE_FOR(S, j) == LANE_FOR(S, n))
#ifdef M_REPLAY_UNSORTED
#define IN_ORDER_S(n) true
#else
#define IN_ORDER_S(n) !(FIRST_S(0, n) || FIRST_S(1, n) || FIRST_S(2, n) || FIRST_S(3, n) || FIRST_S(4, n))
#endif
#ifdef M_NO_HOLD
#define MAY_SEND(n) ((n) < N)
#else
#define MAY_SEND(n) ((n) < HOLD_FROM)
#endif
#define CAN_SEND(n) \
  (plan[S].steps > 0 && !HAS(sPosted | sFinished, n) && MAY_SEND(n) && (n) < RELEASED + WINDOW && \
   !HAS(sGone, LANE_FOR(S, n)) && IN_ORDER_S(n))

/* pump, one message */
inline send(n) {
  l = LANE_FOR(S, n);
  printf("S  message %d goes out on lane %d\n", n, l);
  CHECK_NO_ERROR_S;
  assert(n >= lane[l].sNext); /* invariant 2 */
  lane[l].sNext = n + 1;
  sPosted = sPosted | BIT(n);
#ifdef FLUSH
  sLane[n] = l;
#endif
  sBelow = MAX(sBelow, n + 1);
  if
  :: DEAD(l) || HAS(rGone, l) -> skip /* into the void */
  :: else -> lane[l].wire = lane[l].wire | BIT(n)
  fi
}

/* progress: when is a message known to be with the receiver? */
#ifdef ACKS /* sockets: an Ack said so; Acks carry the prefix, and an old one is as good as a late one */
#define CAN_FINISH(n) (n == RELEASED && HAS(rDone, n) && S_ASKS)
#else /* RDMA: the transport's own acknowledgement, which is in before the receiver polled its completion */
#define CAN_FINISH(n) \
  (HAS_PLAN_S && S_ASKS && HAS(sPosted, n) && !HAS(sFinished, n) && !HAS(sGone, LANE_FOR(S, n)) && \
   !HAS(lane[LANE_FOR(S, n)].wire, n) && HAS(rDone | lane[LANE_FOR(S, n)].landed, n))
#endif

#ifdef FLUSH
/* answeredFor: the word of a lane that is given up is not enough, the receiver's count may lack the message. */
#ifdef M_WORD_OF_A_LOST_LANE
#define ANSWERED(n) true
#else
#define ANSWERED(n) (sState == Active || !HAS(sGone, sLane[n]))
#endif
#define FINISH_S(n) \
  :: d_step { CAN_FINISH(n) && !HAS(sSure, n) -> printf("S  message %d is sent, says its lane\n", n); \
    sSure = sSure | BIT(n) } \
  :: d_step { HAS(sSure, n) && n == RELEASED && ANSWERED(n) -> \
    if \
    :: !HAS(sGone, sLane[n]) -> sTold = sTold | BIT(n) \
    :: else \
    fi; \
    finish(n) }
#else
#define FINISH_S(n) :: d_step { CAN_FINISH(n) -> finish(n) }
#endif

/* Only what the receiver has may be called done. */
inline finish(n) {
  printf("S  message %d is with the receiver\n", n);
  CHECK_NO_ERROR_S;
  sFinished = sFinished | BIT(n);
  sPosted = sPosted & ~BIT(n)
#ifdef FLUSH
  ;
  sSure = sSure & ~BIT(n)
#endif
}

/* dropLane: fences. What is on the wire may still land. */
inline dropAtSender(l) {
  sGone = sGone | BIT(l);
  lane[l].sNext = 0;
  NEVER_MADE(l);
  forgetFaults(l)
}

#ifdef M_LEFT_LANE_UNHEARD
#define HEARD_OF_LEFT false
#else
#define HEARD_OF_LEFT true
#endif

/* loseLane and failover: both ends of every detection (own, Suspect) come here, so double starts merge. */
inline loseLane(l, heard) {
  printf("S  lane %d is lost\n", l);
  if
  :: IN_PLAN(S, l) || PENDING(l) || target == l ->
#ifdef M_DEAD_NOT_CUMULATIVE
    sDead = BIT(l);
#else
    sDead = sDead | BIT(l);
#endif
    if
    :: target && target != l -> giveUpTarget()
    :: else -> target = 0
    fi;
    if
    :: sState != Holding && sState != Failed -> sState = Frozen
    :: else
    fi
#ifdef M_SWITCH_FORGOTTEN
    ;
    pendingEpoch = 0; pendingA = 0; pendingB = 0; pendingFrom = 0
#endif
#ifdef FLUSH
  :: else -> /* Idle. But the receiver's plan may not have left it: there it ends by a count, and goes on with nothing. */
    if
    :: heard && sState == Active && HEARD_OF_LEFT -> sDead = sDead | BIT(l); sState = Frozen
    :: else
    fi
#else
  :: else /* idle: nobody is concerned */
#endif
  fi;
  dropAtSender(l)
}

/* The receiver may have posted on a target whose exchange did not finish. */
inline giveUpTarget() {
#ifdef M_REUSE_TARGET
  skip;
#else
#ifndef M_TARGET_NOT_DEAD
  sDead = sDead | BIT(target);
#endif
  dropAtSender(target);
#endif
  target = 0
}

/* startExchange; 0: nothing to replace, only to learn what became of a switch */
inline startExchange(t) {
  sEpoch++;
  target = t;
  sState = Exchanging;
  printf("S  Freeze(epoch %d, lane %d, dead %x)\n", sEpoch, t, sDead);
  request[sEpoch].lane = t;
  request[sEpoch].dead = sDead;
  requestOut = requestOut | BIT(sEpoch)
#ifdef M_NO_WAIT
  ;
  if
  :: t -> skip; resume(rDone)
  :: else
  fi
#endif
}

/* A lane is idle if it is up and neither plan, exchange nor switch uses it. */
#ifdef M_TARGET_FROM_SWITCH
#define IDLE(l) (l <= made && READY(l) && !HAS(sGone, l) && !IN_PLAN(S, l))
#elif defined(M_TARGET_IN_PLAN)
#define IDLE(l) (l <= made && READY(l) && !HAS(sGone, l) && !PENDING(l))
#else
#define IDLE(l) (l <= made && READY(l) && !HAS(sGone, l) && !IN_PLAN(S, l) && !PENDING(l))
#endif

/* idleLane, else requestLane ... laneReady: that handshake is not modelled, a lane fails after it as well as before. */
inline findLane(out) {
  out = 1;
  do
  :: out <= made && !IDLE(out) -> out++
  :: else -> break
  od;
  if
  :: out > made ->
    assert(made < LANES); /* a bound of the model: raise it */
    made++
  :: else
  fi
}

/* Whether a lane of the plan, or of the switch asked for, has to be replaced. */
#ifdef FLUSH
#define LACKS(l) (HAS(sGone, l) && (IN_PLAN(S, l) || PENDING(l)))
inline recover() {
  k = 1;
  do
  :: k <= made && !LACKS(k) -> k++
  :: else -> break
  od;
  if
  :: k > made && plan[S].steps > 0 -> k = 0
  :: else -> findLane(k)
  fi;
  startExchange(k)
}
#else
inline recover() {
  findLane(k);
  startExchange(k)
}
#endif

#ifdef FLUSH
/* What the user was told is done is missing: both ends fail, and nothing wrong is handed out. That is right only where
 * nobody could know better when telling. */
inline failIfLost(have) {
  k = 0;
  do
  :: k < N ->
    if
    :: HAS(sFinished, k) && !HAS(have, k) && HAS(sGone, sLane[k]) ->
      assert(HAS(sTold, k));
      sState = Failed
    :: else
    fi;
    k++
  :: else -> break
  od
}
#endif

/* applyFenced and resume */
inline resume(have) {
  printf("S  resumes; the receiver has %x\n", have);
  if
#ifdef M_SWITCH_KEPT
  :: pendingEpoch ->
    addStep(S, pendingFrom, pendingA, pendingB)
#else
  :: pendingEpoch && ANSWER(sEpoch).switchedEpoch == pendingEpoch ->
    addStep(S, ANSWER(sEpoch).switchedFrom, pendingA, pendingB)
#endif
  :: else
  fi;
  forgetPending();
#ifdef FLUSH
  failIfLost(have);
#endif
  k = plan[S].from[0]; /* below it all is over */
  do
  :: k < N && plan[S].steps > 0 ->
    if
    :: !HAS(sDead, LANE_FOR(S, k))
#ifdef M_MASK_IGNORED
    :: HAS(sDead, LANE_FOR(S, k)) && k < PREFIX(have) -> finish(k)
    :: HAS(sDead, LANE_FOR(S, k)) && k >= PREFIX(have) -> sPosted = sPosted & ~BIT(k)
#else
    :: HAS(sDead, LANE_FOR(S, k)) && HAS(have, k) -> finish(k)
#ifdef M_KERNEL_IS_DELIVERED /* sockets: what the kernel took is not with the receiver */
    :: HAS(sDead, LANE_FOR(S, k)) && HAS(sPosted, k) && !HAS(have, k) -> skip
#endif
    :: HAS(sDead, LANE_FOR(S, k)) && !HAS(have, k) ->
#ifdef FLUSH
      sSure = sSure & ~BIT(k);
#else
      assert(!HAS(sFinished, k)); /* invariant 3 */
#endif
      sPosted = sPosted & ~BIT(k)
#endif
    fi;
    k++
  :: else -> break
  od;
  k = 0;
  if
  :: plan[S].steps == 0 -> addStep(S, 0, target, target)
  :: else -> substitute(S, sDead, target)
  fi;
  sDead = 0;
  target = 0;
#ifdef FLUSH
  if
  :: sState == Failed -> plan[S].steps = 0 /* nothing is sent any more */
  :: else -> sState = Active
  fi
#else
  sState = Active
#endif
}

inline forgetPending() {
  pendingEpoch = 0; pendingA = 0; pendingB = 0; pendingFrom = 0;
#ifndef KEEP_STALE
  switchedEpoch = 0; switchedFrom = 0 /* nobody asks any more: one state less */
#endif
}

inline onFenced(e) {
  printf("S  onFenced(epoch %d, usable %d)\n", e, ANSWER(e).usable);
  if
#ifdef M_USABLE_IGNORED
  :: true -> resume(ANSWER(e).count)
#else
  :: ANSWER(e).usable -> resume(ANSWER(e).count)
  :: else -> giveUpTarget(); sState = Frozen
#endif
  fi
}

/* startSwitch: the lanes of the new step are in the plan already, or fresh; the boundary lies beyond all that is posted. */
inline startSwitch(keep, ahead) {
  findLane(k);
  sEpoch++;
  pendingEpoch = sEpoch;
  pendingA = (keep -> plan[S].a[0] : k);
  pendingB = k;
  pendingFrom = sBelow + ahead;
  printf("S  Switch(epoch %d, from %d, lanes %d %d)\n", sEpoch, pendingFrom, pendingA, pendingB);
  request[sEpoch].isSwitch = 1;
  request[sEpoch].lane = pendingA;
  request[sEpoch].dead = pendingB;
  request[sEpoch].from = pendingFrom;
  requestOut = requestOut | BIT(sEpoch);
  switches--
}

/* With two steps: when the second has not begun (an idle connection leaves the first). */
#define CAN_SWITCH(ahead) \
  (switches && sState == Active && !pendingEpoch && ANY_IDLE && sBelow + (ahead) < N && sEpoch < EPOCHS && \
   (plan[S].steps == 1 || (STEPS > 2 && plan[S].steps == 2 && plan[S].from[1] >= sBelow + (ahead))))

inline onSwitched(e) {
  printf("S  onSwitched(epoch %d, from %d)\n", e, ANSWER(e).switchedFrom);
  addStep(S, ANSWER(e).switchedFrom, pendingA, pendingB);
  forgetPending()
}

#define SWITCHING (sState == Active && pendingEpoch)
#ifdef M_FENCED_ANY_EPOCH
#define FENCED(e) (sState == Exchanging && e <= sEpoch && !request[e].isSwitch && HAS(answerOut, e))
#else
#define FENCED(e) (sState == Exchanging && e == sEpoch && HAS(answerOut, e))
#endif
