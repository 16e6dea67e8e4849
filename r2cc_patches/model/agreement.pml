/* Ranks that switch at one group, as r2cc_patches/agree does it. See docs/internals/model.md. Links lose nothing: resume.pml. */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef GROUPS
#define GROUPS 5
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef LEASE
#define LEASE 2
#endif
#ifndef MARGIN
#define MARGIN 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef SILENCES
#define SILENCES 0 /* so often the coordinator is not reached for longer than is waited for it */
#endif
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define NONE 99
#define AT(r, e) ((r) * (ROUNDS + 2) + (e))

mtype = { Offer, Ready, Cannot, Prepare, Promised, Commit, Withdraw, Over, Leave };
mtype = { None, Idle, Offering, Preparing, Ended };

chan down[RANKS] = [6] of { mtype, byte, byte }; /* round, group */
chan up[RANKS] = [6] of { mtype, byte, byte };

/* a rank: its enqueuing thread and its gate */
byte entered[RANKS], leased[RANKS], promised[RANKS], epoch[RANKS], known[RANKS];
byte first[RANKS * (ROUNDS + 2)]; /* by rank and epoch */
bool broken[RANKS], dead[RANKS];
byte used[GROUPS + 1]; /* the epoch that a group was entered with, by whoever was first */
byte leaves = LEAVES, deaths = DEATHS, silences = SILENCES;
/* the coordinator */
mtype phase = Idle;
byte round, answers, last, named;

/* the decision after the one in force that was not dropped: with two rounds one may be */
#define NEXT(r) (AT(r, epoch[r] + 1) + (first[AT(r, epoch[r] + 1)] == 0 && known[r] > epoch[r] + 1))

#define WAITS(r) (promised[r] != NONE && entered[r] + 1 > promised[r])

inline look(r) { /* entering the next group takes a new lease */
  if
  :: first[NEXT(r)] != 0 && first[NEXT(r)] <= entered[r] + 1 ->
     epoch[r] = NEXT(r) - AT(r, 0);
     assert(first[AT(r, epoch[r])] == entered[r] + 1) /* it holds from its first group on, not later */
  :: else
  fi;
  leased[r] = entered[r] + LEASE;
#ifndef M_LEASE_OVER_PROMISE
  if :: promised[r] != NONE && leased[r] > promised[r] -> leased[r] = promised[r] :: else fi;
#endif
#ifndef M_LEASE_OVER_FIRST
  if
  :: first[NEXT(r)] != 0 && leased[r] >= first[NEXT(r)] -> leased[r] = first[NEXT(r)] - 1
  :: else
  fi
#endif
}

proctype Enqueuer(byte r) {
  do
  :: d_step { broken[r] || dead[r] || entered[r] == GROUPS -> skip }; break
  :: d_step { !broken[r] && !dead[r] && entered[r] < GROUPS && (entered[r] < leased[r] || !WAITS(r)) ->
       if :: entered[r] >= leased[r] -> look(r) :: else fi;
       entered[r]++;
       printf("    R  %d enters %d with %d\n", r, entered[r], epoch[r]);
       if :: used[entered[r]] == NONE -> used[entered[r]] = epoch[r] :: else fi;
       assert(used[entered[r]] == epoch[r]) }
#ifdef M_OWN_TIMEOUT
  :: d_step { WAITS(r) && !broken[r] && !dead[r] -> printf("    R  %d has waited long enough\n", r); promised[r] = NONE }
#endif
  od
}

byte task[RANKS]; /* the round that a rank takes part in */

