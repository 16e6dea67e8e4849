/* The process of the sending end: what it may do, and when. */

#define QUIET \
  (sFinished == ALL && rDone == ALL && sState == Active && rState == Active && !pendingEpoch && !freezing && \
   plan[S].steps == 1 && plan[R].steps == 1 && !DEAD(plan[S].a[0]) && !DEAD(plan[S].b[0]))

#define EACH_MESSAGE_S(n) \
  :: d_step { CAN_SEND(n) -> send(n) } \
  FINISH_S(n)
#if defined(FLUSH) && !defined(M_LEFT_LANE_UNHEARD)
#define HEEDS(x) (!HAS(sGone, x) || sState == Active)
#else
#define HEEDS(x) !HAS(sGone, x)
#endif
#define EACH_LANE_S(x) \
  MAKING_LANE_S(x) \
  :: d_step { HAS(cut, x) && !HAS(sGone, x) -> loseLane(x, false) } /* onPathDown, a transport error */ \
  :: d_step { HAS(suspectOut, x) && HEEDS(x) -> loseLane(x, true); suspectOut = suspectOut & ~BIT(x) } /* onSuspect */ \
  /* a wrong verdict */ \
  :: d_step { alarms && x <= made && !HAS(sGone, x) && !DEAD(x) && !over -> alarms--; loseLane(x, false) }
#define EACH_EPOCH_S(e) \
  :: d_step { FENCED(e) -> onFenced(e) }

#ifdef M_SAME_NIC_BARRED /* a lane broke there: with one NIC there is no other */
#define MAY_RECOVER (sDead == 0)
#else
#define MAY_RECOVER true
#endif

active proctype Sender() {
#ifndef CONNECT
  /* Two lanes, active at both ends; with CONNECT they begin as strangers. */
  d_step {
    made = FIRST_LANES;
    addStep(S, 0, 1, 2);
    addStep(R, 0, 1, 2);
    sState = Active;
    rState = Active
  };
#endif
  do
  EACH_MESSAGE_S(0)
  EACH_MESSAGE_S(1)
  EACH_MESSAGE_S(2)
#if N > 3
  EACH_MESSAGE_S(3)
#endif
#if N > 4
  EACH_MESSAGE_S(4)
#endif
  EACH_LANE_S(1)
  EACH_LANE_S(2)
  EACH_LANE_S(3)
  EACH_LANE_S(4)
  EACH_LANE_S(5)
#if LANES > 5
  EACH_LANE_S(6)
#endif
#if LANES > 6
  EACH_LANE_S(7)
#endif
  EACH_EPOCH_S(1)
  EACH_EPOCH_S(2)
  EACH_EPOCH_S(3)
  EACH_EPOCH_S(4)
  EACH_EPOCH_S(5)
#if EPOCHS > 5
  EACH_EPOCH_S(6)
#endif
#if EPOCHS > 6
  EACH_EPOCH_S(7)
#endif
  :: d_step { (sState == Frozen || sState == Connecting) && !over && MAY_RECOVER && ANY_IDLE -> recover() }
  :: d_step { sState == Frozen && outages -> outages--; printf("S  no path: it holds\n"); sState = Holding }
  :: d_step { sState == Holding && RETURNED -> printf("S  a path returned\n"); sState = Frozen } /* a path returned */
  :: d_step { CAN_SWITCH(AHEAD) && !over -> startSwitch(1, AHEAD) }
  :: d_step { CAN_SWITCH(AHEAD) && !over -> startSwitch(0, AHEAD) }
#if AHEAD > 0
  :: d_step { CAN_SWITCH(0) && !over -> startSwitch(1, 0) } /* an idle connection */
  :: d_step { CAN_SWITCH(0) && !over -> startSwitch(0, 0) }
#endif
  :: d_step { SWITCHING && pendingEpoch == sEpoch && HAS(answerOut, sEpoch) -> onSwitched(sEpoch) }
  :: d_step { SWITCHING && !over -> startExchange(0) } /* kSwitchLimitNs */
  :: d_step { plan[S].steps > 1 && plan[S].from[1] <= RELEASED -> printf("S  trims its plan\n"); trim(S) }
#ifndef M_REQUEST_NOT_REPEATED
  :: d_step { (sState == Exchanging || SWITCHING) && !HAS(requestOut, sEpoch) ->
    requestOut = requestOut | BIT(sEpoch) } /* repeat */
#endif
#ifdef FLUSH
  :: d_step { sState == Failed -> printf("S  what its user was told is done is missing\n"); over = true } -> break
#endif
  HANDOVER_S
  MAKING_S
  :: d_step { QUIET && !over ->
    assert(sEpoch == rEpoch && plan[S].from[0] == plan[R].from[0]);
    assert(plan[S].a[0] == plan[R].a[0] && plan[S].b[0] == plan[R].b[0]);
    assert(lane[plan[S].a[0]].wire == 0 && lane[plan[S].b[0]].wire == 0); /* no message too many */
    over = true } -> break
  od
}
