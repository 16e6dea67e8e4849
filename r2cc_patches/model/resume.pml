/* A link over connections that break: every message once, in order (agree/protocol/link.h). See docs/internals/model.md. */
#ifndef N
#define N 3
#endif
#ifndef CUTS
#define CUTS 2
#endif

chan wire = [N] of { byte };  /* what the connection holds, to the receiver */
chan acks = [N] of { byte };
byte added, acked, next = 1;  /* the sender: kept are acked+1 .. added; next goes into the connection */
byte received, taken;         /* the receiver */
byte cuts = CUTS;
bool up = true;

active proctype Sender() {
  byte a;
end:
  do
  :: d_step { added < N -> added++ }
  :: d_step { up && next <= added && nfull(wire) -> printf("    S  sends %d\n", next); wire ! next; next++
#ifdef M_KEPT_UNTIL_SENT
     ; acked = next - 1
#endif
     }
  :: d_step { acks ? a -> if :: a > acked -> acked = a :: else fi; assert(a <= added) }
  od
}

active proctype Receiver() {
  byte m;
end:
  do
  :: d_step { wire ? m ->
       printf("    R  gets %d\n", m);
       if
#ifdef M_KNOWN_TAKEN_AGAIN
       :: true ->
#else
       :: m > received ->
#endif
          assert(m == received + 1); /* none is missing */
          received = m; taken++
       :: else
       fi;
       if :: nfull(acks) -> acks ! received :: full(acks) fi } /* a later one says as much */
  od
}

active proctype World() {
  byte x;
end:
  do
  :: d_step { up && cuts -> cuts--; up = false; printf("    W  the connection breaks\n");
       do :: wire ? x :: empty(wire) -> break od;
       do :: acks ? x :: empty(acks) -> break od; x = 0 }
  /* The greetings say how much had come: the sender goes on from there. */
  :: d_step { !up -> up = true; printf("    W  a new connection\n");
#ifdef M_NOTHING_SENT_AGAIN
       skip
#else
#ifdef M_KNOWN_TAKEN_AGAIN /* or else nothing would come twice */
       next = 1
#else
       if :: received > acked -> acked = received :: else fi; next = acked + 1
#endif
#endif
     }
  :: timeout -> assert(taken == N && received == N); break
  od
}
