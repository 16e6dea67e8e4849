/* Devices that are lost and opened anew, and the fork's table of them (inner/net_ib_reopen.inc). A device is a slot:
 * its context, and how many lanes use it. A lane refers to its slot until it is closed. See docs/internals/model.md. */

#ifndef NICS
#define NICS 2
#endif
#ifndef SLOTS
#define SLOTS 4 /* MAX_IB_DEVS */
#endif
#ifndef LANES
#define LANES 3
#endif
#ifndef LOSSES
#define LOSSES 3 /* of devices, in all */
#endif
#define NONE 99

mtype = { Free, Reads, Made, Up, Fenced };

/* ncclIbMergedDevs: which slot a NIC is; ncclIbDevs */
byte slotOf[NICS], inUse = NICS;
byte owner[SLOTS], life[SLOTS], refs[SLOTS];
bool fatal[SLOTS];
/* the hardware: how often it was opened; a context of an earlier life is dead */
byte lives[NICS];
bool lost[NICS];
byte losses = LOSSES;

mtype lane[LANES] = Free;
byte nic[LANES], slot[LANES], born[LANES]; /* in which life it was made */
bool asked[LANES], done[LANES]; /* a request is out; its completion is in, and nobody has polled it */
byte s, n;

#define DEAD(l) (lost[nic[l]] || born[l] != lives[nic[l]])
#define DEVICE(m) (slotOf[0] == (m) || slotOf[NICS - 1] == (m))
#ifdef M_SLOT_TAKEN_IN_USE
#define ABANDONED(m) (!DEVICE(m))
#else
#define ABANDONED(m) (!DEVICE(m) && refs[m] == 0)
#endif

#define USES(l, m) ((lane[l] == Made || lane[l] == Up || lane[l] == Fenced) && slot[l] == (m))
#define USED(m) (USES(0, m) || USES(1, m) || USES(2, m))

/* ncclIbInitCommDevBase; an accept has read the slot before it waited for the peer. On a lost device it may fail. */
inline make(l) {
  refs[slot[l]]++;
  born[l] = life[slot[l]];
  lane[l] = Made
}
#define LOST_SLOT(m) (lost[owner[m]] || life[m] != lives[owner[m]])
#ifdef M_FAILED_IS_A_USER
#define COUNT_FAILED(l) refs[slot[l]] = (refs[slot[l]] < 9 -> refs[slot[l]] + 1 : 9) /* a byte */
#else
#define COUNT_FAILED(l) skip
#endif

/* r2ccIbRefuseMoved, when it is made */
#ifdef M_SLOT_UNCHECKED
#define MOVED(l) false
#else
#define MOVED(l) (slotOf[nic[l]] != slot[l])
#endif
inline check(l) {
  if
  :: MOVED(l) ->
    printf("S  lane %d is not made: its NIC has left slot %d\n", l, slot[l]);
    refs[slot[l]]--;
    lane[l] = Free
  :: else ->
    printf("S  lane %d is made on slot %d\n", l, slot[l]);
    lane[l] = Up;
    assert(owner[slot[l]] == nic[l]) /* invariant 11: a lane is where it says */
  fi
}

inline reopen(d) {
  s = 0;
  do
  :: s < inUse && !ABANDONED(s) -> assert(DEVICE(s) || USED(s)); /* what nobody uses is free */
    s++
  :: else -> break
  od;
  if
  :: s == SLOTS -> skip /* all are in use: not now */
  :: else ->
    printf("S  NIC %d is opened anew: slot %d, it was %d\n", d, s, slotOf[d]);
    fatal[slotOf[d]] = true;
    lives[d]++;
    owner[s] = d; life[s] = lives[d]; refs[s] = 0; fatal[s] = false;
    slotOf[d] = s;
    if
    :: s == inUse -> inUse++
    :: else
    fi;
    lost[d] = false
  fi;
  s = 0
}

proctype Lanes(byte l) {
end:
  do
  :: d_step { lane[l] == Free -> nic[l] = l % NICS; slot[l] = slotOf[nic[l]]; lane[l] = Reads }
  :: d_step { lane[l] == Reads -> make(l) }
  :: d_step { lane[l] == Reads && LOST_SLOT(slot[l]) -> COUNT_FAILED(l); lane[l] = Free }
  :: d_step { lane[l] == Made -> check(l) }
  :: d_step { lane[l] == Up && !asked[l] && !fatal[slot[l]] && !DEAD(l) -> asked[l] = 1 } /* isend, irecv */
  :: d_step { lane[l] == Up && asked[l] && !done[l] && !DEAD(l) -> done[l] = 1 } /* the hardware is done */
  /* r2ccIbTest: what is complete is complete; then the errors of its device. */
  :: d_step { lane[l] == Up && asked[l] && done[l] -> asked[l] = 0; done[l] = 0 }
  :: d_step { lane[l] == Up && asked[l] && !done[l] && !fatal[slot[l]] ->
       assert(life[slot[l]] == born[l]) } /* or nobody would ever tell it */
  :: d_step { lane[l] == Up && fatal[slot[l]] -> assert(DEAD(l)); /* no lane has an error of another life */
       printf("S  lane %d has an error\n", l);
       lane[l] = Fenced; asked[l] = 0 }
  :: d_step { lane[l] == Up && !DEAD(l) && !asked[l] -> lane[l] = Fenced } /* given up for another reason */
  :: d_step { lane[l] == Fenced -> assert(refs[slot[l]] > 0); refs[slot[l]]--;
       printf("S  lane %d is closed\n", l); lane[l] = Free; done[l] = 0 }
  od
}

proctype World() {
end:
  do
  :: d_step { losses && !lost[0] -> losses--; printf("    W  NIC 0 is lost\n");
       lost[0] = true; fatal[slotOf[0]] = true }
  :: d_step { losses && !lost[NICS - 1] -> losses--; printf("    W  NIC %d is lost\n", NICS - 1);
       lost[NICS - 1] = true; fatal[slotOf[NICS - 1]] = true }
  :: d_step { lost[0] -> reopen(0) }
  :: d_step { lost[NICS - 1] -> reopen(NICS - 1) }
  od
}

init {
  d_step {
    n = 0;
    do
    :: n < NICS -> slotOf[n] = n; owner[n] = n; n++
    :: else -> break
    od;
    n = 0
  };
  atomic {
    run Lanes(0);
    run Lanes(1);
    run Lanes(2);
    run World()
  }
}
