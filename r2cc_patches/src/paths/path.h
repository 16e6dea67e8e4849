// One path (local NIC, remote NIC) to a peer and what we know of its health. Engine thread only, except state().
//
//   Up -> Suspect      traffic on it stands still (Peer says so)
//   Suspect -> Up      traffic moves again
//   Suspect -> Dead    probes on it stay silent while probes on another data path are answered
//   any -> Dead        a NIC of it lost its link
//   Dead -> Probation  both NICs up and a probe answered
//   Probation -> Up    answered steadily for the probation time (doubled by each recent failure)
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "wire/side_stream.h"

namespace r2cc {

enum class PathState : uint8_t { Up, Suspect, Dead, Probation };

constexpr int64_t kRoundNs = msToNs(3);        // between two probes of a suspect path
constexpr int kMissesToDie = 4;                // rounds answered elsewhere and not here
constexpr int64_t kSilentAnswers = 2;          // times as long as answers take of late
constexpr int kMissesIfAccused = 2;            // both, where others found a NIC of it silent and its traffic
constexpr int64_t kSilentIfAccused = 1;        // stands still
constexpr int64_t kDeadPingNs = msToNs(20);    // between two probes of a dead path
constexpr int kMaxDoublings = 6;               // of the probation time
constexpr int64_t kForgiveNs = msToNs(60000);  // failures older than this no longer count
constexpr int64_t kProbationSilenceNs = msToNs(80);
constexpr int64_t kProofsApartNs = msToNs(100);  // what proves more comes in later turns of the engine
constexpr int64_t kMovesNs = msToNs(8);          // after something got through, what stands still is not the path
constexpr int64_t kAssociationNs = msToNs(150);  // how long a path is probed because its neighbour died

constexpr int64_t kMuteNs = msToNs(50);  // without the first answer

constexpr int kRefusedAlive = 3;  // once, what was said before a process ended may be heard after it

constexpr int64_t kProofNs = msToNs(500);  // how long a proof that data passes is one
constexpr int64_t kAwayNs = msToNs(50);    // in doubt for so long, without an answer that others gave meanwhile

/// Where a silent death was located.
enum class Blame : uint8_t { Nobody, Local, Remote };

/// How a path that came back is received.
struct Probation {
  int64_t ns = msToNs(100);  // the first return
  bool damping = true;       // each recent failure doubles it
};

enum class PathUse : uint8_t {
  Data,
  LastResort,  // data when no data path is left; never evidence against one
  SideOnly,    // datagrams, never evidence
};

class Path {  // NOLINT(clang-analyzer-optin.performance.Padding): members stand by what they are for
 public:
  Path(uint8_t local, uint8_t remote, PathUse use, const Probation& probation = {})
      : local(local), remote(remote), data(use == PathUse::Data), use(use), probation_(probation) {}

  const uint8_t local;   // index of the local NIC
  const uint8_t remote;  // index in the peer's NIC list
  const bool data;
  const PathUse use;

  PathState state() const { return state_.load(std::memory_order_relaxed); }
  bool up() const { return state() == PathState::Up || state() == PathState::Suspect; }

