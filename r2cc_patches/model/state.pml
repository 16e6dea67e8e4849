/* What both ends and the world between them remember. docs/internals/model.md maps every name to the C++. */

#ifndef N
#define N 4 /* messages */
#endif
#ifndef WINDOW
#define WINDOW N /* requests the user may have outstanding: NCCL_NET_MAX_REQUESTS */
#endif
#ifndef MASK_WIDTH
#define MASK_WIDTH WINDOW /* bits of Fenced::deliveredMask */
#endif
#ifndef AHEAD
#define AHEAD 0 /* kSwitchAhead: how far a switch's boundary lies beyond what is posted */
#endif
#ifndef LANES
#define LANES 7 /* lane ids 1..LANES; 0 is kNoLane */
#endif
#ifndef EPOCHS
#define EPOCHS 7
#endif
#ifndef CUTS
#define CUTS 1 /* lanes that die; their sender finds out, some time */
#endif
#ifndef ERRORS
#define ERRORS 0 /* lanes that die at the receiver's end alone: only it knows */
#endif
#ifndef ALARMS
#define ALARMS 0 /* healthy lanes that the sender gives up: bytes are still under way */
#endif
#ifndef SWITCHES
#define SWITCHES 0
#endif
#ifndef LOSSES
#define LOSSES 0 /* datagrams that are lost, when somebody waits for them */
#endif
#ifndef RESETS
#define RESETS 0 /* times that all lanes break at once, as a host's do whose only NIC is reset, and is well */
#endif
#ifndef OUTAGES
#define OUTAGES 0 /* times without any path: Holding */
#endif

#if SWITCHES > 1
#define STEPS 3
#else
#define STEPS 2
#endif

#define BIT(i) (1 << (i))
#define HAS(mask, i) (((mask) >> (i)) & 1)
#define ALL (BIT(N) - 1)
#define LOWEST(m) ((m) & (~(m) + 1))
#define MAX(x, y) ((x) > (y) -> (x) : (y))
/* How many messages from 0 on are in the mask, without a hole. */
#define PREFIX(m) \
  (((m) & 1) == 0 -> 0 : (((m) & 3) != 3 -> 1 : (((m) & 7) != 7 -> 2 : (((m) & 15) != 15 -> 3 : \
  (((m) & 31) != 31 -> 4 : (((m) & 63) != 63 -> 5 : 6))))))

/* Spin has one name space and prints an mtype's name in a counterexample: the names are ConnectionState's. */
mtype = { Connecting, Active, Frozen, Exchanging, Holding, Closed, Failed };

/* Plan (plan.h). A step's schedule is a, b, a, b...: which function it is matters to nobody but both ends. */
typedef Plan {
  byte steps;
  byte from[STEPS];
  byte a[STEPS];
  byte b[STEPS];
};
#define S 0
#define R 1
Plan plan[2];

#define STEP_LANE(p, s, k) ((((k) - plan[p].from[s]) & 1) -> plan[p].b[s] : plan[p].a[s])
#if STEPS == 3
#define THIRD(p, k, other) (plan[p].steps > 2 && (k) >= plan[p].from[2] -> STEP_LANE(p, 2, k) : other)
#define IN_THIRD(p, l) (plan[p].steps > 2 && (plan[p].a[2] == (l) || plan[p].b[2] == (l)))
#else
#define THIRD(p, k, other) (other)
#define IN_THIRD(p, l) false
#endif
#define LANE_FOR(p, k) \
  THIRD(p, k, (plan[p].steps > 1 && (k) >= plan[p].from[1] -> STEP_LANE(p, 1, k) : STEP_LANE(p, 0, k)))
#define IN_PLAN(p, l) \
  ((plan[p].steps > 0 && (plan[p].a[0] == (l) || plan[p].b[0] == (l))) || \
   (plan[p].steps > 1 && (plan[p].a[1] == (l) || plan[p].b[1] == (l))) || IN_THIRD(p, l))

/* A lane: a FIFO that pairs the n-th send with the n-th receive. Sets of message numbers are bit masks: since numbers
 * ascend on a lane (asserted at every post), the lowest bit is the oldest. */
typedef Lane {
  byte wire;   /* sent and under way */
  byte recvs;  /* receives posted and not filled */
  byte landed; /* in the receiver's memory; it has not polled the completion yet */
  byte sNext;  /* highest number ever posted by the sender + 1 (PostedFifo::highest_) */
  byte rNext;  /* the same at the receiver */
};
Lane lane[LANES + 1];
byte made;        /* lanes 1..made exist, up at both ends */
byte cut;         /* lanes that are dead, the sender may find out */
byte receiverErr; /* lanes that are dead, the receiver alone knows */
byte sGone;       /* fenced and dropped by the sender */
byte rGone;       /* fenced and dropped by the receiver */
#define DEAD(l) HAS(cut | receiverErr, l)

