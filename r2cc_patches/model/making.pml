/* Lanes that are made, and NICs that come late or are opened anew (-DMAKING). SendConnection::requestLane, laneReady,
 * loseLane, prune; RecvConnection::onOpenLane, onCloseLane; NicLinks::renew, reopened. Two paths: NIC 0 to NIC 0, and
 * NIC 1 to NIC 1. Without it a lane is there when it is needed. */

#ifdef MAKING
#ifndef JOINS
#define JOINS 0 /* NIC 1 was down at the start, and joins at any time */
#endif
#ifndef DOWNS
#define DOWNS 0 /* the sender's end of a path is lost: its link, or its device */
#endif
#ifndef BACKS
#define BACKS 1 /* such a path is back in the end */
#endif
#ifndef DEVICES
#define DEVICES 0 /* a device of the receiver's is lost, and opened anew */
#endif
#ifndef LATES
#define LATES 0 /* lanes that are given up before they are there */
#endif
#ifndef STANDBY
#define STANDBY 0 /* 1: lane 3 is there from the start, on NIC 0, and idle */
#endif
#define FIRST_LANES (2 + STANDBY)
/* Lanes that are up at that end; the sender's are at both (Lane::usable). */
byte sUp = (STANDBY -> 14 : 6), rUp = (STANDBY -> 14 : 6);
byte onSecond = (JOINS -> 0 : 4); /* lanes of NIC 1; the others are NIC 0's */
byte pathUp = (JOINS -> 1 : 3); /* as the sender knows */
byte gone;              /* paths that were lost at the sender's end, and are not back */
byte deviceLost;        /* the receiver's devices that are not opened yet */
byte joins = JOINS, downs = DOWNS, devices = DEVICES, lates = LATES;
#define MADE (BIT(made + 1) - 2)
#define LANES_OF(p) (MADE & (onSecond ^ (1 - (p)) * 255))
#define NIC_OF(l) HAS(onSecond, l)
#define READY(l) HAS(sUp, l)
#define ANY_IDLE (IDLE(1) || IDLE(2) || IDLE(3) || IDLE(4) || IDLE(5) || IDLE(6) || IDLE(7))
#define OPENING (MADE & ~sUp & ~sGone) /* one at a time */
#define NO_PATH (!pathUp && !OPENING && !ANY_IDLE)
#define SEEMS_USABLE(l) ((l) == 0 || !HAS(rGone, l)) /* the receiver finds an error where it posts, not before */
#define IDLE_ON(x, p) (IDLE(x) && NIC_OF(x) == p)
#define ANY_IDLE_ON(p) \
  (IDLE_ON(1, p) || IDLE_ON(2, p) || IDLE_ON(3, p) || IDLE_ON(4, p) || IDLE_ON(5, p) || IDLE_ON(6, p) || IDLE_ON(7, p))
#define CARRIES(p) (plan[S].steps == 0 || NIC_OF(plan[S].a[0]) == p || NIC_OF(plan[S].b[0]) == p)
/* To go on with (recover), or to have both NICs carry (approachWanted). */
#define WANTS(p) \
  (HAS(pathUp, p) && !OPENING && !over && \
   (((sState == Connecting || sState == Frozen) && !ANY_IDLE) || \
    (sState == Active && switches && !CARRIES(p) && !ANY_IDLE_ON(p))))

inline requestLane(p) {
  assert(made < LANES); /* a bound of the model: raise it */
  made++;
  k = made;
  printf("S  asks for lane %d on NIC %d\n", k, p);
  if
  :: p -> onSecond = onSecond | BIT(k)
  :: else
  fi;
  k = 0
}

/* What is on it is lost; what has landed may still be told, as late as its lane is there (completions). */
inline loseAllOf(p) {
  k = LANES_OF(p);
  i = 1;
  do
  :: i <= made ->
    if
    :: HAS(k, i) -> lane[i].wire = 0
    :: else
    fi;
    i++
  :: else -> break
  od;
  i = 0;
  k = 0
}

#ifdef M_COMPLETION_BY_DEVICE /* completions are taken for those of whatever was made on the device last */
inline pollDevice(l) {
  k = made;
  do
  :: k > l && !(NIC_OF(k) == NIC_OF(l) && lane[k].recvs && !HAS(rGone, k)) -> k--
  :: else -> break
  od;
  if
  :: k > l && lane[l].landed && HAS(receiverErr, l) -> lane[l].landed = LOWEST(lane[k].recvs)
  :: else
  fi;
  k = 0
}
#endif

/* One that never came up at the receiver leaves nothing there: a late OpenLane makes an end that nobody calls. */
#define NEVER_MADE(l) \
  if \
  :: !HAS(rUp, l) -> rGone = rGone | BIT(l) \
  :: else \
  fi

#ifdef M_JOIN_UNAGREED
#define ON_READY(x) \
  if \
  :: sState == Active && NIC_OF(x) -> addStep(S, sBelow, x, x) \
  :: else \
  fi
#elif defined(M_READY_IN_EXCHANGE)
#define ON_READY(x) \
  if \
  :: sState == Exchanging -> startExchange(x) \
  :: else \
  fi