proctype Member(byte r) {
  mtype kind = None;
  byte n, g;
end:
  do
  :: atomic { !dead[r] && nempty(down[r]) -> down[r] ? kind, n, g ->
     if
     :: kind == Offer -> task[r] = n;
        if
        :: up[r] ! Ready, n, 0
        :: up[r] ! Cannot, n, 0; task[r] = 0
        fi
     :: kind == Prepare && task[r] == n ->
#if !defined(LEASES_STAND) && !defined(M_PROMISE_BY_COUNT)
        leased[r] = MIN(leased[r], entered[r]); /* taken back, where the kernel can */
#endif
#ifdef M_PROMISE_BY_COUNT
        promised[r] = MAX(g, entered[r]);
#else
        promised[r] = MAX(g, leased[r]);
#endif
        printf("    R  %d promises %d\n", r, promised[r]);
        up[r] ! Promised, n, promised[r]
     :: kind == Commit && task[r] == n ->
#ifndef M_NOTHING_IS_DROPPED
        if /* what would hold from here on or later never does */
        :: known[r] > epoch[r] && first[AT(r, known[r])] >= g -> first[AT(r, known[r])] = 0
        :: else
        fi;
#endif
        known[r]++;
        assert(g > entered[r]); /* nobody is there yet */
        first[AT(r, known[r])] = g;
        printf("    R  %d hears: commit at %d\n", r, g);
        promised[r] = NONE; task[r] = 0
     :: kind == Withdraw && task[r] == n -> printf("    R  %d hears: withdrawn\n", r); promised[r] = NONE; task[r] = 0
     :: else /* Over: nothing runs any more */
     fi }
#ifndef M_COORDINATOR_DEATH_UNSEEN
  :: d_step { dead[0] && !dead[r] && !broken[r] && empty(down[r]) && WAITS(r) -> broken[r] = true }
#endif
  :: d_step { silences && r != 0 && !dead[r] && !broken[r] && WAITS(r) -> silences--;
       printf("    R  %d hears nothing for too long\n", r);
#ifdef M_SILENCE_FREES
       promised[r] = NONE
#else
       broken[r] = true
#endif
     }
  :: atomic { leaves && !dead[r] && phase != Ended && r != 0 -> leaves--; printf("    R  %d leaves\n", r); up[r] ! Leave, 0, 0 }
  :: d_step { deaths && !dead[r] -> deaths--; printf("    W  %d dies\n", r); dead[r] = true; broken[r] = true }
  od
}

byte to;
inline tell(kind, g) {
  to = 0;
  do
  :: to < RANKS -> down[to] ! kind, round, g; to++
  :: else -> break
  od
}
inline start(next) { phase = next; answers = 0; last = 0 }

inline withdraw() {
  printf("    C  withdraws %d\n", round);
#ifndef M_WITHDRAW_UNSAID
  tell(Withdraw, 0);
#endif
  start(Idle)
}

inline commit() {
#ifdef M_COMMIT_AT_MOST
  last = last - 1;
#endif
#ifdef M_COMMIT_AT_THE_NAMED
  last = named;
#endif
  printf("    C  commits %d at %d\n", round, last + 1);
#ifdef M_COMMIT_TO_SOME
  down[0] ! Commit, round, last + 1; to = 1;
  do :: to < RANKS -> down[to] ! Withdraw, round, 0; to++ :: else -> break od;
#else
  tell(Commit, last + 1);
#endif
  start(Idle)
}

#ifdef M_ONE_IS_ENOUGH
#define ENOUGH (answers + 1 >= RANKS)
#else
#define ENOUGH (answers == RANKS)
#endif
#define MINE(n) (n == round)

#define HEAR(r) \
  :: atomic { !dead[0] && nempty(up[r]) -> up[r] ? kind, n, g -> \
     if \
     :: kind == Leave && phase != Ended -> \
        if :: phase != Idle -> leaving() :: else fi; tell(Over, 0); phase = Ended \
     :: phase == Offering && kind == Cannot && MINE(n) -> withdraw() \
     :: phase == Offering && kind == Ready && MINE(n) -> answers++; \
        if :: answers == RANKS -> start(Preparing); named = leased[0] + MARGIN; tell(Prepare, named) :: else fi \
     :: phase == Preparing && kind == Promised && MINE(n) -> answers++; last = MAX(last, g); \
        if :: ENOUGH -> commit() :: else fi \
     :: else \
     fi }

inline leaving() {
#ifndef M_LEAVING_NOT_WITHDRAWN
  withdraw()
#else
  skip
#endif
}

proctype Coordinator() {
  mtype kind = None;
  byte n, g;
end:
  do
  HEAR(0)
  HEAR(1)
#if RANKS > 2
  HEAR(2)
#endif
  :: atomic { !dead[0] && phase == Idle && round < ROUNDS -> round++; start(Offering); tell(Offer, 0) }
  /* too late, as a dead rank is, or too different: at any time */
#ifndef M_LATE_IS_AWAITED
  :: atomic { !dead[0] && (phase == Offering || phase == Preparing) -> withdraw() }
#endif
  od
}

#define FREE(r) (broken[r] || dead[r] || promised[r] == NONE || (dead[0] && !WAITS(r)))
#if RANKS > 2
#define ALL_FREE (FREE(0) && FREE(1) && FREE(2))
#else
#define ALL_FREE (FREE(0) && FREE(1))
#endif

/* When nothing can happen any more nobody who lives waits at a promise, whoever died. */
active proctype Quiet() {
end:
  timeout -> assert(ALL_FREE)
}

init {
  atomic {
    byte i = 0;
    do :: i <= GROUPS -> used[i] = NONE; i++ :: else -> break od;
    i = 0;
    do :: i < RANKS -> promised[i] = NONE; run Enqueuer(i); run Member(i); i++ :: else -> break od;
    run Coordinator()
  }
}
