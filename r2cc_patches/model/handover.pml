/* Hand-over (-DHANDOVER): a hold that ends, and errors that both users get. Connection::fail, bye, failAsPeer, onBye.
 * A user stops at its first error, as NCCL does. */

#ifdef HANDOVER
#ifndef HUSHES
#define HUSHES 0 /* the receiver hears nothing for R2CC_HOLD_MS (Judge::watchSilence): it gives up by itself */
#endif
bool sErr, rErr;  /* the user of that end was told of an error */
bool sBye, rBye;  /* its Bye is under way */
byte hushes = HUSHES;
#define S_OVER (sState == Failed || sState == Closed)
#define HAS_PLAN_S (plan[S].steps > 0) /* who has given up has no lanes */
#define R_OVER (rState == Failed || rState == Closed)
#ifdef M_ASKS_AFTER_ERROR /* of the user: goes on testing */
#define S_ASKS true
#else
#define S_ASKS (!sErr)
#endif
/* An error frees the user's buffers: nothing is written there, and nothing is called done. */
#define CHECK_NO_ERROR_S assert(!sErr)
#define CHECK_NO_ERROR_R assert(!rErr)

/* endAs: all lanes go, for good. */
inline failSender() {
  printf("S  gives up\n");
  sState = Failed;
  sBye = 1;
#ifndef M_FAILED_IS_NOT_FOR_GOOD
  target = 0; sDead = 0;
  forgetPending();
  i = 1;
  do
  :: i <= made ->
    if
    :: !HAS(sGone, i) -> dropAtSender(i)
    :: else
    fi;
    i++
  :: else -> break
  od;
  i = 0;
  do
  :: plan[S].steps > 1 -> trim(S)
  :: else -> break
  od;
  plan[S].steps = 0; plan[S].from[0] = 0; plan[S].a[0] = 0; plan[S].b[0] = 0
#endif
}

inline failReceiver() {
  printf("  R  gives up; it has %x\n", rDone);
  rState = Failed;
  rBye = 1;
#ifndef M_ERROR_BEFORE_FENCE
  fenceDead(255);
#endif
  do
  :: plan[R].steps > 1 -> trim(R)
  :: else -> break
  od;
  plan[R].steps = 0; plan[R].from[0] = 0; plan[R].a[0] = 0; plan[R].b[0] = 0
}

/* RecvConnection::onBye: what came before the farewell counts. */
inline byeAtReceiver() {
  printf("  R  hears the sender's Bye\n");
#ifndef M_FAREWELL_WITHOUT_DRAIN
  progressAll(255);
#endif
  if
  :: rDone == ALL -> rState = Closed
  :: else -> failReceiver()
  fi
}

/* SendConnection::onBye: the Bye says how much came. */
inline byeAtSender() {
  printf("S  hears the receiver's Bye: it has %d\n", PREFIX(rDone));
#ifdef M_BYE_IS_DONE
  sFinished = ALL;
#else
  sFinished = sFinished | (BIT(PREFIX(rDone)) - 1);
#endif
  if
  :: sFinished == ALL && rDone == ALL -> sState = Closed
#ifdef M_BYE_IS_DONE
  :: sFinished == ALL && rDone != ALL -> sState = Closed
#endif
  :: else -> failSender()
  fi
}

/* Each user has all, or an error. */
#define SETTLED_S (sErr || sFinished == ALL)
#define SETTLED_R (rErr || rDone == ALL)

#ifdef M_BYE_ONCE
#define BYE_AGAIN_S
#define BYE_AGAIN_R
#else /* whoever waits asks, and is answered with Bye (Messages::dispatchToSender, dispatchToReceiver) */
#define BYE_AGAIN_S :: d_step { sState == Failed && !sBye && !R_OVER && !over -> sBye = 1 }
#define BYE_AGAIN_R :: d_step { rState == Failed && !rBye && !S_OVER && !over -> rBye = 1 }
#endif
#ifdef M_FAILED_IS_NOT_FOR_GOOD
bool risen;
#define RISES :: d_step { sState == Failed && !risen -> printf("S  a path returned\n"); risen = 1; sState = Frozen }
#else
#define RISES
#endif

/* watchHold: since it last could carry data, also where a path is up and no lane can be made there, or no count comes. */
#ifdef M_HOLD_WITHOUT_PATH_ALONE
#define CARRIES_NOTHING (sState == Holding)
#else
#define CARRIES_NOTHING (sState == Holding || ((sState == Frozen || sState == Exchanging) && HAS_PLAN_S))
#endif

#define HANDOVER_S \
  :: d_step { CARRIES_NOTHING && !over -> printf("S  R2CC_HOLD_MS is over\n"); failSender() } \
  :: d_step { rBye && !S_OVER && !over -> rBye = 0; byeAtSender() } \
  :: d_step { sState == Failed && !sErr && sFinished != ALL -> printf("S  its user has an error\n"); sErr = 1 } \
  BYE_AGAIN_S \
  RISES \
  :: d_step { S_OVER && SETTLED_S && SETTLED_R && !over -> \
    assert(sState != Closed || rDone == ALL); \
    over = true } -> break

#define HANDOVER_R \
  :: d_step { sBye && !freezing && !R_OVER && !over -> sBye = 0; byeAtReceiver() } \
  :: d_step { hushes && !freezing && rState != Connecting && !R_OVER && rDone != ALL && !over -> hushes--; \
    printf("  R  nothing is heard for R2CC_HOLD_MS\n"); failReceiver() } \
  :: d_step { rState == Failed && !rErr && rDone != ALL -> printf("  R  its user has an error\n"); rErr = 1 } \
  BYE_AGAIN_R

#define HANDOVER_W \
  :: d_step { losses && sBye && !R_OVER && !over -> losses--; printf("    W  a Bye is lost\n"); sBye = 0 } \
  :: d_step { losses && rBye && !S_OVER && !over -> losses--; printf("    W  a Bye is lost\n"); rBye = 0 }
#else
#define S_ASKS true
#define S_OVER false
#define HAS_PLAN_S true
#define R_OVER false
#define CHECK_NO_ERROR_S skip
#define CHECK_NO_ERROR_R skip
#define HANDOVER_S
#define HANDOVER_R
#define HANDOVER_W
#endif