#else
#define ON_READY(x) skip
#endif
#ifdef M_JOIN_UNHEARD
#define RETURNED (pathUp & 1)
#else
#define RETURNED pathUp
#endif

#define MAKING_S \
  :: d_step { WANTS(0) -> requestLane(0) } \
  :: d_step { WANTS(1) -> requestLane(1) } \
  :: d_step { sState == Frozen && NO_PATH && !over -> printf("S  no path: it holds\n"); sState = Holding }
/* LaneUp; given up before that; and a lane that the plan has left is closed (prune) */
#define MAKING_LANE_S(x) \
  :: d_step { x <= made && HAS(rUp, x) && !HAS(sUp | sGone, x) -> \
    printf("S  lane %d is up\n", x); sUp = sUp | BIT(x); ON_READY(x) } \
  :: d_step { lates && HAS(OPENING, x) -> lates--; printf("S  lane %d is late\n", x); dropAtSender(x) } \
  :: d_step { sState == Active && lane[x].sNext && !HAS(sGone, x) && !IN_PLAN(S, x) && !PENDING(x) && !over -> \
    printf("S  closes lane %d\n", x); dropAtSender(x) }

#ifdef M_CLOSED_IN_PLAN
#define MAY_CLOSE(x) true
#else
#define MAY_CLOSE(x) !IN_PLAN(R, x) /* a lane of the plan ends by Freeze alone */
#endif
#ifdef BARRED /* probes pass, and no lane ever comes up: a firewall, say */
#define CAN_BE_MADE(x) false
#else
#define CAN_BE_MADE(x) (x <= made && !HAS(rUp | rGone | sGone, x) && !HAS(deviceLost, NIC_OF(x)))
#endif
/* OpenLane; CloseLane, which answers any late word of a lane that the sender does not know */
#define MAKING_LANE_R(x) \
  :: d_step { CAN_BE_MADE(x) -> \
    printf("  R  lane %d is up\n", x); rUp = rUp | BIT(x) } \
  :: d_step { HAS(sGone, x) && HAS(rUp, x) && !HAS(rGone, x) && !freezing && MAY_CLOSE(x) && !over -> \
    printf("  R  CloseLane(%d)\n", x); fence(x) }

#ifdef M_OPENED_IS_AS_BEFORE /* what was made on a device before it was lost is taken for good again */
#define FORGIVE(p) cut = cut & ~LANES_OF(p); receiverErr = receiverErr & ~LANES_OF(p);
#else
#define FORGIVE(p)
#endif
#define ON_FREEZE_EARLY(e) \
  :: d_step { FREEZE(e) && SEEMS_USABLE(request[e].lane) -> drainLost(e); freeze(e, 1) } \
  :: d_step { FREEZE(e) && LOST(request[e].lane) -> drainLost(e); freeze(e, 0) }

#define EACH_PATH_W(p) \
  :: d_step { downs && HAS(pathUp, p) && !over -> downs--; printf("    W  the sender loses NIC %d\n", p); \
    gone = gone | BIT(p); pathUp = pathUp & ~BIT(p); \
    cut = cut | (LANES_OF(p) & ~sGone & ~receiverErr); loseAllOf(p) } \
  :: d_step { BACKS && HAS(gone, p) && !HAS(deviceLost, p) -> printf("    W  the sender's NIC %d is back\n", p); \
    gone = gone & ~BIT(p); FORGIVE(p) pathUp = pathUp | BIT(p) } \
  :: d_step { devices && HAS(pathUp, p) && !HAS(deviceLost, p) && !over -> devices--; \
    printf("    W  the receiver loses the device of NIC %d\n", p); deviceLost = deviceLost | BIT(p); \
    receiverErr = receiverErr | (LANES_OF(p) & ~sGone & ~cut); loseAllOf(p) } \
  :: d_step { HAS(deviceLost & pathUp, p) -> printf("    W  the sender hears that NIC %d is lost\n", p); \
    pathUp = pathUp & ~BIT(p); cut = cut | (LANES_OF(p) & ~sGone & receiverErr) } \
  :: d_step { HAS(deviceLost, p) -> printf("    W  the receiver's NIC %d is opened anew\n", p); \
    deviceLost = deviceLost & ~BIT(p); FORGIVE(p) \
    if \
    :: !HAS(gone, p) -> pathUp = pathUp | BIT(p) \
    :: else \
    fi }
#define MAKING_W \
  :: d_step { joins -> joins--; printf("    W  NIC 1 joins\n"); pathUp = pathUp | 2 } \
  EACH_PATH_W(0) \
  EACH_PATH_W(1)
#else
#define READY(l) true
#define ANY_IDLE true
#define RETURNED true
#define FIRST_LANES 2
#define SEEMS_USABLE(l) USABLE(l)
#define NEVER_MADE(l) skip
#define MAKING_S
#define MAKING_LANE_S(x)
#define MAKING_LANE_R(x)
#define MAKING_W
#define ON_FREEZE_EARLY(e)
#endif