  /// Every transition is one of these; each returns true when the state changed.
  /// Said on every tick while a link is down. The first probe then waits a little after the link is back: the switch
  /// may not forward yet, and the kernel repeats a lost ARP request only after a second.
  /// `ours`: it is our NIC's. Else nothing speaks against our NIC, until the path is up again.
  bool linkLost(int64_t now, bool ours) {
    lastPing = now;
    linked = false;
    diedByLink_ = true;
    if (!ours && blame == Blame::Nobody) blame = Blame::Remote;
    return die(now);
  }
  bool stalled(bool standsStill, int64_t now) {
    standsStill = standsStill && now - carried_ >= kMovesNs;
    const bool suspect = standsStill || now < suspectUntil_;
    standsStill_ = standsStill;
    if (state() == PathState::Up && suspect) {
      misses_ = 0;
      pingedSince_ = pingRound_ + 1;
      return set(PathState::Suspect);
    }
    if (state() == PathState::Suspect && !suspect) return set(PathState::Up);
    return false;
  }
  /// A message got through it at `then`. Of hundreds of connections on a full NIC some always wait, and probes get
  /// lost.
  void carried(int64_t then) { carried_ = std::max(carried_, then); }
  int64_t carriedAt() const { return carried_; }
  /// Another path that shares a NIC with this one died silently: probe this one too, whether or not it has traffic.
  void suspect(int64_t now) {
    if (up()) suspectUntil_ = now + kAssociationNs;
  }
  /// A lane on it broke: it may be a black hole, and must answer a probe before anything new is put on it.
  void doubt(int64_t now) {
    doubtedAt_ = now;
    suspect(now);
  }
  bool doubted() const { return lastPong < doubtedAt_ || dataDoubt_; }
  /// It was silent already when its peer was last heard, elsewhere: what that peer came to since is not told by it.
  bool awayBefore(int64_t heard) const { return !up() || (lastPong < doubtedAt_ && doubtedAt_ < heard - kAwayNs); }
  /// Data stood still on it, whatever probes say: nothing new is put on it before data got through once more (where its
  /// transport is TCP: a stream's, see SecondWay::proveData) and some time has passed, twice as long each time.
  void doubtData(int64_t now, bool provable) {
    dataFailures_ = now - dataDoubtedAt_ > kForgiveNs ? 1 : std::min(dataFailures_ + 1, kMaxDoublings);
    dataDoubt_ = true;
    dataProven_ = !provable;
    dataDoubtedAt_ = now;
  }
  bool wantsDataProof() const { return dataDoubt_ && !dataProven_; }
  /// `clean`: hardly anything of it was sent again.
  void dataThrough(int64_t now, bool clean) {
    dataProven_ |= clean;
    provenNs_ = now;
  }
  bool dataDoubted() const { return dataDoubt_; }
  /// Somebody may want to move here, and asks whether data passes; until then.
  void wantProof(int64_t until) { proofUntil_ = std::max(proofUntil_, until); }
  bool provesData(int64_t now) const {
    return wantsDataProof() || (now < proofUntil_ && provenNs_ < proofUntil_ - kProofNs);
  }
  /// As much as data would be got through in the last half second.
  bool provenLately(int64_t now) const { return now - provenNs_ < kProofNs; }
  bool carriesData() const { return up() && !dataDoubt_ && !leaving; }
  /// True when the doubt ends now.
  bool trustData(int64_t now) {
    if (!dataDoubt_ || !dataProven_ || now - dataDoubtedAt_ < probation_.ns << (dataFailures_ - 1)) return false;
    dataDoubt_ = false;
    return true;
  }
  void pinged(uint32_t round) {
    if (pingRound_ + 1 != round) pingedSince_ = round;
    pingRound_ = round;
  }
  /// The newest round of probes that another data path answered: was it answered here too? A round counts once, and
  /// where answers take `answerNs` the silence must last several of those.
  /// `certain`: nothing speaks for it; else it stays suspect, however silent.
  bool round(uint32_t answeredElsewhere, int64_t answerNs, int64_t now, bool certain = true) {
    if (state() != PathState::Suspect) return false;
    // A late peer is silent everywhere: no evidence.
    if (answeredElsewhere < pingedSince_ || answeredElsewhere <= judged_) return false;
    judged_ = answeredElsewhere;
    if (pongRound >= answeredElsewhere || (misses_ > 0 && carried_ > silentSince_)) return misses_ = 0, false;
    if (++misses_ == 1) silentSince_ = now;
    const bool accused = standsStill_ && now < suspectUntil_;
    const int misses = accused ? kMissesIfAccused : kMissesToDie;
    const int64_t silence = (accused ? kSilentIfAccused : kSilentAnswers) * answerNs;
    return misses_ >= misses && now - silentSince_ >= silence && certain && die(now);
  }
  bool missed() const { return misses_ > 0; }
  bool pong(int64_t now) {
    lastPong = now;
    misses_ = 0;
    if (state() != PathState::Dead) return false;
    probationSince_ = now;
    return set(PathState::Probation);
  }
  bool probationTick(int64_t now) {
    if (state() != PathState::Probation) return false;
    if (now - lastPong > kProbationSilenceNs) return set(PathState::Dead);
    if (now - probationSince_ < probationNs()) return false;
    diedByLink_ = false;
    return set(PathState::Up);
  }
  int64_t probationNs() const {
    return probation_.damping ? probation_.ns << std::min(std::max(failures_ - 1, 0), kMaxDoublings) : probation_.ns;
  }

  int64_t diedAt() const { return lastDeath_; }
  /// Of one that is not up: a NIC of it lost its link, so that silence says nothing.
  bool diedByLink() const { return diedByLink_; }

  /// Anything ever came over it.
  bool heard() const { return lastHeard != 0; }
  /// It was asked, and nothing ever came over it: not every pair of NICs can talk, whatever their addresses say.
  bool mute(int64_t now) const { return !heard() && askedNs != 0 && now - askedNs >= kMuteNs; }