/* The sending end. */
mtype sState = Connecting;
byte sEpoch;
byte sPosted;  /* messages that are on a lane of the plan */
byte sFinished; /* messages the receiver is known to have; their prefix was reported done to the user */
byte sBelow;   /* no message from here on was ever on a lane */
byte sDead;    /* Freeze::dead of the next or present exchange */
#ifdef FLUSH /* GPU memory: what landed counts once it was flushed by the NIC that wrote it, and is lost with that NIC */
byte sSure;    /* a lane's transport says they are there (Surety::Lane); the user may be told while that lane is up */
byte sTold;    /* the user was told by such a word while the lane was up */
byte sLane[N]; /* where it was last posted (Request::lane) */
#endif
byte target;   /* target_ */
byte pendingEpoch, pendingA, pendingB, pendingFrom; /* the switch asked for and not agreed; holdFrom_ */
#define HOLD_FROM (pendingEpoch -> pendingFrom : N)
#define PENDING(l) (pendingEpoch && (pendingA == (l) || pendingB == (l)))

/* The receiving end. */
mtype rState = Connecting;
byte rEpoch;
byte rPosted; /* messages whose receive is on a lane */
byte rDone;   /* messages that are complete */
byte rBelow;  /* the same; the code takes posted_, which is never less */
byte freezing; /* the epoch of the Freeze in work: drained, not yet fenced */
byte switchedEpoch, switchedFrom; /* lastSwitched_ */

/* The side channel: everything ever said may arrive, in any order, any number of times, or never. A letter's content is
 * fixed by its epoch. One that is lost goes out again for as long as its sender waits. */
typedef Request {
  bit isSwitch;
  byte lane; /* Freeze: the target; Switch: its first lane */
  byte dead; /* Freeze: dead[]; Switch: its second lane */
  byte from; /* Switch: the boundary */
};
Request request[EPOCHS + 1];
byte requestOut; /* epochs whose Freeze or Switch is under way */
typedef Answer {
  bit usable;
  byte count;
  byte switchedEpoch, switchedFrom;
};
#ifdef KEEP_STALE /* mistakes that heed old letters need old letters to be kept */
Answer answer[EPOCHS + 1];
#define ANSWER(e) answer[e]
#else
Answer answer[1];
#define ANSWER(e) answer[0]
#endif
byte answerOut; /* epochs whose Fenced or Switched is under way */
byte suspectOut; /* lanes whose Suspect is under way */

byte cuts = CUTS, errors = ERRORS, alarms = ALARMS, switches = SWITCHES, outages = OUTAGES, losses = LOSSES, resets = RESETS;
bool over; /* all is delivered and quiet: nothing happens any more */

hidden byte i, j, l, k;

/* A lane that both ends dropped has no state any more. */
inline forgetFaults(l) {
  cut = cut & ~(sGone & rGone);
  receiverErr = receiverErr & ~(sGone & rGone)
}

/* Plan::add: a step that would begin no sooner never began. */
inline addStep(p, boundary, first, second) {
  do
  :: plan[p].steps && plan[p].from[plan[p].steps - 1] >= boundary ->
    plan[p].steps--;
    plan[p].from[plan[p].steps] = 0; plan[p].a[plan[p].steps] = 0; plan[p].b[plan[p].steps] = 0
  :: else -> break
  od;
  assert(plan[p].steps < STEPS);
  plan[p].from[plan[p].steps] = boundary;
  plan[p].a[plan[p].steps] = first;
  plan[p].b[plan[p].steps] = second;
  plan[p].steps++;
}

/* Plan::substitute */
inline substitute(p, lost, by) {
  i = 0;
  do
  :: i < plan[p].steps ->
    if
    :: HAS(lost, plan[p].a[i]) -> plan[p].a[i] = by
    :: else
    fi;
    if
    :: HAS(lost, plan[p].b[i]) -> plan[p].b[i] = by
    :: else
    fi;
    i++
  :: else -> break
  od
}

/* Plan::trim, one step */
inline trim(p) {
  j = 1;
  do
  :: j < plan[p].steps ->
    plan[p].from[j - 1] = plan[p].from[j];
    plan[p].a[j - 1] = plan[p].a[j];
    plan[p].b[j - 1] = plan[p].b[j];
    j++
  :: else -> break
  od;
  plan[p].steps--;
  plan[p].from[plan[p].steps] = 0;
  plan[p].a[plan[p].steps] = 0;
  plan[p].b[plan[p].steps] = 0
}
