// All ranks of a communicator take a new decision (a schedule) from the same group on, although each enqueues at its
// own pace. docs/internals/agreement.md says what is promised, and how.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "agree/gate.h"
#include "agree/terms.h"
#include "tls/job_secret.h"

namespace r2cc::agree {

constexpr size_t kMaxReport = 4 << 10;     // bytes; longer reports are refused with std::invalid_argument
constexpr size_t kMaxProposal = 64 << 10;  // bytes; a longer proposal is logged, and no switch

/// Everybody's text, by rank, over the communicator's own bootstrap. Called once, by make().
using AllGather = std::function<std::vector<std::string>(const std::string& mine)>;
/// On rank 0, never on the enqueuing thread: the newest report of each rank (empty: none yet) -> the proposal. Empty:
/// nothing needs to change. Called again whenever a report changed; calls are never simultaneous.
using Decide = std::function<std::string(const std::vector<std::string>& reports)>;
/// What Prepare says: whether this rank can, and what must be alike on all ranks before they switch.
struct Prepared {
  Prepared(bool able, Terms terms = {}) : able(able), terms(std::move(terms)) {}  // NOLINT(*-explicit-*): or just bool
  bool able;
  Terms terms;
};
/// On every rank, never on the enqueuing thread, before this rank promises anything: may do slow work, and wait for
/// other ranks' doing the same. Not able, or an exception: this rank cannot; nobody switches, as where the terms
/// differ. It may be called for a proposal that is then withdrawn. It must return in the end: the destructor waits for
/// it.
using Prepare = std::function<Prepared(const std::string& proposal)>;

struct Options {
  int rank = 0;
  int ranks = 1;
  std::string bindAddress = "127.0.0.1";  // numeric IPv4 or IPv6 (with %interface where link-local), without port
  std::string cannot;                     // why this rank cannot take part; empty: it can
  std::string name;                       // for messages: the communicator's
  Terms terms;                            // what must be alike on all ranks from the start
  /// What frames are encrypted with (encryptionOf); null: they go in the clear. Ranks that differ in it never begin.
  std::shared_ptr<const Encryption> encryption;

  /// R2CC_HOLD_MS. After this long a lost connection is said. A rank that promised gets its error then; all others go
  /// on.
  std::chrono::milliseconds hold{60000};
  std::chrono::milliseconds closed{5000};       // the same if the other process closed it, or refuses a new one
  std::chrono::milliseconds silence{6000};      // a connection that says nothing for this long is made anew
  std::chrono::milliseconds prepare{30000};     // rank 0 waits this long for everybody's Prepare, then withdraws
  std::chrono::milliseconds promise{2000};      // ... and this long for everybody's promise
  std::chrono::milliseconds gather{20};         // reports within this time make one decision
  std::chrono::milliseconds quiet{500};         // at least this between two switches; doubles while they fail, to 60 s
  std::chrono::milliseconds goodbye{1000};      // for so long at most the others are waited for to hear of the end
  std::function<bool()> aborted;                // polled every millisecond while enter() waits; may be empty
  std::function<void(const std::string&)> log;  // background thread; one line; may be empty
  /// As log, of what a user has to mend: on every rank; what never() says, on rank 0 alone. Empty: log has it.
  std::function<void(const std::string&)> warn;
};

/// The ranks were started differently. All of them throw it, and say the same.
struct Disagreement : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What has happened so far on this rank; any thread.
struct Stats {
  uint64_t switches = 0;    // decisions that were committed
  uint64_t withdrawn = 0;   // attempts that were not
  uint64_t waits = 0;       // times that enter() stood at a promised group
  uint64_t waitedNs = 0;    // in all
  uint64_t reconnects = 0;  // connections lost and resumed
  uint64_t refused = 0;     // callers and frames that were not genuine
  std::string lastWithdrawal;
};

/// One per communicator and rank; a process may hold many, also several ranks of one communicator, and enter them from
/// one thread in any order.
class Agreement {
 public:
  /// Collective: every rank calls it with the same `ranks`. `decide` is used on rank 0 only. Returns once the addresses
  /// are exchanged; connections are made in the background. A rank that cannot take part (no descriptor, no address to
  /// listen on) says so: nothing is ever switched, and every rank enters its groups. Throws std::invalid_argument
  /// (options), Disagreement, std::runtime_error (what the others sent is no address), and whatever `gather` throws.
  static std::unique_ptr<Agreement> make(const Options& options, const AllGather& gather, Decide decide,
                                         Prepare prepare);

  /// Why nothing is ever switched, in the same words on every rank: who said that it cannot take part. Empty: nobody.
  const std::string& never() const;

  /// Any thread: what rank 0 should know of this rank now. The newest wins; the same again is not sent.
  void report(std::string blob);

  /// The enqueuing thread, once per group, before anything of the group is launched: the decision that holds for this
  /// group. `history` is the caller's hash of everything this communicator enqueued so far, this group included; it
  /// must be equal on all ranks. The reference is good until the next call. Waits only at a promised group. Throws
  /// AgreementBroken once this rank cannot go on; every later call does so again.
  const Decision& enter(uint64_t history) { return gate_.enter(history); }

  /// The enqueuing thread, after enter(): this group is being captured into a CUDA graph, which keeps its decision.
  void captured() { gate_.captured(); }

  /// Any thread: the communicator is aborted here. enter() throws from now on, also where it waits; the others see a
  /// withdrawn switch and no further ones.
  void abort();

  Stats stats() const;

  /// In a child that was forked meanwhile all of these do nothing, and enter() throws once its lease is over.
  /// Tells the others (a running switch is withdrawn for all), and waits for a running callback alone: nothing of the
  /// caller's is called any more. That the others have heard it is waited for by the background thread, whose end (with
  /// the process's last agreement) may take Options::goodbye. Not at all where `aborted`. No thread may be in enter().
  ~Agreement();
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

 private:
  class Impl;
  explicit Agreement(Gate& gate, std::unique_ptr<Impl> impl);
  Gate& gate_;  // the Impl's
  std::unique_ptr<Impl> impl_;
};

}  // namespace r2cc::agree