  uint32_t pongRound = 0;  // the newest round answered
  int64_t lastPing = 0, lastPong = 0;
  bool leaving = false;   // a NIC of it is to go away (status/drains.h): nothing new is put on it
  bool linked = true;     // both NICs have their link, as far as we know
  int64_t lastHeard = 0;  // anything genuine came over it
  int asks = 0;           // rounds of questions about where it died silently; 0: none is under way
  int64_t askedAt = 0;    // when the last began
  bool localWorks = false, remoteWorks = false;  // what that round found out so far
  int reports = 0;                               // how often the other end said which NICs it hears over
  Blame blame = Blame::Nobody;                   // of its last death, until it is up again
  int refutations = 0;                           // of that blame
  uint8_t saidPercent = 100;                     // what was last said of it to the other end
  uint8_t saysLeft = 0;                          // and how often that is still to be said
  // What it can carry beside a healthy one; see capacity.h. Of a path that a peer sends over: what that peer says.
  double capacity = 1.0;
  int64_t saidNs = 0;  // and when
  int64_t wellNs = 0;  // since when the other end says that it is whole again, until that is believed

  // The two ways of the side channel (health/second_way.h).
  std::atomic<bool> pinned{false};  // what is sent over it leaves by its NIC, whatever the routing table says
  bool byRouter = false;            // these NICs do not face each other: for the time in which none that do are left
  bool within = false;              // the other end is this very host: no link matters
  int64_t askedNs = 0;              // the first question by UDP since anything came by UDP; 0: none
  int64_t udpHeard = 0;             // the last time something came by UDP
  bool refused = false;             // its port was refused since anything was heard over it
  int refusedAlive = 0;             // how often it was heard after a refusal, and not by UDP: a firewall refuses
  /// Its host refuses what passed until now, or what was lost without a word: no firewall, which would have been found
  /// out.
  bool refusesNow() const { return refused && udpHeard != 0 && refusedAlive < kRefusedAlive; }
  int64_t tcpRefusedNs = INT64_MIN / 2;  // when its port last took no connection, though the host is there
  int udpProofs = 0;                     // questions and answers that came by UDP alone since one was missing
  int tcpProofs = 0;                     // and by TCP alone since anything came by UDP
  int64_t lastProof = 0;                 // when such a question was last sent
  int64_t proofHeard = 0;                // and when one was last answered by UDP
  int64_t tcpProofNs = 0;                // when one was last counted: many may wait for a late process
  void heardProof(bool byUdp, int64_t now) {
    if (byUdp) {
      udpProofs++;
    } else if (now - tcpProofNs >= kProofsApartNs) {
      tcpProofNs = now;
      tcpProofs++;
    }
  }
  int64_t nextStream = 0;    // not before
  int streamTries = 0;       // without an answer
  bool saidUdpLost = false;  // and NCCL's log says so
  StreamSlot control, acks;
  SideStreamPtr knocks;   // see SecondWay::knock
  SideStreamPtr spare;    // see SecondWay::keepSpare
  int64_t nextSpare = 0;  // not before

 private:
  bool set(PathState next) {
    state_.store(next, std::memory_order_relaxed);
    return true;
  }
  bool die(int64_t now) {
    if (state() == PathState::Dead) return false;
    // A path that fails again before it was trusted again is the same failure, counted on.
    failures_ = now - lastDeath_ > kForgiveNs ? 1 : failures_ + 1;
    lastDeath_ = now;
    return set(PathState::Dead);
  }
  const Probation probation_;
  std::atomic<PathState> state_{PathState::Up};
  int64_t suspectUntil_ = 0;
  bool standsStill_ = false;
  bool diedByLink_ = false;
  int64_t doubtedAt_ = INT64_MIN / 2;
  int misses_ = 0;
  uint32_t pingRound_ = 0, pingedSince_ = 1;  // asked in every round from the second to the first
  uint32_t judged_ = 0;
  int64_t silentSince_ = 0;  // the first of misses_
  int64_t carried_ = INT64_MIN / 2;
  int failures_ = 0;
  bool dataDoubt_ = false, dataProven_ = false;
  int dataFailures_ = 0;
  int64_t proofUntil_ = 0, provenNs_ = INT64_MIN / 2;
  int64_t dataDoubtedAt_ = INT64_MIN / 2;
  int64_t lastDeath_ = INT64_MIN / 2;
  int64_t probationSince_ = 0;
};

}  // namespace r2cc
