/* What neither end decides: bytes land, lanes die, datagrams are lost. */

#define CAN_LAND(l) (!DEAD(l) && !HAS(rGone, l) && lane[l].wire && lane[l].recvs)

inline land(l) {
  printf("    W  lane %d: %x lands in receive %x\n", l, LOWEST(lane[l].wire), LOWEST(lane[l].recvs));
  assert(LOWEST(lane[l].wire) == LOWEST(lane[l].recvs)); /* a message in another's buffer */
  k = LOWEST(lane[l].wire);
  assert((rDone & k) == 0); /* a write into a buffer that may be the user's again */
  CHECK_NO_ERROR_R;
  lane[l].wire = lane[l].wire & ~k;
  lane[l].recvs = lane[l].recvs & ~k;
#ifdef ACKS /* sockets: the receiver's own call copies the bytes, so it sees them at once */
  rDone = rDone | k;
  trimDone();
#else
  lane[l].landed = lane[l].landed | k;
#endif
  k = 0
}

/* A lost letter matters while somebody waits for it; any other may as well be late for ever. */
#define WAITING ((sState == Exchanging || SWITCHING) && !over)
#define CAN_DIE(x) (x <= made && !HAS(sGone, x) && !DEAD(x) && !over)
/* What was on the wire and did not land before, is lost. */
#define EACH_LANE_W(x) \
  :: d_step { CAN_LAND(x) -> land(x) } \
  :: d_step { cuts && CAN_DIE(x) -> cuts--; printf("    W  lane %d is cut\n", x); cut = cut | BIT(x); lane[x].wire = 0 } \
  :: d_step { errors && CAN_DIE(x) -> errors--; printf("    W  lane %d fails at the receiver's end\n", x); receiverErr = receiverErr | BIT(x); lane[x].wire = 0 }

inline resetAll() {
  resets--;
  printf("    W  all lanes are reset\n");
  i = 1;
  do
  :: i <= made ->
    if
    :: CAN_DIE(i) -> cut = cut | BIT(i); lane[i].wire = 0
    :: else
    fi;
    i++
  :: else -> break
  od;
  i = 0
}

active proctype World() {
end:
  do
  EACH_LANE_W(1)
  EACH_LANE_W(2)
  EACH_LANE_W(3)
  EACH_LANE_W(4)
  EACH_LANE_W(5)
#if LANES > 5
  EACH_LANE_W(6)
#endif
#if LANES > 6
  EACH_LANE_W(7)
#endif
  :: d_step { resets && made && !over -> resetAll() }
  HANDOVER_W
  MAKING_W
  :: d_step { losses && WAITING && HAS(requestOut, sEpoch) -> losses--; requestOut = requestOut & ~BIT(sEpoch) }
  :: d_step { losses && WAITING && HAS(answerOut, sEpoch) -> losses--; answerOut = answerOut & ~BIT(sEpoch) }
  od
}
