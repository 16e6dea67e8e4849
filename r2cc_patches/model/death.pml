/* When is a peer gone? A process sends N messages over one lane and ends, well or killed; the receiver tells an end from
 * what only looks like one by two witnesses (Judge::ended). See docs/internals/model.md. */

#ifndef N
#define N 2 /* messages */
#endif
#ifndef PATHS
#define PATHS 2
#endif
#ifndef RESETS
#define RESETS 1 /* lanes or streams of a live process that something on the way resets */
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef FIREWALL
#define FIREWALL 0 /* paths on which a firewall lets through nothing but lanes, from the start: a mask */
#endif
#define BIT(i) (1 << (i))
#define EVERY (BIT(PATHS) - 1)

mtype = { Waiting, Done, Failed };
mtype state = Waiting;      /* the receiver */
bit alive = 1, well;        /* the sending process; it ended after all was written */
byte sent, wire, have;      /* messages: written, under way, received */
bit laneUp = 1, fin;        /* the lane, as the network has it; its end comes behind what is under way */
bit laneEnded;              /* the receiver saw it end */
bit stream = FIREWALL != EVERY; /* of the side channel */
bit streamed = FIREWALL != EVERY;
bit streamEnded;
bit broke;                  /* a lane or stream ended, and nothing was heard since (Peer::firstBrokeNs, lastHeard) */
byte refused;               /* paths whose port took no connection since (Path::tcpRefusedNs) */
byte resets = RESETS, kills = KILLS;

/* Any process that ends takes its connections with it. What was read by nobody may be lost with them. */
inline endProcess() {
  alive = 0;
  stream = 0;
  if
  :: laneUp -> fin = 1
  :: laneUp && !well -> laneUp = 0; wire = 0
  :: !laneUp
  fi
}

active proctype Sender() {
end:
  do
  :: d_step { alive && laneUp && sent < N -> sent++; wire++ }
  /* Broken, and only that: a fresh lane, on the same NIC where there is no other, and what is missing once more. */
  :: d_step { alive && !laneUp && laneEnded && state == Waiting ->
    printf("S  a fresh lane\n"); laneUp = 1; laneEnded = 0; wire = sent - have }
  :: atomic { alive && laneUp && sent == N -> printf("S  ends well\n"); well = 1; endProcess() }
  :: atomic { alive && kills -> printf("S  is killed\n"); kills--; endProcess() }
  od
}

#ifdef M_BROKEN_IS_GONE
#define REFUSED true
#elif defined(M_ONE_PATH_REFUSES)
#define REFUSED (refused != 0)
#else
#define REFUSED (refused == EVERY)
#endif
#ifdef M_FIREWALL_IS_DEATH
#define COULD_TELL true
#else
#define COULD_TELL (streamed)
#endif
#ifdef M_STRAGGLERS_LOST
#define NOTHING_COMES true
#else
#define NOTHING_COMES laneEnded
#endif
#define GONE (broke && REFUSED && COULD_TELL && NOTHING_COMES && (streamEnded || !streamed))

/* A live process answers where the firewall lets it; a port of a dead one refuses, and so does a firewall. */
inline ask(p) {
  if
  :: alive && !((FIREWALL >> p) & 1) ->
    printf("  R  path %d answers\n", p);
    broke = 0; refused = 0; stream = 1; streamed = 1; streamEnded = 0
  :: else -> printf("  R  path %d refuses\n", p); refused = refused | BIT(p)
  fi
}

active proctype Receiver() {
  do
  :: d_step { state == Waiting && wire && !laneEnded -> wire--; have++ }
  :: d_step { state == Waiting && !laneEnded && (!laneUp || (fin && !wire)) ->
    printf("  R  the lane has ended\n"); laneEnded = 1; broke = 1; refused = 0 }
  :: d_step { state == Waiting && streamed && !stream && !streamEnded ->
    printf("  R  the stream has ended\n"); streamEnded = 1; broke = 1; refused = 0 }
  :: d_step { state == Waiting && broke && !(refused & 1) -> ask(0) }
  :: d_step { state == Waiting && broke && !(refused & 2) -> ask(1) }
  :: d_step { state == Waiting && GONE && have < N ->
    printf("  R  the process of the peer is gone\n");
    assert(!alive);
    assert(!well || have == N); /* what it sent before it ended well is all here */
    state = Failed }
  :: d_step { state == Waiting && FIREWALL == EVERY && !alive && laneEnded -> state = Failed } /* after R2CC_HOLD_MS */
  :: d_step { state == Waiting && have == N -> state = Done }
  :: state != Waiting -> break
  od
}

active proctype World() {
end:
  do
  :: d_step { resets && alive && laneUp -> printf("    W  the lane is reset\n"); resets--; laneUp = 0; wire = 0 }
  :: d_step { resets && alive && stream -> printf("    W  the stream is reset\n"); resets--; stream = 0 }
  od
}
